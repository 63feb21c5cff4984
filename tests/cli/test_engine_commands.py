"""Engines elsewhere from the command line: filling one, asking on it, and what the result says about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, write_docs, write_script
from tests.cli.test_serve_command import Process
from tests.support.postgres import PostgresServer

Command = Callable[..., Ran]


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


def test_passages_that_an_engine_does_not_hold_are_not_asked_there(
    postgres: PostgresServer, beliefrag: Command, home: Path
) -> None:
    engine = f"postgres:url={postgres.database_with('pg_search')},table=other"
    docs = write_docs(home)
    assert beliefrag("index", docs, "--to", engine).code == 0
    (docs / "maud.md").write_text("# Maud\n\nMaud was another ship.\n", encoding="utf-8")
    model = write_script(home, SURE, ANSWER)
    refused = beliefrag("ask", QUESTION, "--docs", docs, "--set", f"retriever={engine}", "--model", model, *BORROWED)
    assert refused.code != 0
    assert "fill=true" in refused.err
    filled = beliefrag(
        "ask", QUESTION, "--docs", docs, "--retriever", f"{engine},fill=true", "--model", model, *BORROWED, "--quiet"
    )
    assert filled.out == "Larvik\n", filled.err


def test_a_server_answers_from_an_engine(postgres: PostgresServer, beliefrag: Command, home: Path) -> None:
    engine = f"postgres:url={postgres.database_with('pg_search')},table=served"
    assert beliefrag("index", write_docs(home), "--to", engine).code == 0
    server = Process("--set", f"retriever={engine}", "--model", write_script(home, SURE, ANSWER), *BORROWED)
    try:
        server.wait_until_it_listens()
        answer = server.ask().json()
    finally:
        server.process.kill()
        server.end()
    assert answer["answer"] == "Larvik"
    assert {source["source"] for source in answer["sources"]} >= {"archer.md"}
