"""Tunes thresholds: sweeps on the questions that choose, chooses, and checks the choice on the held-out questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from beliefrag.calibration import Artifact
from beliefrag.calibration.tuning.grid import Combination, ThresholdGrid
from beliefrag.calibration.tuning.operating_points import (
    OperatingPoint,
    PointEvaluator,
    TuningGoal,
    UnknownPoint,
    Values,
    average,
    choose_point,
    find_frontier,
)
from beliefrag.calibration.tuning.recorded import RecordedQuestions, TuningError, UnrecordedPointError, list_notes
from beliefrag.calibration.tuning.recorded_decisions import DecisionCoverage, advise_collection, list_decisions
from beliefrag.policy import ScoreScale
from beliefrag.runs.partitions import Partition
from beliefrag.runs.statistics import PAIRED_RESAMPLES, Estimate

__all__ = ["HeldOutCheck", "Tuning", "tune_thresholds"]

_ANY_SCALE = ScoreScale(0.0, 1.0)
"""Recorded relevance is already on the scale of its corpus."""


@dataclass(frozen=True, slots=True)
class HeldOutCheck:
    """The chosen point and the current thresholds, which are those of the run, on the held-out questions."""

    chosen: OperatingPoint | UnknownPoint
    current: OperatingPoint | UnknownPoint
    differences: dict[Literal["quality", "tokens"], Estimate]
    """Chosen minus current, question by question; empty where one of them is not known."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a sweep found."""

    recorded: RecordedQuestions
    artifact: Artifact
    notes: tuple[str, ...]
    """What a reader must know before believing a number."""
    decisions: tuple[DecisionCoverage, ...]
    points: tuple[OperatingPoint, ...]
    """Points on the questions that choose, like everything down to `chosen`."""
    unknown_points: tuple[UnknownPoint, ...]
    frontier: tuple[OperatingPoint, ...]
    current: OperatingPoint | UnknownPoint
    """The point with the thresholds of the run."""
    goal: TuningGoal | None
    chosen: OperatingPoint | None
    """None without a goal, or where no point meets it."""
    held_out_check: HeldOutCheck | None
    """None where nothing was chosen, or the run has no held-out question."""


def tune_thresholds(
    recorded: RecordedQuestions,
    artifact: Artifact,
    *,
    grid: ThresholdGrid,
    goal: TuningGoal | None = None,
    calibration_warnings: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Sweeps operating points over recorded states, and chooses one. No model is asked.

    Args:
        recorded: The run.
        artifact: The calibration that the points decide with.
        grid: Which points.
        goal: What to choose a point for. None only sweeps.
        calibration_warnings: Why the calibration's probabilities may be off in this run.
        progress: Called with the number of points that were tried, and the number of all points.

    Raises:
        TuningError: No question of the run is there to choose on.
        UnrecordedPointError: The result of a value that was asked for is not known.
    """
    if not recorded.size(Partition.XSEL):
        raise TuningError(
            f"None of the {recorded.found:,} recorded questions belongs to xsel, the part that chooses.",
            remedy="Collect more questions: 3 of 10 belong to it.",
        )
    own = recorded.thresholds
    calibration = artifact.calibration(_ANY_SCALE)
    choosing = PointEvaluator(recorded.parts[Partition.XSEL], calibration, recorded.measure)
    wanted = grid.points(own)
    tried = []
    for place, thresholds in enumerate(wanted):
        tried.append(choosing.evaluate(thresholds))
        if progress:
            progress(place + 1, len(wanted))
    _require_given_values(grid, tried)
    points = tuple(each for each in tried if isinstance(each, OperatingPoint))
    front = find_frontier(points, own)
    chosen = choose_point(front, goal) if goal else None
    held_out_check = None
    if chosen and recorded.size(Partition.XHOLD):
        held_out = PointEvaluator(recorded.parts[Partition.XHOLD], calibration, recorded.measure)
        held_out_check = _check_held_out(held_out.evaluate(chosen.thresholds), held_out.evaluate(own))
    return Tuning(
        recorded=recorded,
        artifact=artifact,
        notes=list_notes(recorded, artifact, calibration_warnings),
        decisions=list_decisions(recorded),
        points=points,
        unknown_points=tuple(each for each in tried if isinstance(each, UnknownPoint)),
        frontier=tuple(front),
        current=choosing.evaluate(own),
        goal=goal,
        chosen=chosen,
        held_out_check=held_out_check,
    )


def _check_held_out(chosen: OperatingPoint | UnknownPoint, own: OperatingPoint | UnknownPoint) -> HeldOutCheck:
    differences: dict[Literal["quality", "tokens"], Estimate] = {}
    if isinstance(chosen, OperatingPoint) and isinstance(own, OperatingPoint):
        differences = {
            "quality": _difference(chosen.values["quality"], own.values["quality"]),
            "tokens": _difference(chosen.values["tokens"], own.values["tokens"]),
        }
    return HeldOutCheck(chosen, own, differences)


def _difference(first: Values, second: Values) -> Estimate:
    gaps = {
        dataset: {key: value - second[dataset][key] for key, value in by_id.items()} for dataset, by_id in first.items()
    }
    return average(gaps, resamples=PAIRED_RESAMPLES)


def _require_given_values(grid: ThresholdGrid, tried: Sequence[OperatingPoint | UnknownPoint]) -> None:
    """Each combination of values that somebody gave must be known at one point at least."""

    def given_values(each: OperatingPoint | UnknownPoint) -> Combination:
        return grid.given_values(each.thresholds)

    for combination, group in groupby(sorted(tried, key=given_values), given_values):
        points = list(group)
        if any(isinstance(each, OperatingPoint) for each in points):
            continue
        nearest = min((each for each in points if isinstance(each, UnknownPoint)), key=lambda each: each.affected)
        missing, action = nearest.main_missing_step
        words = ", ".join(f"{name} {_format_value(value)}" for name, value in combination) or "any point of the grid"
        raise UnrecordedPointError(
            f"The recorded states do not show what {words} would give: for {nearest.affected:,} of "
            f"{nearest.questions:,} questions the recording lacks a step at {action}: {missing}.",
            remedy=advise_collection(missing, nearest.thresholds.novelty),
        )


def _format_value(value: float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}"
