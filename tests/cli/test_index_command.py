"""`beliefrag index`: the report, what was skipped and why, and running it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval import Bm25Index
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, on_terminal, write_docs, write_script
from tests.support.messages import mentions

Command = Callable[..., Ran]


def rows(ran: Ran) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in ran.out.splitlines() if not line.startswith(" "))


def test_the_report_says_what_is_in_the_index(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("index", write_docs(home), "--out", home / "ships")
    assert (ran.code, ran.err) == (0, "")
    opened = Bm25Index.open(home / "ships")
    assert rows(ran)["files"] == "3 read, 0 unchanged, 0 removed"
    assert rows(ran)["passages"] == f"{len(opened)} (3 added, 0 removed)"
    assert rows(ran)["fingerprint"] == opened.fingerprint
    assert rows(ran)["skipped"] == "0"


def test_what_could_not_be_read_is_listed_with_the_reason(beliefrag: Command, home: Path) -> None:
    docs = write_docs(home)
    (docs / "broken.pdf").write_bytes(b"not a pdf")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    ran = beliefrag("index", docs, "--out", home / "ships")
    assert ran.code == 0
    assert rows(ran)["skipped"] == "2"
    skipped = {Path(line.split(": ")[0].strip()).name: line for line in ran.out.splitlines() if line.startswith("  ")}
    assert set(skipped) == {"broken.pdf", "picture.png"}
    assert "(.png" in skipped["picture.png"]


def test_a_second_run_takes_in_what_changed(beliefrag: Command, home: Path) -> None:
    docs = write_docs(home)
    first = beliefrag("index", docs, "--out", home / "ships")
    (docs / "gjoa.md").unlink()
    (docs / "maud.md").write_text("# Maud\n\nMaud was another ship of Amundsen's.\n")
    second = beliefrag("index", docs, "--out", home / "ships")
    assert rows(second)["files"] == "1 read, 2 unchanged, 1 removed"
    assert rows(second)["fingerprint"] != rows(first)["fingerprint"]


def test_nothing_readable_is_a_failure_and_leaves_no_index(beliefrag: Command, home: Path) -> None:
    (home / "docs").mkdir()
    (home / "docs" / "picture.png").write_bytes(b"\x89PNG")
    ran = beliefrag("index", home / "docs", "--out", home / "ships")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing to index" in ran.err
    assert "picture.png" in ran.err
    assert ran.err.count("\n") == 1
    assert not (home / "ships").exists()


def test_a_path_and_a_place_are_needed(beliefrag: Command, home: Path) -> None:
    without_paths = beliefrag("index", "--out", home / "ships")
    assert without_paths.code == 2
    assert "Name files or folders" in without_paths.err
    assert mentions(beliefrag("index", home).err, "--out DIR", "--to ENGINE")
    assert beliefrag("index", home).code == 2


def test_a_terminal_sees_a_bar_that_goes_away(home: Path) -> None:
    code, screen = on_terminal("index", write_docs(home), "--out", home / "ships")
    assert code == 0
    assert re.search(r"indexing.*\d/3.*files, \d passages", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen))
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen[screen.rindex("\x1b[?25h") :])
    assert "indexing" not in last
    assert "3 read, 0 unchanged, 0 removed" in last


@pytest.mark.weights
def test_vectors_are_made_with_the_index_and_found_by_hybrid_retrieval(
    embedding_weights: Path, beliefrag: Command, home: Path
) -> None:
    docs, weights = write_docs(home), embedding_weights
    ran = beliefrag("index", docs, "--out", home / "ships", "--vectors", "--set", f"retrievers.dense.weights={weights}")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"all-minilm-l6-v2 [0-9a-f]{8}", rows(ran)["vectors"])
    assert len(list((home / "ships").glob("vectors/*/*/keys.npy"))) == 1
    model = write_script(home, SURE, ANSWER)
    given = ["--index", home / "ships", "--retriever", f"hybrid:weights={weights}"]
    asked = beliefrag("ask", QUESTION, *given, "--model", model, *BORROWED, "--json")
    assert asked.code == 0, asked.err
    assert f"dense {rows(ran)['vectors']}" in asked.record["made_with"]["retriever"]
    assert not (home.parent / "cache" / "vectors").exists(), "none had to be made again"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--out", "ships", "--vectors", "--set", "retrievers.dense.weights=nowhere.gguf"], "no weights nowhere.gguf"),
        (["--to", "postgres:url=postgresql://localhost/db", "--vectors"], "for an index in a folder"),
        (["--out", "ships", "--upgrade", "--vectors"], "--upgrade only"),
    ],
)
def test_vectors_that_cannot_be_made_are_a_failure_and_leave_no_index(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], words: str
) -> None:
    monkeypatch.chdir(home)
    ran = beliefrag("index", write_docs(home), *given)
    assert ran.code in (1, 2)
    assert ran.out == ""
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert not (home / "ships").exists()
