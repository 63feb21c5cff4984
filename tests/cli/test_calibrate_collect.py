"""`beliefrag calibrate collect`: states on benchmarks and on own questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.runs.partitions import Partition, partition
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
