"""Replay recorded states under other thresholds, and choose thresholds. No model is asked.

Thresholds have a result on all questions of a part or on none. Questions whose replay stays within the recordings are
the easy ones, so a mean over them alone would be too good.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from beliefrag.calibration.artifact import Artifact
from beliefrag.calibration.replay import UnrecordedStep, replay_policy
from beliefrag.errors import BeliefRAGError
from beliefrag.policy import Calibration, ScoreScale, Thresholds
from beliefrag.runs.partitions import Partition
from beliefrag.runs.record import RunRecord, thresholds_of
from beliefrag.runs.states import Label, Trajectory
from beliefrag.runs.statistics import (
    MEAN_RESAMPLES,
    PAIRED_RESAMPLES,
    Estimate,
    mean_estimate,
    mean_over_datasets,
    pareto_front,
)
from beliefrag.types import Action

ANSWER = tuple(step / 20 for step in range(1, 20))
RETRIEVAL_VALUE = (0.02, 0.05, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5)
"""0.05, 0.06 and 0.1 let the paper's schedule search three times, twice and once."""
RECORDING = ("survey", "beliefrag")
"""Methods whose episodes the policy can be replayed on; the one with the most states first."""

_COLLECT = "'beliefrag calibrate collect' tries an answer at every state until the budget ends."
_Question = tuple[str, str]


class TuningError(BeliefRAGError):
    """The recorded states of a run cannot be used to choose thresholds."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Thresholds and their result on the questions of one part. Without a result, a step was not recorded."""

    thresholds: Thresholds
    questions: int
    quality: Estimate | None = None
    """Mean of the measure; an abstention scores 0."""
    tokens: Estimate | None = None
    answered: float | None = None
    error: float | None = None
    """Share of wrong answers among those given; None also where none is given."""
    unrecorded: int = 0
    values: Mapping[_Question, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tuning:
    """All settings on the questions that choose (xsel), and the chosen one on the held-out questions (xhold)."""

    settings: tuple[Setting, ...]
    frontier: tuple[Setting, ...]
    """Settings that no other one beats in quality without costing more, from the cheapest to the best."""
    chosen: Setting | None
    """None without a goal, or where no setting reaches it."""
    current: Setting
    held_out: tuple[Setting, Setting] | None
    """The chosen and the current thresholds on xhold; None where nothing was chosen or xhold is empty."""
    differences: tuple[Estimate, Estimate] | None
    """Chosen minus current in quality and tokens on xhold, paired by question; None where one has no result."""
    notes: tuple[str, ...]

    def to_toml(self) -> str:
        """Return the chosen thresholds for the settings file: those that were tried, and others than the default."""
        if self.chosen is None:
            return ""
        chosen = self.chosen.thresholds
        lines = ["[thresholds]"]
        for each in fields(Thresholds):
            value = getattr(chosen, each.name)
            is_tried = each.name in ("answer", "retrieval_value")
            if is_tried or value != each.default:
                lines.append(f"{each.name} = {json.dumps(value)}")
        return "\n".join(lines) + "\n"


def list_thresholds(
    own: Thresholds, answer: Sequence[float] | None = None, retrieval_value: Sequence[float] | None = None
) -> list[Thresholds]:
    """Return every combination of the values once, by default over their whole range; the rest is the run's own."""
    answers = {*ANSWER, own.answer} if answer is None else set(answer)
    values = {*RETRIEVAL_VALUE, own.retrieval_value} if retrieval_value is None else set(retrieval_value)
    return [
        replace(own, answer=one, retrieval_value=other)
        for one, other in itertools.product(sorted(answers), sorted(values))
    ]


def tune_thresholds(
    run: RunRecord,
    trajectories: Iterable[Trajectory],
    artifact: Artifact,
    *,
    answer: Sequence[float] | None = None,
    retrieval_value: Sequence[float] | None = None,
    measure: Label = "f1",
    max_tokens: float | None = None,
    min_quality: float | None = None,
) -> Tuning:
    """Try thresholds on recorded states, choose a setting on xsel and check it on xhold.

    Choose the greatest quality at no more mean tokens than `max_tokens`, or the fewest tokens at no less quality than
    `min_quality`; without a goal nothing is chosen.
    """
    own = thresholds_of(run)
    recordings, notes = _choose_recordings(run, trajectories, measure)
    choosing, holding = (
        {key: found for key, found in recordings.items() if found.partition is part}
        for part in (Partition.XSEL, Partition.XHOLD)
    )
    if not choosing:
        raise TuningError(
            f"None of the {len(recordings):,} recorded questions is in xsel, the part that chooses.",
            remedy="Collect more questions: 3 of 10 belong to it.",
        )
    # Recorded relevance is already on the scale of its corpus.
    calibration = artifact.calibration(ScoreScale(0.0, 1.0))
    tried = [_replay(choosing, calibration, each, measure) for each in list_thresholds(own, answer, retrieval_value)]
    unknown = [each for each in tried if each.quality is None]
    if len(unknown) == len(tried):
        nearest = min(tried, key=lambda each: each.unrecorded)
        raise TuningError(
            f"No setting has a result: for at least {nearest.unrecorded:,} of {nearest.questions:,} questions a step "
            "was not recorded.",
            remedy=_COLLECT,
        )
    frontier = _find_frontier(tried, own)
    chosen = _choose(frontier, max_tokens, min_quality)
    held_out = None
    if chosen and holding:
        new, current = (_replay(holding, calibration, each, measure) for each in (chosen.thresholds, own))
        held_out = new, current
    for part, questions in ((Partition.XSEL, choosing), (Partition.XHOLD, holding)):
        if seen := artifact.find_seen(key for _, key in questions):
            notes.append(
                f"the fit of {artifact.name} saw {len(seen):,} of {len(questions):,} {part} questions: "
                "figures are too good"
            )
    if artifact.contaminated:
        notes.append(f"the fit of {artifact.name} saw held-out questions: figures on xhold are too good")
    if unknown:
        notes.append(
            f"{len(unknown):,} of {len(tried):,} settings have no result, because a step was not recorded. {_COLLECT}"
        )
    return Tuning(
        settings=tuple(tried),
        frontier=tuple(frontier),
        chosen=chosen,
        current=_replay(choosing, calibration, own, measure),
        held_out=held_out,
        differences=_compare(*held_out) if held_out else None,
        notes=tuple(notes),
    )


def _choose_recordings(
    run: RunRecord, trajectories: Iterable[Trajectory], measure: Label
) -> tuple[dict[_Question, Trajectory], list[str]]:
    """Return the recording of each question whose answers have the measure, and a note about the others."""
    asked = {(name, key) for name, dataset in run.datasets.items() for key in dataset.question_ids}
    found: dict[_Question, Trajectory] = {}
    # Sorted: the order of the file and of its methods changes no number.
    own = [each for each in trajectories if each.method in RECORDING and (each.dataset, each.question_id) in asked]
    for each in sorted(own, key=lambda t: (t.dataset, t.question_id, RECORDING.index(t.method))):
        tried = [state for state in each.states if state.answer is not None]
        if tried and all(measure in state.scores for state in tried):
            found.setdefault((each.dataset, each.question_id), each)
    if not found:
        raise TuningError(
            f"No recorded state of this run ({', '.join(run.methods)}; verifier form {run.verifier}) has an answer "
            f"with the measure {measure}.",
            remedy="Collect states with 'beliefrag calibrate collect', or choose another --measure.",
        )
    missing = len(asked) - len(found)
    return found, [f"INCOMPLETE: {missing:,} of {len(asked):,} questions have no answer with {measure}"] * bool(missing)


def _replay(
    questions: Mapping[_Question, Trajectory], calibration: Calibration, thresholds: Thresholds, measure: Label
) -> Setting:
    values: dict[_Question, tuple[float, float]] = {}
    given: list[float] = []
    for key, recording in questions.items():
        end = replay_policy(recording, calibration.answerability, calibration.retrieval_value, thresholds)
        if isinstance(end, UnrecordedStep):
            continue
        if end.action is not Action.ABSTAIN:
            given.append(end.state.scores[measure])
        values[key] = 0.0 if end.action is Action.ABSTAIN else given[-1], float(end.tokens)
    if missing := len(questions) - len(values):
        return Setting(thresholds, len(questions), unrecorded=missing)
    quality, tokens = (_average({key: pair[place] for key, pair in values.items()}) for place in (0, 1))
    return Setting(
        thresholds,
        len(questions),
        quality=quality,
        tokens=tokens,
        answered=len(given) / len(questions),
        error=sum(value < 0.5 for value in given) / len(given) if given else None,
        values=values,
    )


def _average(values: Mapping[_Question, float], *, resamples: int = MEAN_RESAMPLES) -> Estimate:
    """Return the mean over questions, or over datasets where there are several."""
    datasets: dict[str, dict[str, float]] = {}
    for (dataset, key), value in values.items():
        datasets.setdefault(dataset, {})[key] = value
    if len(datasets) == 1:
        return mean_estimate(next(iter(datasets.values())), resamples=resamples)
    return mean_over_datasets(datasets, resamples=resamples)


def _compare(first: Setting, second: Setting) -> tuple[Estimate, Estimate] | None:
    if not (first.values and second.values):
        return None
    gaps = {key: np.subtract(value, second.values[key]) for key, value in first.values.items()}
    quality, tokens = (
        _average({key: float(gap[place]) for key, gap in gaps.items()}, resamples=PAIRED_RESAMPLES) for place in (0, 1)
    )
    return quality, tokens


def _find_frontier(settings: Sequence[Setting], own: Thresholds) -> list[Setting]:
    """Return the frontier. Of settings with the same result, the one nearest to the run's own is kept."""

    def distance(one: Thresholds) -> tuple[float, float]:
        return abs(one.answer - own.answer) + abs(one.retrieval_value - own.retrieval_value), one.answer

    nearest: dict[tuple[float, float], Setting] = {}
    for setting in sorted(settings, key=lambda each: distance(each.thresholds)):
        if setting.tokens and setting.quality:
            nearest.setdefault((setting.tokens.value, setting.quality.value), setting)
    costs = sorted(nearest)
    tokens, quality = np.array(costs).T
    return [nearest[cost] for cost, kept in zip(costs, pareto_front(tokens, quality), strict=True) if kept]


def _choose(frontier: Sequence[Setting], max_tokens: float | None, min_quality: float | None) -> Setting | None:
    if max_tokens is not None:
        affordable = [each for each in frontier if each.tokens and each.tokens.value <= max_tokens]
        return affordable[-1] if affordable else None
    if min_quality is not None:
        return next((each for each in frontier if each.quality and each.quality.value >= min_quality), None)
    return None
