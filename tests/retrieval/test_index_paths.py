from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from beliefrag.errors import CorpusError
from beliefrag.retrieval import Bm25Index, EmptyCorpus, IndexProgress, IndexReport, index_paths, indexing
from beliefrag.retrieval.documents import FORMATS
from beliefrag.retrieval.indexing import count_outdated
from tests.support.messages import mentions

Restricted = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "harbour.txt").write_text("The harbour was closed after the storm.")
    (folder / "sub" / "tower.md").write_text("# The tower\n\nIt was built of granite in 1871.")
    (folder / "rows.jsonl").write_text('{"id": "r1", "title": "Row", "text": "a row about whales"}\n')
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "index"


def counts(report: IndexReport) -> tuple[int, int, int]:
    return report.files_read, report.files_unchanged, report.files_removed


def age(folder: Path) -> None:
    """Make all files look old, so that their stamps are believed."""
    for file in folder.rglob("*"):
        os.utime(file, (1e9, 1e9))


def reasons(report: IndexReport, folder: Path) -> dict[str, str]:
    return {os.path.relpath(item.path, folder): item.reason for item in report.skipped}


def found(out: Path, query: str) -> list[str]:
    return [hit.passage.text for hit in Bm25Index.open(out).search(query, 10)]


def test_a_folder_becomes_an_index(docs: Path, out: Path) -> None:
    report = index_paths([docs], out)
    assert counts(report) == (3, 0, 0)
    assert (report.passages_added, report.passages_removed, report.passages_total, report.skipped) == (3, 0, 3, ())
    index = Bm25Index.open(out)
    assert (len(index), index.fingerprint) == (3, report.fingerprint)
    [tower] = index.search("granite", 5)
    assert (tower.passage.title, tower.passage.source) == ("The tower", str(docs / "sub" / "tower.md"))
    assert index.get(["r1"])[0].text == "a row about whales"


def test_new_changed_and_deleted_files_are_taken_in(docs: Path, out: Path, tmp_path: Path) -> None:
    index_paths([docs], out)
    (docs / "harbour.txt").write_text("The harbour was opened again.")
    (docs / "sub" / "tower.md").unlink()
    (docs / "new.csv").write_text("name,height\nBruna,41\n")
    report = index_paths([docs], out)
    assert counts(report) == (2, 1, 1)
    assert (report.passages_added, report.passages_removed, report.passages_total) == (2, 2, 3)
    assert found(out, "harbour") == ["The harbour was opened again."]
    assert found(out, "granite") == []
    assert report.fingerprint == index_paths([docs], tmp_path / "fresh").fingerprint


def test_content_decides_and_not_the_time_stamp(docs: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_paths([docs], out)
    age(docs)
    assert counts(index_paths([docs], out)) == (0, 3, 0)
    text = (docs / "harbour.txt").read_text()
    (docs / "harbour.txt").write_text(text.replace("closed", "opened"))
    os.utime(docs / "harbour.txt", (1e9, 1e9))
    assert counts(index_paths([docs], out)) == (1, 2, 0)
    assert found(out, "opened") == ["The harbour was opened after the storm."]


def test_files_with_a_settled_stamp_are_not_even_opened(docs: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_SETTLED_NS", 1000)
    time.sleep(0.01)
    index_paths([docs], out)
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert counts(index_paths([docs], out)) == (0, 3, 0)


def test_a_single_file_can_be_given_and_other_files_stay_indexed(docs: Path, out: Path) -> None:
    index_paths([docs], out)
    (docs / "sub" / "tower.md").unlink()
    (docs / "harbour.txt").write_text("Only this one is looked at.")
    report = index_paths([docs / "harbour.txt"], out)
    assert counts(report) == (1, 0, 0)
    assert found(out, "granite") != []


def test_folders_that_lie_in_each_other_are_read_once(docs: Path, out: Path) -> None:
    report = index_paths([docs / "sub", docs, docs / "harbour.txt"], out)
    assert counts(report) == (3, 0, 0)


def test_what_cannot_be_read_is_named_with_its_reason(docs: Path, out: Path) -> None:
    (docs / "photo.mov").write_bytes(b"\x00MOV")
    (docs / "README").write_text("no ending")
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (docs / "empty.txt").write_text("")
    (docs / "binary.txt").write_bytes(b"\x00\x01")
    (docs / "blank.html").write_text("<script>only()</script>")
    (docs / "rows.jsonl").write_text('{"id": "r1", "text": "good"}\nbroken\n')
    os.mkfifo(docs / "pipe.txt")
    (docs / "dangling.txt").symlink_to(docs / "nowhere.txt")
    (docs / "loop.txt").symlink_to(docs / "loop.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(docs)
        listening.bind("socket.txt")
        os.chdir(here)
        report = index_paths([docs], out)
    skipped = reasons(report, docs)
    expected = {
        "photo.mov": ".mov",
        "README": "no ending",
        "broken.pdf": "broken pdf",
        "empty.txt": "empty",
        "binary.txt": "binary",
        "blank.html": "no text",
        "rows.jsonl": "line 2",
        "pipe.txt": "regular file",
        "socket.txt": "regular file",
        "dangling.txt": "No such file or directory",
        "loop.txt": "Too many levels of symbolic links",
    }
    assert skipped.keys() == expected.keys()
    assert {name: mentions(skipped[name], cause) for name, cause in expected.items()} == dict.fromkeys(expected, True)
    assert report.files_read == 3


def test_many_broken_lines_are_counted_rather_than_listed(docs: Path, out: Path) -> None:
    (docs / "rows.jsonl").write_text('{"id": "r1", "text": "good"}\n' + "broken\n" * 1000)
    report = index_paths([docs], out)
    assert len(report.skipped) == 21
    assert report.skipped[-1].reason.startswith("980 ")
    assert index_paths([docs], out).skipped == report.skipped, "an unchanged file is reported again"


def test_links_to_folders_are_not_followed(docs: Path, out: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (docs / "loop").symlink_to(docs)
    (docs / "outside").symlink_to(other)
    report = index_paths([docs], out)
    assert report.files_read == 3
    assert set(reasons(report, docs)) == {"loop", "outside"}


def test_hidden_files_and_indexes_are_passed_over_unless_given(docs: Path, tmp_path: Path) -> None:
    (docs / ".git").mkdir()
    (docs / ".git" / "notes.txt").write_text("hidden words")
    (docs / ".hidden.txt").write_text("hidden words")
    report = index_paths([docs], docs / "index")
    again = index_paths([docs], docs / "index")
    third = index_paths([docs], docs / "another")
    assert counts(report) == (3, 0, 0)
    assert counts(again) == (0, 3, 0)
    assert counts(third) == (3, 0, 0)
    assert report.skipped == ()
    assert index_paths([docs / ".git"], tmp_path / "given").files_read == 1


def test_a_folder_that_cannot_be_listed_keeps_what_is_indexed_of_it(
    public_folder: Path, without_rights: Restricted
) -> None:
    docs = public_folder / "docs"
    (docs / "closed").mkdir(parents=True)
    (docs / "open.txt").write_text("open words")
    (docs / "closed" / "a.txt").write_text("closed words")
    (docs / "secret.txt").write_text("secret words")
    (public_folder / "cache").mkdir()
    first = index_paths([docs], public_folder / "cache" / "index")
    for path in [public_folder / "cache", *(public_folder / "cache").rglob("*")]:
        path.chmod(0o777)
    (docs / "closed").chmod(0o000)
    (docs / "secret.txt").chmod(0o000)
    os.utime(docs / "secret.txt", (1e9, 1e9))
    with without_rights():
        report = index_paths([docs], public_folder / "cache" / "index")
    (docs / "closed").chmod(0o755)
    assert counts(first) == (3, 0, 0)
    assert counts(report) == (0, 1, 0)
    assert report.passages_total == 3
    told = reasons(report, docs)
    assert set(told) == {"closed", "secret.txt"}
    assert mentions(told["closed"], "listed", "Permission denied")
    assert mentions(told["secret.txt"], "read", "Permission denied")


def test_a_file_that_became_unreadable_loses_its_old_passages(docs: Path, out: Path) -> None:
    index_paths([docs], out)
    (docs / "harbour.txt").write_bytes(b"\x00\x01")
    report = index_paths([docs], out)
    assert report.passages_total == 2
    assert found(out, "harbour") == []
    (docs / "harbour.txt").write_text("The harbour is back.")
    assert index_paths([docs], out).files_read == 1


def test_names_of_any_bytes_are_indexed_and_shown(docs: Path, out: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \x1b[31m\n.txt")
    (docs / name).write_text("words in an odd file")
    (docs / os.fsdecode(b"\xff.mov")).write_bytes(b"")
    seen: list[IndexProgress] = []
    report = index_paths([docs], out, progress=seen.append)
    assert report.files_read == 4
    [hit] = Bm25Index.open(out).search("odd", 5)
    assert hit.passage.source.endswith("caf\\xe9 \\u001b[31m\\u000a.txt")
    assert hit.passage.title.isprintable()
    assert all(path.isprintable() for path in [*(at.path for at in seen), *(item.path for item in report.skipped)])
    assert counts(index_paths([docs], out)) == (0, 4, 0)
    (docs / name).unlink()
    assert counts(index_paths([docs], out)) == (0, 3, 1)


def test_an_empty_corpus_is_an_error_that_says_what_was_there_and_what_is_read(tmp_path: Path, out: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(8):
        (docs / f"photo{n}.mov").write_bytes(b"\x00MOV")
    (docs / "broken.pdf").write_bytes(b"nothing")
    with pytest.raises(EmptyCorpus) as raised:
        index_paths([docs], out)
    assert str(docs) in raised.value.message
    assert "photo0.mov" in raised.value.message and "(.mov)" in raised.value.message
    assert "4 more" in raised.value.message
    assert all(ending in raised.value.remedy for ending in FORMATS)
    assert not out.exists()


def test_when_all_documents_vanish_the_index_stays_as_it_was(docs: Path, out: Path) -> None:
    before = index_paths([docs], out)
    for path in list(docs.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(EmptyCorpus):
        index_paths([docs], out)
    assert Bm25Index.open(out).fingerprint == before.fingerprint


def test_a_path_that_does_not_exist_is_an_error(docs: Path, out: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere does not exist\."):
        index_paths([docs, docs / "nowhere"], out)
    assert not out.exists()


def test_a_file_that_changes_while_it_is_read_is_read_again_next_time(docs: Path, out: Path) -> None:
    rows = docs / "rows.jsonl"
    rows.write_text("".join(f'{{"id": "r{n}", "text": "a row about whales"}}\n' for n in range(1500)))

    def change(progress: IndexProgress) -> None:
        if progress.passages > 1000 and progress.path == str(rows):
            rows.write_text('{"id": "r1", "text": "written while it was being read"}\n')

    report = index_paths([docs], out, progress=change)
    assert reasons(report, docs).keys() == {"rows.jsonl"}
    assert mentions(reasons(report, docs)["rows.jsonl"], "changed", "run again")
    assert counts(index_paths([docs], out)) == (1, 2, 0)
    assert found(out, "written") == ["written while it was being read"]


def test_files_that_changed_since_they_were_indexed_are_counted(
    docs: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_SETTLED_NS", 1000)
    time.sleep(0.01)
    index_paths([docs], out)
    assert count_outdated(out) == 0
    (docs / "harbour.txt").write_text("Written again.")
    (docs / "sub" / "tower.md").unlink()
    assert count_outdated(out) == 2
