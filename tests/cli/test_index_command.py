"""`beliefrag index`: the report, what was skipped and why, running it again, and engines elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from beliefrag.retrieval import Bm25Index
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, on_terminal, write_docs, write_script
from tests.support.postgres import PostgresServer

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
    assert "picture" in skipped["picture.png"]


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


def test_documents_are_put_into_a_table_and_asked_there(
    postgres: PostgresServer, beliefrag: Command, home: Path
) -> None:
    engine = f"postgres:url={postgres.database_with('pg_search')},table=asked"
    docs = write_docs(home)
    filled = beliefrag("index", docs, "--to", engine)
    assert (filled.code, filled.err) == (0, "")
    again = beliefrag("index", docs, "--to", engine)
    assert "0 read, 3 unchanged" in again.out
    model = write_script(home, SURE, ANSWER)
    asked = beliefrag("ask", QUESTION, "--set", f"retriever={engine}", "--model", model, *BORROWED, "--json")
    assert asked.code == 0, asked.err
    made_with = asked.record["made_with"]
    assert made_with["engine"].startswith("asked on PostgreSQL 17")
    assert "pg_search" in made_with["engine"]
    assert made_with["corpus"] in filled.out
    linked = beliefrag("ask", QUESTION, "--retriever", f"{engine},linked=true", "--model", model, *BORROWED, "--json")
    assert linked.record["made_with"]["retriever"].startswith("linked ")
    (home / "maud.md").write_text("# Maud\n\nMaud was another ship.\n", encoding="utf-8")
    refused = beliefrag("ask", QUESTION, "--docs", home / "maud.md", "--retriever", engine, "--model", model, *BORROWED)
    assert refused.code != 0
    assert "and they are not the documents" in refused.err
