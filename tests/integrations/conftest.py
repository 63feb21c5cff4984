from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.endless import Endless


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache and settings of whoever runs the tests are out of reach."""
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # LangChain sends traces to a service when these are set.
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    """A model that never replies, in the place of the one that the settings name."""
    model = Endless()
    monkeypatch.setattr("beliefrag.opening.open_provider", lambda *_, **__: model)
    return model
