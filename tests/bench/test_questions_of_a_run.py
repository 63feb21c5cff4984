"""Which questions a run asks: those to evaluate on, and none that was fitted on unless it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beliefrag import bench
from beliefrag.calibration import load_artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.runs.run_errors import DataError
from beliefrag.settings import Settings
from beliefrag.studies.study import MULTI_HOP
from tests.support.bench_runs import write_dataset, write_script


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    return Settings(model=write_script(tmp_path), verifier="structured", borrow="published", cache=False)


def write_splits(folder: Path) -> Path:
    """Eight questions, of which the first four are for training."""
    data = write_dataset(folder, "north", 8)
    lines = [json.loads(line) for line in (data / "questions.jsonl").read_text().splitlines()]
    split = [{**line, "split": "train" if place < 4 else "dev"} for place, line in enumerate(lines)]
    (data / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in split))
    return data


def asked(run: bench.Run) -> set[str]:
    return {key for dataset in run.record.datasets.values() for key in dataset.question_ids}


def test_train_questions_are_asked_only_on_request_and_recorded(tmp_path: Path, settings: Settings) -> None:
    spec = bench.RunSpec((write_splits(tmp_path),), ("static", "beliefrag"), judge=False)
    run = bench.run(spec, out=tmp_path / "run", settings=settings)
    assert asked(run) == {f"north-q{k}" for k in range(4, 8)}
    train = bench.RunSpec(spec.data, spec.methods, splits=("train",), judge=False)
    with pytest.raises(DataError, match=r"beliefrag.*train questions of north"):
        bench.run(train, out=tmp_path / "refused", settings=settings)
    plain = bench.RunSpec(spec.data, ("static",), splits=("train",), judge=False)
    assert len(asked(bench.run(plain, out=tmp_path / "plain", settings=settings))) == 4
    forced = bench.RunSpec(spec.data, spec.methods, splits=("train",), judge=False, allow_seen=True)
    run = bench.run(forced, out=tmp_path / "forced", settings=settings)
    assert run.record.datasets["north"].splits == ("train",)
    assert "Train questions of north" in run.summary().first_line
    # What a calibration is fitted on is collected from every split.
    states = bench.run(bench.RunSpec(spec.data, ("survey",), judge=False), out=tmp_path / "states", settings=settings)
    assert len(asked(states)) == 8


def test_questions_that_a_calibration_has_seen_are_left_out(tmp_path: Path, settings: Settings) -> None:
    fitted = load_artifact("qwen2.5-coder-1.5b")
    assert fitted.fit is not None
    report = fitted.fit.model_copy(update={"fit_questions": ("north-q0",), "selection_questions": ("north-q1",)})
    write_artifact(fitted.model_copy(update={"fit": report, "contaminated": True}), tmp_path / "own.json")
    settings = settings.model_copy(update={"borrow": str(tmp_path / "own.json")})
    spec = bench.RunSpec((write_dataset(tmp_path, "north", 4),), ("static", "beliefrag"), n=3, judge=False)
    assert asked(bench.run(spec, out=tmp_path / "run", settings=settings)) == {"north-q2", "north-q3"}


def test_passages_that_hold_an_answer_by_chance_make_no_question_multi_hop(tmp_path: Path) -> None:
    linked = bench.load_dataset(write_dataset(tmp_path, "north"))
    distant = bench.load_dataset(write_dataset(tmp_path, "south", supporting_kind="distant (has an alias)"))
    assert MULTI_HOP.includes(linked) and not MULTI_HOP.includes(distant)


def test_a_report_without_matplotlib_has_its_tables(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = bench.RunSpec((write_dataset(tmp_path, "north"),), ("static",), judge=False)
    run = bench.run(spec, out=tmp_path / "run", settings=settings)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    files = bench.report(run.folder, out=tmp_path / "report").files
    assert {path.name for path in files} == {"report.md", "results.csv", "report.html"}
    page = (tmp_path / "report" / "report.html").read_text()
    assert "beliefrag[bench]" in page and "<svg" not in page
