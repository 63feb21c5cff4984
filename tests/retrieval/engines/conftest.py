from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beliefrag.retrieval.engines.milvus import MilvusOptions
from tests.support.engines import (
    AnyEngine,
    EmbeddedEngine,
    EngineUnderTest,
    MilvusEngine,
    MilvusHybridEngine,
    OpenSearchEngine,
    PostgresEngine,
)
from tests.support.opensearch_server import OpenSearchServer

ENGINES = ("embedded", "pg_search", "pg_textsearch", "milvus", "opensearch", "real_opensearch")


@pytest.fixture
def opensearch_server() -> Iterator[OpenSearchServer]:
    """A stand-in for OpenSearch that refuses what is not documented."""
    server = OpenSearchServer()
    yield server
    server.stop()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on each engine in turn, all of which rank by BM25."""
    return make_engine(str(request.param), request, tmp_path)


@pytest.fixture(params=(*ENGINES, "milvus_hybrid"))
def any_engine(request: pytest.FixtureRequest, tmp_path: Path) -> AnyEngine:
    """An empty index on each engine in turn, the one included that also ranks by vectors."""
    if request.param == "milvus_hybrid":
        return MilvusHybridEngine(MilvusOptions(url=str(tmp_path / "passages.db"), hybrid=True))
    return make_engine(str(request.param), request, tmp_path)


def make_engine(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on an engine."""
    if name == "embedded":
        return EmbeddedEngine(tmp_path / "index")
    if name == "milvus":
        return MilvusEngine(tmp_path / "passages.db")
    if name == "opensearch":
        server = request.getfixturevalue("opensearch_server")
        return OpenSearchEngine(server.url)
    if name == "real_opensearch":
        if not (url := os.environ.get("BELIEFRAG_OPENSEARCH_URL")):
            pytest.skip("BELIEFRAG_OPENSEARCH_URL names no server")
        return OpenSearchEngine(url)
    return PostgresEngine(request.getfixturevalue("postgres"), name)
