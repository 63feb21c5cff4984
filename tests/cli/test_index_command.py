"""`beliefrag index`: the report, what was skipped and why, and running it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from beliefrag.retrieval import Bm25Index
from tests.cli.shell import Ran, on_terminal, write_docs

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


def test_nothing_readable_is_a_failure_and_leaves_no_index(beliefrag: Command, home: Path) -> None:
    (home / "docs").mkdir()
    (home / "docs" / "picture.png").write_bytes(b"\x89PNG")
    ran = beliefrag("index", home / "docs", "--out", home / "ships")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing to index" in ran.err
    assert "picture.png" in ran.err
    assert ran.err.count("\n") == 1
    assert not (home / "ships").exists()


def test_a_terminal_sees_a_bar_that_goes_away(home: Path) -> None:
    code, screen = on_terminal("index", write_docs(home), "--out", home / "ships")
    assert code == 0
    assert re.search(r"indexing.*\d of 3 files, \d passages", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen))
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen[screen.rindex("\x1b[?25h") :])
    assert "indexing" not in last
    assert "3 read, 0 unchanged, 0 removed" in last


def test_an_index_reports_as_json(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("index", write_docs(home), "--out", home / "ships", "--json")
    report = ran.record
    assert (ran.code, report["files_read"], report["passages_total"], report["skipped"]) == (0, 3, 3, [])
    assert report["index"] == str(home / "ships") and len(report["fingerprint"]) == 32
    again = beliefrag("index", "--upgrade", "--out", home / "ships", "--json").record
    assert again == {"index": str(home / "ships"), "upgraded": False}
