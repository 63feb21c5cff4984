"""What information is in the belief state?

AUCs of a joint fit are taken within parts of held-out questions: scores of different fits cannot be combined in one
AUC, and a single dimension that was picked on the same states would be flattered beside a fit that was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.examples import Examples, label_states
from beliefrag.calibration.fitting import LEAST_SPREAD, refit_logistic
from beliefrag.calibration.quality import auc, estimate_auc, expected_calibration_error, reliability_curve
from beliefrag.report.figure import draw_bars, draw_curves, label_axes
from beliefrag.report.table import Table, format_cell, format_number
from beliefrag.runs.statistics import Estimate, Floats, draw_counts, estimate_from_resamples, random_generator
from beliefrag.studies.study import (
    METHOD,
    STUDIES,
    Recording,
    RequiredRun,
    StateTable,
    StudyContext,
    StudyResult,
    compare_with_paper,
    describe_counts,
)
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTITIONS = 20
"""How often questions are divided into parts: the joint AUC of one division would be a matter of luck."""
RESAMPLES = 200
_MIN_FIT_QUESTIONS = 10
"""Questions with a right and with a wrong state that a fit of six weights needs."""
_MIN_QUESTIONS = 5
"""Questions with a right and with a wrong state that an AUC needs."""
_JOINT, _ANSWERABILITY, _SURVEY = "all jointly", "answerability", "survey"
_PARTS = 5

Integers = NDArray[np.int64]


DIMENSIONS = {"sufficiency": 1, "reliability": 1, "conflict": -1, "uncertainty": -1, "gap": -1, "cost": -1}
"""The dimensions of the belief: 1 if more of it speaks for a right answer, -1 if less does."""


def belief_matrix(examples: Examples) -> Floats:
    """Return the belief of each example, a column for each dimension."""
    return np.array([[getattr(state.belief, name) for name in DIMENSIONS] for state in examples.states])


def signal_auc(scores: Floats, examples: Examples) -> Estimate | None:
    """Return the AUC of a score for being right, with its interval; None if all outcomes are the same."""
    found = estimate_auc(scores, examples)
    return None if found is None else replace(found, questions=examples.count.questions)


def rank_correlation(one: Floats, other: Floats, examples: Examples) -> Estimate | None:
    """Return Spearman's rank correlation over states, with its interval over questions; None if one is constant."""
    from scipy.stats import rankdata  # noqa: PLC0415 (slow to load)

    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return None
    # Resamples change how much each state weighs, not its rank.
    correlate = partial(_weighted_correlation, rankdata(one), rankdata(other))
    drawn = examples.resample(correlate)
    return estimate_from_resamples(float(correlate(examples.weights)), drawn, questions=examples.count.questions)


def _weighted_correlation(one: Floats, other: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=-1)
    first, second = weights @ one / total, weights @ other / total
    product = weights @ (one * other) / total - first * second
    spread = (weights @ one**2 / total - first**2) * (weights @ other**2 / total - second**2)
    blank = np.full(np.shape(spread), np.nan)
    found: Floats = np.divide(product, np.sqrt(np.maximum(spread, 0)), out=blank, where=spread > 1e-12)
    return found


def split_into_levels(states: StateTable, dimension: str) -> list[dict[str, Any]]:
    """Return thirds of the visited states with the actions that followed; empty if the dimension varies too little.

    States with the same value stay together, so thirds can differ in size.
    """
    values = states.column(lambda state: getattr(state.belief, dimension))
    if not len(values):
        return []
    place = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values, side="left")
    levels: list[dict[str, Any]] = []
    for number, name in enumerate(("low", "middle", "high")):
        own = values[place == number]
        if not len(own):
            return []
        actions = Counter(s.action for s, inside in zip(states.states, place == number, strict=True) if inside)
        levels.append({"dimension": dimension, "level": name, "from": float(own.min()), "to": float(own.max())})
        levels[-1] |= {"states": len(own), **{f"{a.value} (share)": actions[a] / len(own) for a in Action}}
    return levels


class HeldOutAuc(NamedTuple):
    """The chance that a right state has the better score than a wrong one of the same held-out part."""

    joint: Estimate
    """The AUC of a logistic fit of all dimensions on the other parts."""
    single: Estimate
    """The AUC of the dimension that is strongest on the other parts."""
    difference: Estimate


def measure_held_out_auc(
    matrix: Floats, scores: Floats, examples: Examples, *, seed: int = 0, resamples: int | None = None
) -> HeldOutAuc | None:
    """Measure both AUCs on questions that neither was fitted or picked on; None if a part leaves one outcome to fit on.

    `scores` are the columns of `matrix`, with the sign for which more speaks for a right answer. For the intervals
    questions are resampled, and fits and picks made anew. A resample has fewer different questions to fit on, so its
    AUCs lie lower: the intervals use only their spread.
    """
    generator = random_generator(seed)
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    drawn = [examples.weights] * PARTITIONS
    cuts = [_cut_into_parts(weights, place, generator) for weights in drawn]
    for _ in range(RESAMPLES if resamples is None else resamples):
        drawn.append(draw_counts(generator, len(questions), 1)[0, place] * examples.weights)
        cuts.append(_cut_into_parts(drawn[-1], place, generator))
    scored = _score_parts(matrix, scores, examples, np.array(drawn), cuts)
    parts = [part for division in scored[:PARTITIONS] for part in division]
    if len(parts) < PARTITIONS * _PARTS:
        return None
    value = _mean_auc(parts, examples, examples.weights)
    spread = np.array([_mean_auc(own, examples, w) for own, w in zip(scored, drawn, strict=True)])[PARTITIONS:]
    spread += value - np.nanmean(spread, axis=0)
    estimates = (
        estimate_from_resamples(float(own), np.clip(each, low, 1), questions=len(questions))
        for own, each, low in zip(value, spread.T, (0, 0, -1), strict=True)
    )
    return HeldOutAuc(*estimates)


def _cut_into_parts(weights: Floats, question: Integers, generator: np.random.Generator) -> list[Integers]:
    """Cut the questions that weigh anything into five parts, and return the places of the states of each."""
    there = np.flatnonzero(weights)
    present, own = np.unique(question[there], return_inverse=True)
    part = (generator.permutation(len(present)) % _PARTS)[own]
    return [there[part == each] for each in range(_PARTS)]


_ScoredPart = tuple[Integers, Floats, Floats]
"""The places of the states, their joint scores and their single scores."""


def _score_parts(
    matrix: Floats, scores: Floats, examples: Examples, weights: Floats, divisions: Sequence[Sequence[Integers]]
) -> list[list[_ScoredPart]]:
    """Score each part of each division by fits on its other parts; empty if these have one outcome only."""
    inside = [part for division in divisions for part in division]
    others = np.repeat(weights, _PARTS, axis=0)
    for row, part in zip(others, inside, strict=True):
        row[part] = 0.0
    fitted = refit_logistic(matrix, examples.outcomes, others)
    strongest = np.array([auc(column, examples.outcomes, others) for column in scores.T]).argmax(axis=0)
    scored = [
        (part, fit[0] + matrix[part] @ fit[1:], scores[part, best])
        for part, fit, best in zip(inside, fitted, strongest, strict=True)
    ]
    starts = range(0, len(scored), _PARTS)
    return [[] if np.isnan(fitted[at : at + _PARTS]).any() else scored[at : at + _PARTS] for at in starts]


def _mean_auc(parts: Sequence[_ScoredPart], examples: Examples, weights: Floats) -> Floats:
    """Return joint, single and the difference; NaN if no part has both outcomes."""
    won, pairs = np.zeros(2), 0.0
    for places, joint, single in parts:
        y, w = examples.outcomes[places], weights[places]
        own = float(w @ y * (w @ (1 - y)))
        if own > 0:
            won += own * np.array([auc(joint, y, w), auc(single, y, w)])
            pairs += own
    mean = won / pairs if pairs else np.full(2, np.nan)
    return np.array([*mean, mean[0] - mean[1]])


@STUDIES.register(
    "belief",
    title="What is in the belief state",
    summary="Does each dimension of the belief predict whether an answer is right, and what do all of them add?",
)
@dataclass(frozen=True, slots=True)
class BeliefStudy:
    """Measures the belief on states whose answer is known to be right or wrong."""

    protocol: ClassVar[tuple[str, ...]] = (
        "The states are those that BeliefRAG visited, with the answer that each would give and whether it is right.",
        "AUC: the chance that a right state has the better value than a wrong one; below half it points the wrong way.",
        "The direction is that of the meaning: more sufficiency and reliability, less of the others. It is not fitted.",
        "Jointly: a logistic fit on four fifths of the questions scores the rest, beside the best single one there.",
        f"The questions are divided {PARTITIONS} times by chance, and both AUCs are within the held-out parts.",
        "A question counts once, its states share its weight; the paper seems to count states.",
        f"Intervals resample questions, 2,000 times; for the joint AUC {RESAMPLES} times, fitted and picked anew.",
        "Correlations are Spearman's. Calibration errors are over ten equal bins. Levels are thirds of visited states.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the run that methods are compared in, with a survey if the verifier drafts no answers."""
        methods = (METHOD,) if context.drafts_answers else (METHOD, _SURVEY)
        return (RequiredRun("comparison", methods),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute how well the belief separates right states from wrong ones."""
        recording = recordings["comparison"]
        method = recording.controller
        own = recording.trajectories_of(method)
        examples, bare, unlabelled = label_states(own, context.label)
        if not len(examples) and (surveyed := recording.trajectories_of(_SURVEY)):
            method = _SURVEY
            examples, bare, unlabelled = label_states(surveyed, context.label)
        count = examples.count
        by_dataset = {d: len({e.question_id for e in examples.each if e.dataset == d}) for d in recording.datasets}
        questions = describe_counts(by_dataset)
        sample = f"{count.states:,} states with a drafted answer, {count.positive:,} of them right, of {questions}."
        right = "a token F1 of at least one half" if context.label == "f1" else context.label.replace("_", " ")
        notes = (
            f"A state is right if answering there gives a right answer: {right}.",
            *(["The states are those of a survey: BeliefRAG's own have no drafted answer."] * (method == _SURVEY)),
            f"Left out: {bare:,} states without evidence and {unlabelled:,} without a known outcome.",
            *recording.missing_notes(method),
        )
        fewest = min(count.questions_positive, count.questions_negative)
        if not own or fewest < _MIN_QUESTIONS:
            why = (
                f"It needs at least {_MIN_QUESTIONS} questions with a state whose answer is right by {context.label}, "
                f"and {_MIN_QUESTIONS} with one whose answer is wrong; there are {count.questions_positive} and "
                f"{count.questions_negative}."
            )
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        matrix = belief_matrix(examples)
        belief = {name: matrix[:, place] for place, name in enumerate(DIMENSIONS)}
        scores = {name: sign * belief[name] for name, sign in DIMENSIONS.items()}
        held_out = None
        if fewest >= _MIN_FIT_QUESTIONS:
            held_out = measure_held_out_auc(matrix, np.column_stack(list(scores.values())), examples)
        judged = {name: belief[name] for name in ("sufficiency", "reliability")}
        if all(state.answerability is not None for state in examples.states):
            judged[_ANSWERABILITY] = scores[_ANSWERABILITY] = np.array([s.answerability for s in examples.states])
        signals = {name: auc for name, values in scores.items() if (auc := signal_auc(values, examples)) is not None}
        best = max(DIMENSIONS, key=lambda name: signals[name].value)
        findings = [f"The strongest single dimension is {best}: AUC {format_cell(signals[best])}."]
        if held_out:
            signals |= {_JOINT: held_out.joint, "strongest one, held out": held_out.single}
            findings.append(
                f"All dimensions jointly, on questions that a fit had not seen: AUC {format_cell(held_out.joint)}, "
                f"{format_number(held_out.difference, '+.3f')} against the dimension that is strongest on the "
                "questions of the fit."
            )
        outcomes, weights = examples.outcomes, examples.weights
        errors = {name: float(expected_calibration_error(p, outcomes, weights)) for name, p in judged.items()}
        curves = {name: reliability_curve(p, outcomes, weights) for name, p in judged.items()}
        correlations = {
            (one, other): rank_correlation(belief[one], belief[other], examples)
            for one, other in combinations(DIMENSIONS, 2)
        }
        levels = [level for name in DIMENSIONS for level in split_into_levels(StateTable(own), name)]
        tables = {
            "auc": ("How well each signal separates right from wrong states", _rows(signals, "signal", "AUC")),
            "correlations": (
                "Rank correlations of the dimensions",
                [{"one": one, "other": other, "rank correlation": r} for (one, other), r in correlations.items()],
            ),
            "calibration": ("Expected calibration error", _rows(errors, "score", "ECE")),
            "reliability": (
                "Reliability curves",
                [
                    {"score": name, "from": each.low, "to": each.high, "states": each.states}
                    | {"weight (share)": each.share, "mean score": each.predicted, "right (share)": each.observed}
                    for name, curve in curves.items()
                    for each in curve
                ],
            ),
            "actions": ("What was done next, by belief level", levels),
        }
        shown_curves = {
            f"{name}: ECE {errors[name]:.3f}": [(each.predicted, Estimate(each.observed)) for each in curve]
            for name, curve in curves.items()
        }
        digits = {"rank correlation": 2, "weight": 2, **{action.value: 2 for action in Action}}
        return StudyResult(
            sample=sample,
            findings=tuple(findings),
            numbers={"best_single": best, "joint_minus_that_single": held_out.difference if held_out else None},
            tables=tuple(Table.of_records(name, title, rows, digits=digits) for name, (title, rows) in tables.items()),
            notes=notes,
            paper_values=compare_with_paper(
                {
                    "auc_best_single": signals[best],
                    "auc_joint": signals.get(_JOINT),
                    "ece_sufficiency": Estimate(errors["sufficiency"]),
                    "ece_reliability": Estimate(errors["reliability"]),
                }
            ),
            paper_note="Theirs are with gpt-oss-120b, answers judged by a model. Their strongest dimension is "
            f"uncertainty, the strongest here {best}. The paper does not say whether the fit had seen its states.",
            draw=partial(_draw_belief, signals, shown_curves),
            figure_size=(12.0, 4.8),
            caption="The AUC of each dimension, with 95 % intervals, and reliability curves.",
        )


def _rows(numbers: Mapping[str, Any], key: str, heading: str) -> list[dict[str, Any]]:
    return [{key: name, heading: number} for name, number in numbers.items()]


def _draw_belief(
    signals: Mapping[str, Estimate], curves: Mapping[str, Sequence[tuple[float, Estimate]]], figure: Figure
) -> None:
    bars, axes = figure.subplots(1, 2)
    title = "How well each signal separates right from wrong"
    draw_bars(bars, title, "AUC (0.5: no signal)", list(signals), {"": list(signals.values())}, line=0.5)
    label_axes(axes, "Scores against the share of right answers", "mean score in a bin of one tenth", "share right")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfectly calibrated")
    draw_curves(axes, curves)
