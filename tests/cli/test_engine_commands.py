"""Engines elsewhere from the command line: filling one, asking on it, and what the result says about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from beliefrag.record import EpisodeKey
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_files import read_episodes
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, write_docs, write_script
from tests.cli.test_serve_command import Process
from tests.support import bench_runs
from tests.support.postgres import PostgresServer
from tests.support.serving import wait_for

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


def test_an_engine_that_cannot_be_filled_is_named(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("index", write_docs(home), "--to", "bm25")
    assert ran.code == 2
    assert "postgres" in ran.err


def count_connections(postgres: PostgresServer) -> int:
    """How many connections to the database are open, apart from the one that asks."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    query += "AND backend_type = 'client backend'"  # the server's own cleaning comes and goes
    with psycopg.connect(postgres.database_with("pg_search")) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])


def outcomes(run: Path) -> dict[EpisodeKey, tuple[object, ...]]:
    """How each episode ended, with what it scored, read and cost."""
    return {
        episode.key: (episode.answer, episode.outcome, episode.metrics, episode.sources, episode.usage.tokens)
        for episode in read_episodes(run)
    }


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (("bench", "run", "--methods", "static,beliefrag", "--no-judge", "--yes", "--set", "borrow=published"), "."),
        (("calibrate", "collect", "--no-judge", "--yes"), "."),
        (("study", "frontier:methods=static+beliefrag", "--yes", "--set", "borrow=published"), "runs/comparison"),
    ],
    ids=["bench", "calibrate", "study"],
)
def test_many_questions_are_asked_on_an_engine_with_the_results_of_the_embedded_one(
    postgres: PostgresServer, beliefrag: Command, home: Path, command: tuple[str, ...], run: str
) -> None:
    engine = f"postgres:url={postgres.database_with('pg_search')},table=many_{command[0]},fill=true"
    data, model = bench_runs.write_dataset(home, "north"), bench_runs.write_script(home)
    given = ("--data", data, "--model", model, "--set", "verifier=structured")
    before = count_connections(postgres)
    here = beliefrag(*command, *given, "--out", home / "here")
    there = beliefrag(*command, *given, "--set", f"retriever={engine}", "--out", home / "there")
    assert (here.code, there.code) == (0, 0), there.err
    # Scores agree to some digits only, because engines add up the same terms in different orders.
    assert outcomes(home / "there" / run) == outcomes(home / "here" / run)
    # The server takes a moment to notice that a client has left.
    wait_for(lambda: count_connections(postgres) <= before, 20)
    searched = RunRecord.read(home / "there" / run).versions["engine of north"]
    assert f"many_{command[0]}" in searched and "PostgreSQL 17" in searched


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
