"""`beliefrag calibrate collect`: states on benchmarks and on somebody's own questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.run_files import comparable_lines
from beliefrag.runs.states import read_trajectories
from tests.cli.shell import Ran
from tests.support.bench_runs import PLACES, write_dataset, write_script
from tests.support.messages import mentions

Command = Callable[..., Ran]


def own(home: Path, questions: int = 6) -> tuple[str, ...]:
    """Notes on ships, and a table of questions about them."""
    notes = home / "notes"
    notes.mkdir()
    lines = ["question,answers"]
    for k in range(questions):
        (notes / f"ship{k}.txt").write_text(f"Ship north{k} was built by Builder{k} of {PLACES[k]}.", encoding="utf-8")
        lines.append(f"Where was the builder of ship north{k} born?,{PLACES[k]}")
    (home / "asked.csv").write_text("\n".join(lines), encoding="utf-8")
    return ("calibrate", "collect", "--questions", "asked.csv", "--docs", "notes", "--out", "run", "--no-judge")


@pytest.fixture(autouse=True)
def _scripted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_MODEL", write_script(home))
    monkeypatch.setenv("BELIEFRAG_VERIFIER", "structured")


def test_own_questions_on_own_documents_give_states_with_labels(beliefrag: Command, home: Path) -> None:
    ran = beliefrag(*own(home))
    assert ran.code == 0, ran.err
    run, trajectories = read_trajectories(home / "run")
    assert list(run.datasets) == ["asked"]
    assert len(trajectories) == 6
    assert all(state.answer is not None for trajectory in trajectories for state in trajectory.states)
    right = {trajectory.question_id for trajectory in trajectories if trajectory.states[-1].correct("exact_match")}
    assert len(right) == 1
    counted = [line.split("\t") for line in ran.out.splitlines()]
    assert counted[0][:3] == ["part", "questions", "states"]
    assert sum(int(row[1]) for row in counted[1:]) == 6


def test_no_calibration_is_needed_to_collect_for_one(beliefrag: Command, home: Path) -> None:
    assert beliefrag(*own(home)).code == 0
    assert read_trajectories(home / "run")[0].calibrations == ()


def test_a_second_time_nothing_is_played_again_and_a_replay_gives_the_same(beliefrag: Command, home: Path) -> None:
    command = own(home, 3)
    assert beliefrag(*command).code == 0
    first = (home / "run" / "episodes.jsonl").read_bytes()
    assert beliefrag(*command).code == 0
    assert (home / "run" / "episodes.jsonl").read_bytes() == first
    again = [*command, "--set", "run.replay=true"]
    again[again.index("run")] = "replayed"
    assert beliefrag(*again).code == 0
    assert len(comparable_lines(home / "run")) == 3
    assert comparable_lines(home / "run") == comparable_lines(home / "replayed")


def test_benchmarks_are_visited_and_judged(beliefrag: Command, home: Path) -> None:
    data = write_dataset(home, "north", 2)
    ran = beliefrag("calibrate", "collect", "--data", data, "--out", "run", "--yes")
    assert ran.code == 0, ran.err
    _, trajectories = read_trajectories(home / "run")
    assert {trajectory.method for trajectory in trajectories} == {"survey"}
    assert all(state.correct("judge") is not None for trajectory in trajectories for state in trajectory.states)


def test_the_questions_of_some_parts_can_be_visited_alone(beliefrag: Command, home: Path) -> None:
    data = write_dataset(home, "north", 9)
    line = ("calibrate", "collect", "--data", data, "--no-judge", "--out", "run", "--part")
    assert beliefrag(*line, "xfit", "--part", "xsel").code == 0
    _, trajectories = read_trajectories(home / "run")
    ids = {trajectory.question_id for trajectory in trajectories}
    assert ids == {f"north-q{k}" for k in range(9) if partition(f"north-q{k}") is not Partition.XHOLD}
    assert 0 < len(ids) < 9
    ran = beliefrag(*line, "holdout")
    assert ran.code != 0
    assert mentions(ran.err, "'holdout'", "xfit, xsel or xhold")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((), "--questions and --docs"),
        (("--questions", "asked.csv"), "Name them with --docs."),
        (("--questions", "absent.csv", "--docs", "notes"), "absent.csv cannot be read"),
        (("--data", "north", "--no-judge", "--set", "run.judge_model=m"), "--no-judge"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    beliefrag: Command, home: Path, given: tuple[str, ...], reason: str
) -> None:
    own(home)
    write_dataset(home, "north", 1)
    ran = beliefrag("calibrate", "collect", *given, "--out", "run")
    assert ran.code != 0
    assert reason in ran.err
    assert not (home / "run").exists()
