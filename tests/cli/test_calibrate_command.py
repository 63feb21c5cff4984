"""`beliefrag calibrate fit` and `show`, and what a run says of a calibration that has seen its questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.calibration import fitting, load_artifact
from tests.cli.shell import Ran
from tests.support.bench_runs import write_dataset, write_script
from tests.support.messages import mentions
from tests.support.planted_states import SCALE, write_run

Command = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "RESAMPLES", 12)


@pytest.fixture
def states(home: Path) -> Path:
    return write_run(home / "runs" / "states", questions=120)


def rows(text: str, title: str) -> dict[str, list[str]]:
    """Return the lines under a heading, by their first cell."""
    below = text.split(f"\n{title}", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return {cells[0]: cells[1:] for cells in (line.split("\t") for line in below)}


def test_a_fit_is_written_told_and_can_be_shown_again(beliefrag: Command, states: Path) -> None:
    ran = beliefrag("calibrate", "fit", states)
    assert ran.code == 0, ran.err
    file = states / "calibration.json"
    assert f"written: {file}" in ran.err
    artifact = load_artifact(str(file))
    assert artifact.score_scale == SCALE
    shown = beliefrag("calibrate", "show", file)
    assert shown == Ran(0, ran.out, "")
    assert artifact.fit is not None and (found := artifact.fit.answerability.held_out) is not None
    assert float(rows(ran.out, "Answerability on held-out")["Brier"][0]) == round(found.brier.value, 4)
    assert rows(ran.out, "Brier score of each")[artifact.answerability.kind][1] == "chosen"
    assert rows(ran.out, "Coefficients of the logistic")["conflict"][:2] == ["+0.000", "-"]
    assert mentions(ran.out, "left out\t120 states", "0 without a label")
    assert "conflict does not vary" in ran.out.split("\nWarnings")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fit", "nowhere"), 1, "nowhere holds no run"),
        (("fit", "runs/states", "--label", "tea-leaves"), 2, "'tea-leaves'. Known: judge, f1"),
        (("fit", "runs/states", "--label", "judge"), 1, "(xfit)"),
        (("fit", "runs/states", "--out", "runs"), 1, "runs cannot be written"),
        (("show", "nonsense"), 1, "'nonsense'"),
    ],
)
def test_mistakes_are_told_in_one_line(
    beliefrag: Command, states: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = beliefrag("calibrate", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert ran.out == "" and len(ran.err.splitlines()) == 1


SHIPPED = ["any-model", "published", "qwen2.5-coder-1.5b-lean", "qwen2.5-coder-1.5b"]


def test_without_a_name_the_shipped_calibrations_are_listed(beliefrag: Command) -> None:
    ran = beliefrag("calibrate", "show")
    assert [line.split("\t")[0] for line in ran.out.splitlines()] == ["name", *SHIPPED]
    listed = json.loads(beliefrag("calibrate", "show", "--json").out)
    assert [each["name"] for each in listed] == SHIPPED


def test_a_fit_writes_over_a_calibration_and_over_nothing_else(beliefrag: Command, home: Path, states: Path) -> None:
    (home / "notes.txt").write_text("mine")
    ran = beliefrag("calibrate", "fit", states, "--out", "notes.txt")
    assert ran.code == 2 and mentions(ran.err, "notes.txt", "--out")
    assert (home / "notes.txt").read_text() == "mine"
    assert beliefrag("calibrate", "fit", states, "--out", "mine.json", "--name", "one").code == 0
    assert beliefrag("calibrate", "fit", states, "--out", "mine.json", "--name", "two").code == 0
    assert load_artifact("mine.json").name == "two"


def test_a_run_warns_of_questions_that_its_calibration_has_seen(beliefrag: Command, states: Path, home: Path) -> None:
    beliefrag("calibrate", "fit", states)
    artifact = load_artifact(str(states / "calibration.json"))
    assert artifact.fit is not None
    seen = artifact.fit.model_copy(update={"fit_questions": ("north-q0", "north-q2"), "selection_questions": ("q1",)})
    (home / "mine.json").write_text(artifact.model_copy(update={"fit": seen}).model_dump_json())
    write_dataset(home, "north", 4)
    line = (
        "bench",
        "run",
        "--data",
        "north",
        "--model",
        write_script(home),
        "--set",
        "verifier=structured",
        "--out",
        "run",
    )
    allowed = ("--set", "run.allow_seen=true")
    ran = beliefrag(*line, "--methods", "static,beliefrag", "--set", "borrow=mine.json", *allowed)
    assert ran.code == 0, ran.err
    assert mentions(ran.err, "calibration made-up", "2 of these questions")
    # Going on without BeliefRAG forgets nothing.
    assert beliefrag(*line, "--methods", "no_rag").code == 0
    report = beliefrag("bench", "report", "run").out.splitlines()[0]
    assert mentions(report, "calibration made-up", "2 of the questions")
    record = json.loads((home / "run" / "run.json").read_text())["datasets"]["north"]
    assert sorted(record["seen_by_calibration"]) == ["north-q0", "north-q2"]
    assert record["score_scales"]["bm25"]["scale"] > 0
