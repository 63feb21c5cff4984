from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import EmbeddedEngine, EngineUnderTest, PostgresEngine
from tests.support.postgres import PostgresServer, run_postgres

ENGINES = ("embedded", "pg_search", "pg_textsearch")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests; each test takes a database of its own."""
    with run_postgres() as server:
        yield server


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on each engine in turn."""
    name = str(request.param)
    if name == "embedded":
        return EmbeddedEngine(tmp_path / "index")
    return PostgresEngine(request.getfixturevalue("postgres"), name)
