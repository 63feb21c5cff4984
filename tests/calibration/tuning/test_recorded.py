"""Reading what a run recorded: which questions and datasets count, and what is refused before anything is tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.setup import RunSpec
from beliefrag.calibration import load_artifact
from beliefrag.calibration.tuning import ThresholdGrid, TuningError, read_recorded_questions, tune_thresholds
from beliefrag.cli import bench_run
from beliefrag.report.tuning_report import status_line
from beliefrag.runs.partitions import Partition
from beliefrag.settings import Settings
from tests.support.bench_runs import records, write_dataset, write_script

QUESTIONS = 8
BORROWED = load_artifact("published")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Both surveys on two datasets."""
    data = tuple(write_dataset(tmp_path, name, QUESTIONS) for name in ("north", "south"))
    settings = Settings(model=write_script(tmp_path), verifier="structured", cache=False)
    wanted = RunSpec(data, ("survey", "survey_uncorrected"), judge=False)
    assert bench_run.run(settings, wanted, tmp_path / "run", dry_run=False, yes=True) == 0
    return tmp_path / "run"


def rewrite(run: Path, change: Callable[[dict[str, Any]], bool]) -> None:
    """Changes every line; those for which the change says no are dropped."""
    kept = [record for record in records(run) if change(record)]
    (run / "episodes.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept))


def without(measure: str, **only: str) -> Callable[[dict[str, Any]], bool]:
    def change(record: dict[str, Any]) -> bool:
        if all(record[name] == value for name, value in only.items()):
            for step in record["steps"]:
                del step["attempt"][measure]
        return True

    return change


def test_every_question_has_both_recordings_in_one_order(run: Path) -> None:
    found = read_recorded_questions(run)
    assert (found.found, found.expected, found.disagreeing, found.left_out) == (2 * QUESTIONS, 2 * QUESTIONS, 0, ())
    assert {tuple(each.method for each in own) for own in found.recordings()} == {("survey", "survey_uncorrected")}
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(reversed(lines)))
    assert read_recorded_questions(run) == found


def test_missing_questions_are_told_of_first(run: Path) -> None:
    rewrite(run, lambda record: record["question_id"] not in ("north-q0", "south-q1"))
    found = tune_thresholds(read_recorded_questions(run), BORROWED, grid=ThresholdGrid((0.5,)))
    assert status_line(found).startswith("INCOMPLETE: 2 of 16 ")


def test_a_dataset_for_which_the_measure_has_no_meaning_is_left_out_and_told_of(run: Path) -> None:
    rewrite(run, without("f1", dataset="south"))
    found = read_recorded_questions(run)
    assert (found.left_out, found.expected, found.found) == (("south",), QUESTIONS, QUESTIONS)
    assert {dataset for part in Partition for dataset in found.parts[part]} == {"north"}
    notes = tune_thresholds(found, BORROWED, grid=ThresholdGrid((0.5,))).notes
    assert any("F1" in note and "south" in note for note in notes)


def test_a_measure_that_some_questions_lack_is_refused(run: Path) -> None:
    rewrite(run, without("f1", question_id="south-q3"))
    with pytest.raises(TuningError, match=r"1 of 16 .* F1"):
        read_recorded_questions(run)
    assert read_recorded_questions(run, "cover").found == 2 * QUESTIONS


def test_a_recording_without_the_measure_gives_way_to_one_that_has_it(run: Path) -> None:
    rewrite(run, without("f1", method="survey_uncorrected"))
    found = read_recorded_questions(run)
    assert found.found == 2 * QUESTIONS
    assert {tuple(each.method for each in own) for own in found.recordings()} == {("survey",)}


def test_recordings_that_do_the_same_and_differ_are_told_of(run: Path) -> None:
    def change(record: dict[str, Any]) -> bool:
        if (record["method"], record["question_id"]) == ("survey_uncorrected", "north-q2"):
            record["steps"][1]["diagnostics"]["support"] -= 0.1
        return True

    rewrite(run, change)
    found = read_recorded_questions(run)
    assert found.disagreeing == 1
    assert any(
        note.startswith("1 questions have recordings")
        for note in tune_thresholds(found, BORROWED, grid=ThresholdGrid((0.5,))).notes
    )
