"""Calibration from Python: each step of the commands is a function with a typed result, and nothing is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag import bench, calibrate
from beliefrag.calibration import fitting, load_artifact
from beliefrag.errors import SettingsError
from beliefrag.settings import Settings
from tests.support.bench_runs import write_dataset
from tests.support.planted_states import write_run
from tests.support.surveyed import calibration, survey, write_model


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "RESAMPLES", 12)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "states", questions=120)


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("surveyed")
    calibration(folder, write_model(folder))
    survey(folder)
    return folder


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


def test_a_bound_on_the_risk_is_chosen_and_only_written_where_a_file_is_named(surveyed: Path, tmp_path: Path) -> None:
    file = surveyed / "mine.json"
    before = file.read_bytes()
    found = calibrate.risk(file, surveyed / "run", max_error=[0.5, 0.05], confidence=0.8)
    strict, lenient = found.found.guarantees
    assert (strict.max_error, strict.threshold) == (0.05, None)
    assert lenient.threshold is not None
    assert any("0.05" in warning for warning in found.warnings)
    assert (found.files, file.read_bytes()) == ((), before)
    out = tmp_path / "with.json"
    written = calibrate.risk(file, surveyed / "run", max_error=0.5, confidence=0.8, out=out)
    assert written.files == (out,)
    assert load_artifact(str(out)).guarantees == written.found.guarantees
    with pytest.raises(SettingsError, match="there already"):
        calibrate.risk(file, surveyed / "run", max_error=0.5, confidence=0.8, out=out)


def test_states_are_collected_and_a_second_call_has_nothing_left_to_do(tmp_path: Path) -> None:
    data, model = write_dataset(tmp_path, "north", questions=40), write_model(tmp_path)
    settings = Settings(model=model, verifier="structured", cache=False)
    spec = bench.RunSpec(data=(data,), n=4, judge=False)
    ended: list[bench.RunProgress] = []
    first = calibrate.collect(spec, out=tmp_path / "states", settings=settings, progress=ended.append)
    assert (first.found.tally.finished, ended[-1].done) == (4, 4)
    assert sum(int(str(row[1])) for row in first.tables[0].rows) == 4
    again = calibrate.collect(spec, out=tmp_path / "states", settings=settings)
    assert again.found.tally.finished == 0
