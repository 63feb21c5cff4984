from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tests.cli.shell import Ran, in_process


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, without the home, cache and settings of the developer."""
    for name in [name for name in os.environ if name.startswith(("BELIEFRAG_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BELIEFRAG_ANSWER_STYLE", "short")
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def beliefrag(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command through the entry point, in this process."""
    # However slow the machine is, no line about progress comes between those that a test looks at.
    monkeypatch.setattr("beliefrag.cli.output._SECONDS_OF_SILENCE", 3600.0)
    return lambda *arguments: in_process(capsys, *arguments)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves pictures empty, for tests that look at none: half of the time of a small study goes into drawing them."""
    figure = pytest.importorskip("matplotlib.figure")

    def leave_empty(_: object, file: str | Path | IO[str], **__: object) -> None:
        if isinstance(file, str | Path):
            Path(file).write_bytes(b"")
        else:
            file.write("<svg ></svg>")

    monkeypatch.setattr(figure.Figure, "savefig", leave_empty)
