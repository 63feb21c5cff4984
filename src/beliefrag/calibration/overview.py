"""What a collection holds: states and questions in each part, and the share that could be answered."""

from __future__ import annotations

from collections.abc import Sequence

from beliefrag.runs.samples import Partition
from beliefrag.runs.states import LABELS, State, Trajectory

__all__ = ["HEADINGS", "overview"]

HEADINGS = ("part", "questions", "states", *(f"right by {label.replace('_', ' ')}" for label in LABELS))


def overview(trajectories: Sequence[Trajectory]) -> list[tuple[str, ...]]:
    """One row per part, as words. States without evidence are left out, as in a fit."""
    rows = []
    for part in Partition:
        own = [trajectory for trajectory in trajectories if trajectory.partition is part]
        states = [state for trajectory in own for state in trajectory.states if state.retained]
        questions = {(trajectory.dataset, trajectory.question_id) for trajectory in own}
        rows.append(
            (part.value, f"{len(questions):,}", f"{len(states):,}", *(_share(states, label) for label in LABELS))
        )
    return rows


def _share(states: Sequence[State], label: str) -> str:
    values = [state.scores[label] >= 0.5 for state in states if label in state.scores]
    return f"{sum(values) / len(values):.0%}" if values else "-"
