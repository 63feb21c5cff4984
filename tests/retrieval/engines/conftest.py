from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engines import EmbeddedEngine, EngineUnderTest, MilvusEngine, PostgresEngine

ENGINES = ("embedded", "pg_search", "pg_textsearch", "milvus")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on each engine in turn."""
    name = str(request.param)
    if name == "embedded":
        return EmbeddedEngine(tmp_path / "index")
    if name == "milvus":
        return MilvusEngine(tmp_path / "passages.db")
    return PostgresEngine(request.getfixturevalue("postgres"), name)
