"""Hostile files: each costs a line of the report, and what else is in the folder is indexed."""

from __future__ import annotations

import gzip
import os
import signal
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from beliefrag.retrieval import Bm25Index, IndexProgress, index_paths
from beliefrag.retrieval.documents import CorpusFile, Unreadable
from beliefrag.retrieval.isolation import ReadingWorkers
from beliefrag.types import Reading
from tests.support.messages import mentions

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_word(path: Path, body: str) -> None:
    kinds = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{kinds}/content-types"><Default Extension="rels" ContentType="application/vnd.'
            f'openxmlformats-package.relationships+xml"/><Override PartName="/w.xml" ContentType="{main}"/></Types>',
        )
        parts.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{kinds}/relationships"><Relationship Id="r1" '
            f'Type="{office}/relationships/officeDocument" Target="w.xml"/></Relationships>',
        )
        parts.writestr("w.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')


def write_wide_cell(path: Path) -> None:
    cell = "<w:tc><w:tcPr><w:gridSpan w:val='900000000'/></w:tcPr><w:p/></w:tc>"
    write_word(path, f"<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid><w:tr>{cell}</w:tr></w:tbl>")


def write_commas(path: Path) -> None:
    path.write_bytes(b"a,b\n" + b"," * 60_000_000)


def write_one_line(path: Path) -> None:
    path.write_bytes(b"word " * 40_000_000)


def write_attributes(path: Path) -> None:
    path.write_text(f"<p {' '.join(f'a{number}=1' for number in range(300_000))}>words</p>")


def write_gzip_bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"text": "the same again"}\n' * 200_000))


@pytest.mark.parametrize(
    ("name", "write", "limits", "reason"),
    [
        ("commas.csv", write_commas, Reading(memory_mb=256), "more than 256 MB of memory"),
        ("line.txt", write_one_line, Reading(memory_mb=256), "more than 256 MB of memory"),
        ("attributes.html", write_attributes, Reading(seconds=1), "more than 1 s"),
        ("bomb.jsonl.gz", write_gzip_bomb, Reading(output_mb=1), "more than 1 MB of text"),
    ],
)
def test_a_file_that_exceeds_a_limit_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, write: Callable[[Path], None], limits: Reading, reason: str
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for other in ("a.txt", "z.txt"):
        (docs / other).write_text(f"The words of {other}.")
    write(docs / name)
    report = index_paths([docs], tmp_path / "index", reading=limits)
    assert [Path(item.path).name for item in report.skipped] == [name]
    assert mentions(report.skipped[0].reason, reason, "reading.")
    assert report.passages_total == 2


def test_a_file_that_was_refused_is_read_again_only_when_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beliefrag.retrieval.indexing._SETTLED_NS", 0)
    docs, small, large = tmp_path / "docs", Reading(output_mb=1), Reading(output_mb=8)
    docs.mkdir()
    (docs / "a.txt").write_text("Words.")
    (docs / "b.html").write_text("<script>none()</script>")
    (docs / "c.jsonl").write_text('{"text": "%s"}\n' % ("word " * 100) * 2200)

    def index(reading: Reading = small) -> tuple[list[str], list[str]]:
        with patch.object(ReadingWorkers, "begin", autospec=True, side_effect=ReadingWorkers.begin) as begin:
            report = index_paths([docs], tmp_path / "index", reading=reading)
        read = [call.args[1].name for call in begin.call_args_list]
        return read, [Path(item.path).name for item in report.skipped]

    assert index() == (["a.txt", "b.html", "c.jsonl"], ["b.html", "c.jsonl"])
    os.utime(docs / "c.jsonl")
    for _ in range(2):
        assert index() == ([], ["b.html", "c.jsonl"])
    (docs / "b.html").write_text("<p>other words</p>")
    assert index() == (["b.html"], ["c.jsonl"])
    with monkeypatch.context() as installed:
        installed.setattr("shutil.which", lambda name: f"/opt/{name}")
        assert index() == (["c.jsonl"], ["c.jsonl"])
    assert index(large) == (["c.jsonl"], [])
    assert index() == ([], [])


def test_a_cell_that_claims_to_be_wide_is_a_cell(tmp_path: Path) -> None:
    write_wide_cell(tmp_path / "wide.docx")
    (tmp_path / "a.txt").write_text("Words.")
    report = index_paths([tmp_path], tmp_path / "index", reading=Reading(memory_mb=256))
    assert [Path(item.path).name for item in report.skipped] == ["wide.docx"]
    assert report.passages_total == 1


def test_a_worker_that_is_killed_costs_the_file_that_it_read_and_no_other(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(4)]
    with ReadingWorkers(Reading()) as workers, ExitStack() as opened:
        readings = []
        for name in names:
            (tmp_path / name).write_text(f"The words of {name}.")
            file = CorpusFile(name, name, opened.enter_context((tmp_path / name).open("rb")))
            readings.append(workers.begin(file))
            os.kill(workers._workers[0]._process.pid, signal.SIGSTOP)
        os.kill(workers._workers[0]._process.pid, signal.SIGKILL)
        with pytest.raises(Unreadable, match="crashes its reader"):
            list(readings[0])
        assert [[passage.text for passage in reading] for reading in readings[1:]] == [
            [f"The words of {name}."] for name in names[1:]
        ]


def test_a_pipe_in_place_of_a_file_that_was_listed_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Words.")
    (tmp_path / "b.txt").write_text("Words before they are a pipe.")
    index_paths([tmp_path], tmp_path / "index")

    def replace_file(progress: IndexProgress) -> None:
        if progress.path.endswith("b.txt"):
            (tmp_path / "b.txt").unlink(missing_ok=True)
            os.mkfifo(tmp_path / "b.txt")

    report = index_paths([tmp_path], tmp_path / "index", progress=replace_file)
    assert [item.reason for item in report.skipped] == ["is not a regular file"]
    assert report.passages_total == 1


def test_links_that_lead_out_of_the_folder_are_followed_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("Words behind a link.")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Words.")
    (docs / "inside.txt").symlink_to(docs / "a.txt")
    (docs / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (docs / "device.txt").symlink_to("/dev/zero")
    report = index_paths([docs], tmp_path / "index")
    assert [Path(item.path).name for item in report.skipped] == ["device.txt", "outside.txt"]
    assert all(mentions(item.reason, "link", "reading.follow_links") for item in report.skipped)
    assert not Bm25Index.open(tmp_path / "index").search("behind", 5)
    report = index_paths([docs], tmp_path / "index", reading=Reading(follow_links=True))
    assert [item.reason for item in report.skipped] == ["is not a regular file"]
    assert Bm25Index.open(tmp_path / "index").search("behind", 5)
