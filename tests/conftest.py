from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.http_server import ChatServer

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer
    from tests.support.ray_cluster import RayNodes

# How fast a machine is, or what else runs on it, is no property of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def no_ambient_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, endpoints and proxies of the developer's machine are not part of any test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module", autouse=True)
def _same_settings_for_the_next_file() -> Iterator[None]:
    """Checks that a file of tests leaves the settings and the current folder as it found them."""
    before = _settings_in_force()
    yield
    assert _settings_in_force() == before


def _settings_in_force() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name.startswith(("BELIEFRAG_", "XDG_", "HOME"))}
    return {**ours, "current folder": str(Path.cwd())}


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """A chat server on loopback that plays what a test tells it to."""
    server = ChatServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that all tests share; each makes a database of its own, and starts it again after a kill."""
    from tests.support.postgres import run_postgres

    with run_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A Ray cluster of two nodes on this machine, which the tests of a module share."""
    from tests.support.ray_cluster import run_ray

    with run_ray() as cluster:
        yield cluster
