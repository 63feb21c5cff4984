from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engines import EmbeddedEngine, EngineUnderTest, PostgresEngine

ENGINES = ("embedded", "pg_search", "pg_textsearch")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on each engine in turn."""
    name = str(request.param)
    if name == "embedded":
        return EmbeddedEngine(tmp_path / "index")
    return PostgresEngine(request.getfixturevalue("postgres"), name)
