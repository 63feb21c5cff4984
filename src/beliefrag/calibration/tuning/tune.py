"""The whole of it: sweep on the questions that choose, choose, and report on the questions that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from beliefrag.calibration import Artifact
from beliefrag.calibration.tuning.decisions import Move, moves, what_to_collect
from beliefrag.calibration.tuning.errors import OffTheRecord, TuningError
from beliefrag.calibration.tuning.grid import Combination, Grid
from beliefrag.calibration.tuning.notes import notes
from beliefrag.calibration.tuning.recorded import Recorded
from beliefrag.calibration.tuning.select import Goal, choose, frontier
from beliefrag.calibration.tuning.sweep import Point, Refusal, Trial, Values, mean
from beliefrag.policy import ScoreScale
from beliefrag.runs.samples import Partition
from beliefrag.runs.statistics import PAIRED_RESAMPLES, Estimate

__all__ = ["Checked", "Tuning", "tune"]

_ANY_SCALE = ScoreScale(0.0, 1.0)
"""Recorded relevance is already on the scale of its corpus."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The chosen point and the run's own thresholds on the held-out questions."""

    chosen: Point | Refusal
    own: Point | Refusal
    differences: dict[Literal["quality", "tokens"], Estimate]
    """Chosen minus own, question by question; empty where one of them is not known."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a sweep found."""

    recorded: Recorded
    artifact: Artifact
    notes: tuple[str, ...]
    """What a reader must know before believing a number."""
    moves: tuple[Move, ...]
    points: tuple[Point, ...]
    """On the questions that choose, as everything down to `chosen`."""
    refusals: tuple[Refusal, ...]
    frontier: tuple[Point, ...]
    own: Point | Refusal
    """With the run's own thresholds."""
    goal: Goal | None
    chosen: Point | None
    """None without a goal, or where no point meets it."""
    checked: Checked | None
    """None where nothing was chosen, or the run has no held-out question."""


def tune(
    recorded: Recorded,
    artifact: Artifact,
    *,
    grid: Grid,
    goal: Goal | None = None,
    calibration_warnings: Sequence[str] = (),
) -> Tuning:
    """Sweeps operating points over recorded states; no model is asked.

    Args:
        recorded: The run.
        artifact: The calibration that the points decide with.
        grid: Which points.
        goal: What to choose a point for. None only sweeps.
        calibration_warnings: Why the calibration's probabilities may be off in this run.

    Raises:
        TuningError: No question of the run is there to choose on.
        OffTheRecord: The record cannot tell what was asked for.
    """
    if not recorded.size(Partition.XSEL):
        raise TuningError(
            f"None of the {recorded.found:,} recorded questions belongs to xsel, the part that chooses.",
            remedy="Collect more questions: 3 of 10 belong to it.",
        )
    own = recorded.thresholds
    calibration = artifact.calibration(_ANY_SCALE)
    choosing = Trial(recorded.parts[Partition.XSEL], calibration, recorded.measure)
    tried = [choosing.of(thresholds) for thresholds in grid.points(own)]
    _refuse_what_was_asked_for(grid, tried)
    points = tuple(each for each in tried if isinstance(each, Point))
    front = frontier(points, own)
    chosen = choose(front, goal) if goal else None
    checked = None
    if chosen and recorded.size(Partition.XHOLD):
        held_out = Trial(recorded.parts[Partition.XHOLD], calibration, recorded.measure)
        checked = _checked(held_out.of(chosen.thresholds), held_out.of(own))
    return Tuning(
        recorded=recorded,
        artifact=artifact,
        notes=notes(recorded, artifact, calibration_warnings),
        moves=moves(recorded),
        points=points,
        refusals=tuple(each for each in tried if isinstance(each, Refusal)),
        frontier=tuple(front),
        own=choosing.of(own),
        goal=goal,
        chosen=chosen,
        checked=checked,
    )


def _checked(chosen: Point | Refusal, own: Point | Refusal) -> Checked:
    differences: dict[Literal["quality", "tokens"], Estimate] = {}
    if isinstance(chosen, Point) and isinstance(own, Point):
        differences = {
            "quality": _difference(chosen.values["quality"], own.values["quality"]),
            "tokens": _difference(chosen.values["tokens"], own.values["tokens"]),
        }
    return Checked(chosen, own, differences)


def _difference(first: Values, second: Values) -> Estimate:
    gaps = {
        dataset: {key: value - second[dataset][key] for key, value in by_id.items()} for dataset, by_id in first.items()
    }
    return mean(gaps, resamples=PAIRED_RESAMPLES)


def _refuse_what_was_asked_for(grid: Grid, tried: Sequence[Point | Refusal]) -> None:
    """Each combination of values that somebody gave must be known at one point at least."""

    def asked_for(each: Point | Refusal) -> Combination:
        return grid.asked_for(each.thresholds)

    for combination, group in groupby(sorted(tried, key=asked_for), asked_for):
        refused = list(group)
        if any(isinstance(each, Point) for each in refused):
            continue
        nearest = min((each for each in refused if isinstance(each, Refusal)), key=lambda each: each.leaving)
        departed, action = nearest.main
        words = ", ".join(f"{name} {_shown(value)}" for name, value in combination) or "any point of the grid"
        raise OffTheRecord(
            f"Recorded states cannot tell what {words} would give: {nearest.leaving:,} of {nearest.questions:,} "
            f"questions leave the record at {action}, {departed}.",
            remedy=what_to_collect(departed, nearest.thresholds.novelty),
        )


def _shown(value: float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}"
