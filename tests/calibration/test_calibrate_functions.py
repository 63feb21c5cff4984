"""Calibration from Python: each step of the commands is a function with a typed result, and nothing is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag import calibrate
from beliefrag.calibration import fitting, load_artifact
from tests.support.planted_states import write_run


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "RESAMPLES", 12)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "states", questions=120)


def test_a_fit_is_written_only_where_a_file_is_named(
    states: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = calibrate.fit(states, name="mine")
    assert fitted.found.fit is not None
    assert (fitted.files, fitted.found.fit.label) == ((), "f1")
    file = tmp_path / "mine.json"
    again = calibrate.fit([states], name="mine", out=file)
    written = load_artifact(str(file))
    assert written.model_copy(update={"made": again.found.made}) == again.found
    assert any("conflict does not vary" in warning for warning in fitted.found.fit.warnings)
    assert [table.name for table in fitted.tables][:3] == ["about", "states", "quality"]
    assert capsys.readouterr() == ("", "")
