from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import EmbeddedEngine, EngineUnderTest, OpenSearchEngine, PostgresEngine, RemoteEngine
from tests.support.opensearch_server import OpenSearchServer

REMOTE = ("pg_search", "pg_textsearch", "opensearch", "real_opensearch")


@pytest.fixture
def opensearch_server() -> Iterator[OpenSearchServer]:
    """A stand-in for OpenSearch that refuses what is not documented."""
    server = OpenSearchServer()
    yield server
    server.stop()


@pytest.fixture(params=("embedded", *REMOTE))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    """An empty index on each engine in turn."""
    if request.param == "embedded":
        return EmbeddedEngine(tmp_path / "index")
    return make_remote(str(request.param), request)


@pytest.fixture(params=REMOTE)
def remote(request: pytest.FixtureRequest) -> RemoteEngine:
    """An empty index on each engine elsewhere in turn."""
    return make_remote(str(request.param), request)


def make_remote(name: str, request: pytest.FixtureRequest) -> PostgresEngine | OpenSearchEngine:
    """Return an empty index on an engine."""
    if name == "opensearch":
        return OpenSearchEngine(request.getfixturevalue("opensearch_server").url)
    if name == "real_opensearch":
        if not (url := os.environ.get("BELIEFRAG_OPENSEARCH_URL")):
            pytest.skip("BELIEFRAG_OPENSEARCH_URL names no server")
        return OpenSearchEngine(url)
    return PostgresEngine(request.getfixturevalue("postgres"), name)
