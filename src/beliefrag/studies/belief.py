"""What information is in the belief state?

AUCs of a joint fit are taken within parts of held-out questions: scores of different fits cannot be combined in one
AUC, and a single dimension that was picked on the same states would be flattered beside a fit that was not.

The permutation test asks whether a score separates right from wrong beyond dataset and round. A question takes part
with its first state of each round, and is exchanged as a whole with another question of the same dataset that reached
the same rounds. So the states of one question, which are not independent, stay together (Winkler et al., NeuroImage
2015, on exchangeability blocks).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.artifact import Bin
from beliefrag.calibration.examples import Example, Examples, label_states
from beliefrag.calibration.fitting import LEAST_SPREAD, fit_logistic, refit_logistic
from beliefrag.calibration.quality import auc, estimate_auc, expected_calibration_error, reliability_curve
from beliefrag.report.figure import HATCHES, draw_bars, draw_curves, label_axes
from beliefrag.report.table import Table, format_cell, format_number
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.statistics import (
    MEAN_RESAMPLES,
    Estimate,
    Floats,
    draw_counts,
    estimate_from_resamples,
    random_generator,
)
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
    have_same_order,
)
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BeliefStudy"]

PARTITIONS = 20
"""How often questions are divided into parts: the joint AUC of one division would be a matter of luck."""
RESAMPLES = 200
_MIN_FIT_QUESTIONS = 10
"""Questions with a right and with a wrong state that a fit of six weights needs."""
_MIN_QUESTIONS = 5
"""Questions with a right and with a wrong state that an AUC needs."""
_JOINT, _ANSWERABILITY, _SURVEY = "all jointly", "answerability", "survey"
_LEVELS = ("low", "middle", "high")
_PARTS = 5
_PERMUTATIONS = 2_000
_ENOUGH_PARTNERS = 0.8
"""The finer match is taken if at least this share of the questions still has a partner."""

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


def fit_scores(matrix: Floats, examples: Examples) -> Floats:
    """Return the scores of one fit that has seen all states."""
    fitted = fit_logistic(matrix, examples.outcomes, examples.weights)
    return np.asarray(fitted.intercept + matrix @ np.array(fitted.weights))


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
    values = states.column(lambda state: float(getattr(state.belief, dimension)))
    place = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values, side="left")
    levels: list[dict[str, Any]] = []
    for number, name in enumerate(_LEVELS):
        own = values[place == number]
        if not len(own):
            return []
        actions = Counter(s.action for s, inside in zip(states.states, place == number, strict=True) if inside)
        levels.append({"dimension": dimension, "level": name, "from": float(own.min()), "to": float(own.max())})
        levels[-1] |= {"states": len(own), **{f"{a.value} (share)": actions[a] / len(own) for a in Action}}
    return levels


@dataclass(frozen=True, slots=True)
class HeldOutAuc:
    """The chance that a right state has the better score than a wrong one of the same held-out part."""

    joint: Estimate
    """The AUC of a logistic fit of all dimensions on the other parts."""
    single: Estimate
    """The AUC of the dimension that is strongest on the other parts."""
    difference: Estimate
    """The first minus the second."""


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


@dataclass(frozen=True, slots=True)
class ExchangeableStates:
    """States that can be exchanged, in blocks of one question."""

    examples: Examples
    places: Integers
    """Where each of them is among the examples that they were taken from."""
    groups: tuple[Integers, ...]
    """For each set of questions that can be exchanged: a row per question, with the places of its states."""
    on_retained: bool
    """Whether they are matched on the number of retained passages too."""
    questions: int

    @property
    def with_partner(self) -> int:
        """How many of the questions have another one to be exchanged with."""
        return sum(map(len, self.groups))


def match_questions(examples: Examples) -> ExchangeableStates:
    """Match states on dataset and round, and on the number of retained passages if most still find a partner."""
    first: dict[tuple[str, int], tuple[int, Example]] = {}
    for place, example in enumerate(examples.each):
        first.setdefault((example.question, example.state.rounds), (place, example))
    # Examples are sorted by question and step, and so are the first ones among them.
    kept = sorted(first.values(), key=lambda found: found[0])
    rows: dict[str, list[int]] = defaultdict(list)
    for row, (_, example) in enumerate(kept):
        rows[example.question].append(row)

    def group(*, retained: bool) -> ExchangeableStates:
        alike: dict[tuple[object, ...], list[list[int]]] = defaultdict(list)
        for own in rows.values():
            states = [kept[row][1].state for row in own]
            pattern = tuple((state.rounds, state.retained if retained else 0) for state in states)
            alike[kept[own[0]][1].dataset, pattern].append(own)
        groups = tuple(np.array(each, dtype=np.int64) for each in alike.values() if len(each) > 1)
        places = np.array([place for place, _ in kept], dtype=np.int64)
        return ExchangeableStates(Examples(e for _, e in kept), places, groups, retained, len(rows))

    fine, coarse = group(retained=True), group(retained=False)
    return fine if fine.with_partner >= max(1, _ENOUGH_PARTNERS * coarse.with_partner) else coarse


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """A number as it is, and as it is with scores exchanged between matched states."""

    observed: float
    permuted: float
    """The mean over permutations: what dataset and round alone give."""
    low: float
    high: float
    """Between them lie 95 % of the permutations."""
    p: float
    """The chance of a number at least this large if the score said nothing beyond the match."""


def run_permutation_test(
    scores: Floats,
    matched: ExchangeableStates,
    *,
    gate: float | None = None,
    permutations: int = _PERMUTATIONS,
    seed: int = 0,
) -> PermutationTest | None:
    """Test the AUC of a score, or how often a gate on it would be right, against permutations of the score.

    Returns None if the number has no value: the same outcome everywhere, nothing passes the gate, or no partners.
    """
    own = scores[matched.places]
    outcomes, weights = matched.examples.outcomes, matched.examples.weights

    def statistic(y: Floats, w: Floats) -> Floats:
        if gate is None:
            return auc(own, y, w)
        passed = w * (own >= gate)
        total = passed.sum(axis=-1)
        share: Floats = np.divide((passed * y).sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)
        return share

    observed = float(statistic(outcomes[None, :], weights[None, :])[0])
    if not np.isfinite(observed) or not matched.with_partner:
        return None
    # Outcomes are exchanged in place of scores, which is equivalent: the scores are sorted only once.
    generator = random_generator(seed)
    orders = np.tile(np.arange(len(matched.examples)), (permutations, 1))
    for group in matched.groups:
        orders[:, group] = group[generator.permuted(np.tile(np.arange(len(group)), (permutations, 1)), axis=1)]
    drawn = statistic(outcomes[orders], weights[orders])
    if not np.isfinite(drawn).all():
        return None
    low, high = np.quantile(drawn, [0.025, 0.975])
    # The observed order is one of the permutations: p is never 0 (Phipson and Smyth, 2010). A number that differs by
    # rounding alone counts as equal.
    at_least = int((drawn >= observed - 1e-12).sum())
    return PermutationTest(observed, float(drawn.mean()), float(low), float(high), (1 + at_least) / (1 + permutations))


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """The distance of a score from the share of right answers."""

    ece: float
    chance: float
    """What a perfectly calibrated score would show on as many states, on average."""
    chance_at_most: float
    """What it would show at most, 95 times of 100."""
    curve: tuple[Bin, ...]


def measure_calibration(p: Floats, examples: Examples) -> ScoreCalibration:
    """Measure the calibration error of a score taken as the chance of being right, and its reliability curve.

    For the error by chance outcomes are drawn with the score's own chances, those of a question together.
    """
    error = partial(expected_calibration_error, p)
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    draws = random_generator(0).random((MEAN_RESAMPLES, len(questions)))[:, place]
    chance = error((draws < p).astype(np.float64), examples.weights)
    return ScoreCalibration(
        ece=float(error(examples.outcomes, examples.weights)),
        chance=float(chance.mean()),
        chance_at_most=float(np.quantile(chance, 0.95)),
        curve=reliability_curve(p, examples.outcomes, examples.weights),
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """All numbers of the study."""

    signals: Mapping[str, Estimate]
    """AUC of each dimension, of answerability if its order is its own, and of all jointly if that can be fitted."""
    held_out: HeldOutAuc | None
    joint_seen: Estimate | None
    """The joint AUC of a fit that has seen the states."""
    best: str
    """The strongest dimension."""
    same_order_as: str
    """The dimension that answerability puts the states in the same order as, if there is one."""
    correlations: Mapping[tuple[str, str], Estimate | None]
    calibration: Mapping[str, ScoreCalibration]
    matched: ExchangeableStates
    permutations: Mapping[tuple[str, str], PermutationTest]
    """By score and number."""
    levels: Sequence[Mapping[str, Any]]


_GATE = "right among states that pass the answer gate"


def _measure(examples: Examples, states: StateTable, threshold: float) -> _Measured:
    matrix = belief_matrix(examples)
    belief = {name: matrix[:, place] for place, name in enumerate(DIMENSIONS)}
    scores = {name: sign * belief[name] for name, sign in DIMENSIONS.items()}
    count = examples.count
    enough = min(count.questions_positive, count.questions_negative) >= _MIN_FIT_QUESTIONS
    held_out = measure_held_out_auc(matrix, np.column_stack(list(scores.values())), examples) if enough else None
    judged = {name: belief[name] for name in ("sufficiency", "reliability")}
    same_order_as = ""
    if all(state.answerability is not None for state in examples.states):
        answerability = np.array([state.answerability for state in examples.states], dtype=np.float64)
        judged[_ANSWERABILITY] = answerability
        same_order_as = next((name for name in DIMENSIONS if have_same_order(answerability, scores[name])), "")
        scores |= {} if same_order_as else {_ANSWERABILITY: answerability}
    signals = {name: found for name, values in scores.items() if (found := signal_auc(values, examples)) is not None}
    best = max(DIMENSIONS, key=lambda name: signals[name].value)
    matched = match_questions(examples)
    tests = {(name, "AUC"): run_permutation_test(values, matched) for name, values in scores.items()}
    if _ANSWERABILITY in judged:
        gated = run_permutation_test(judged[_ANSWERABILITY], matched, gate=threshold)
        tests[_ANSWERABILITY, _GATE] = gated
    return _Measured(
        signals=signals | ({_JOINT: held_out.joint} if held_out else {}),
        held_out=held_out,
        joint_seen=signal_auc(fit_scores(matrix, examples), examples) if held_out else None,
        best=best,
        same_order_as=same_order_as,
        correlations={
            (one, other): rank_correlation(belief[one], belief[other], examples)
            for one, other in combinations(DIMENSIONS, 2)
        },
        calibration={name: measure_calibration(p, examples) for name, p in judged.items()},
        matched=matched,
        permutations={name: test for name, test in tests.items() if test is not None},
        levels=[level for name in DIMENSIONS for level in split_into_levels(states, name)],
    )


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
        "AUC: the chance that a right state has the better value than a wrong one. Half is no signal.",
        "The direction is that of the meaning: more sufficiency and reliability, less of the others. It is not fitted.",
        "Jointly: a logistic fit on four fifths of the questions scores the rest, beside the best single one there.",
        f"The questions are divided {PARTITIONS} times by chance, and both AUCs are within the held-out parts.",
        "A question counts once, its states share its weight; the paper seems to count states.",
        f"Intervals resample questions, 2,000 times; for the joint AUC {RESAMPLES} times, fitted and picked anew.",
        "Correlations are Spearman's. Calibration errors are over ten equal bins. Levels are thirds of visited states.",
        "Permutation: scores are exchanged, 2,000 times, between questions of a dataset that reached the same rounds.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the run that methods are compared in, with a survey if the verifier drafts no answers."""
        methods = (METHOD,) if context.drafts_answers else (METHOD, _SURVEY)
        return (RequiredRun("comparison", methods, sufficient_methods=(METHOD,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute how well the belief separates right states from wrong ones."""
        recording = recordings["comparison"]
        own, method = recording.trajectories_of(METHOD), METHOD
        examples, left_out = label_states(own, context.label)
        if not len(examples) and (surveyed := recording.trajectories_of(_SURVEY)):
            method = _SURVEY
            examples, left_out = label_states(surveyed, context.label)
        count = examples.count
        by_dataset = {d: len({e.question_id for e in examples.each if e.dataset == d}) for d in recording.datasets}
        questions = describe_counts(by_dataset)
        sample = f"{count.states:,} states with a drafted answer, {count.positive:,} of them right, of {questions}."
        right = "a token F1 of at least one half" if context.label == "f1" else context.label.replace("_", " ")
        notes = [f"A state is right if answering there gives a right answer: {right}."]
        if method == _SURVEY:
            notes.append("BeliefRAG's own states have no drafted answer; those of a survey of the same questions do.")
        bare, unlabelled = left_out.without_evidence, left_out.unlabelled
        notes.append(f"Left out: {bare:,} states without evidence and {unlabelled:,} without a known outcome.")
        notes += recording.missing_notes(method)
        if not own or min(count.questions_positive, count.questions_negative) < _MIN_QUESTIONS:
            why = (
                f"It needs at least {_MIN_QUESTIONS} questions with a state whose answer is right by {context.label}, "
                f"and {_MIN_QUESTIONS} with one whose answer is wrong; there are {count.questions_positive} and "
                f"{count.questions_negative}."
            )
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        found = _measure(examples, StateTable(own), thresholds_of(recording.run).answer)
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(found)),
            numbers={
                "best_single": found.best,
                "joint_auc_of_a_fit_that_has_seen_the_states": found.joint_seen,
                "best_single_on_questions_it_was_not_picked_on": found.held_out.single if found.held_out else None,
                "joint_minus_that_single": found.held_out.difference if found.held_out else None,
                "answerability_rises_with": found.same_order_as or None,
            },
            tables=tuple(_make_tables(found)),
            notes=(*notes, *_write_notes(found)),
            paper_values=compare_with_paper(
                {
                    "auc_best_single": found.signals[found.best],
                    "auc_joint": found.signals.get(_JOINT),
                    "ece_sufficiency": Estimate(found.calibration["sufficiency"].ece),
                    "ece_reliability": Estimate(found.calibration["reliability"].ece),
                }
            ),
            paper_note="Theirs are with gpt-oss-120b, answers judged by a model. Their strongest dimension is "
            f"uncertainty, the strongest here {found.best}. The paper does not say whether its "
            "joint AUC was taken on states that the fit had seen, nor how it binned its calibration errors.",
            draw=partial(_draw_belief, found),
            figure_size=(12.0, 9.6),
            caption="The AUC of each belief dimension; rank correlations of the dimensions; scores against the share "
            "of right answers; the actions at each level.",
        )


def _write_notes(found: _Measured) -> Iterator[str]:
    if found.held_out is None:
        yield f"A joint fit needs at least {_MIN_FIT_QUESTIONS} questions with a right and as many with a wrong state."
    if found.same_order_as:
        yield (
            f"The run's calibration makes answerability a rising function of {found.same_order_as}: both put the "
            "states in the same order, and have the same AUC and permutations. The paper's is a fit of all diagnostics."
        )
    match = found.matched
    on = "dataset, round and number of retained passages" if match.on_retained else "dataset and round"
    yield f"Permutation: states matched on {on}; {match.with_partner} of {match.questions} questions have a partner."
    flat = [name for name in DIMENSIONS if not any(level["dimension"] == name for level in found.levels)]
    if flat:
        yield f"No levels of {', '.join(flat)}: too many states have the same value."
    yield "A calibration error cannot be below 0: few states make one by chance, which is given beside it."


def _describe_findings(found: _Measured) -> Iterator[str]:
    yield f"The strongest single dimension is {found.best}: AUC {format_cell(found.signals[found.best])}."
    if found.held_out is not None:
        yield (
            f"All dimensions jointly, on questions that a fit had not seen: AUC {format_cell(found.held_out.joint)}, "
            f"{format_number(found.held_out.difference, '+.3f')} against the dimension that is strongest on the "
            f"questions of the fit. A fit that has seen the states shows {format_cell(found.joint_seen)}."
        )
    words = f"{found.same_order_as}, and with it answerability," if found.same_order_as else "answerability"
    if test := found.permutations.get((found.same_order_as or _ANSWERABILITY, "AUC")):
        yield (
            f"Exchanged between matched states, {words} falls from AUC {test.observed:.3f} to {test.permuted:.3f} "
            f"(permutations {test.low:.3f} to {test.high:.3f}), p = {test.p:.2g}."
        )
    if test := found.permutations.get((_ANSWERABILITY, _GATE)):
        yield (
            f"Of the matched states that pass the answer gate {test.observed:.1%} are right; with answerability "
            f"exchanged it would be {test.permuted:.1%} (p = {test.p:.2g})."
        )
    for name, each in found.calibration.items():
        yield f"Expected calibration error of {name}: {each.ece:.3f}; up to {each.chance_at_most:.3f} by chance."


def _make_tables(found: _Measured) -> Iterator[Table]:
    signals: dict[str, Estimate] = dict(found.signals)
    if found.held_out:
        signals["strongest single one on other questions"] = found.held_out.single
    yield Table.of_records(
        "auc",
        "How well each signal separates right from wrong states",
        [{"signal": name, "AUC": estimate} for name, estimate in signals.items()],
        "Half is no signal; below half it points the wrong way. That of all jointly, and of the strongest one on other "
        "questions, is taken within parts of held-out questions.",
    )
    yield Table.of_records(
        "permutation",
        "Scores exchanged between matched states",
        [
            {
                "score": name,
                "number": number,
                "observed": test.observed,
                "permuted (mean)": test.permuted,
                "permuted low": test.low,
                "permuted high": test.high,
                "p": test.p,
            }
            for (name, number), test in found.permutations.items()
        ],
        "On the first state of each question and round. Low and high hold 95 % of the permutations; p is one-sided and "
        "not corrected for several scores.",
        {"p": 4},
    )
    yield Table.of_records(
        "correlations",
        "Correlations of the dimensions",
        [
            {"one": one, "other": other, "rank correlation": number}
            for (one, other), number in found.correlations.items()
        ],
        "Spearman's; a dash if one of the two hardly varies.",
        {"rank correlation": 2},
    )
    yield Table.of_records(
        "calibration",
        "Expected calibration error",
        [
            {"score": n, "ECE": c.ece, "by chance (mean)": c.chance, "by chance at most (95 %)": c.chance_at_most}
            for n, c in found.calibration.items()
        ],
        "By chance: what a perfectly calibrated score would show on as many states.",
    )
    yield Table.of_records(
        "reliability",
        "Reliability curves",
        [
            {
                "score": name,
                "from": b.low,
                "to": b.high,
                "states": b.states,
                "weight (share)": b.share,
                "mean score": b.predicted,
                "right (share)": b.observed,
            }
            for name, each in found.calibration.items()
            for b in each.curve
        ],
        digits={"from": 1, "to": 1, "weight": 2},
    )
    digits = {action.value: 2 for action in Action}
    yield Table.of_records("actions", "What was done next, by belief level", found.levels, digits=digits)


def _draw_belief(found: _Measured, figure: Figure) -> None:
    panels = figure.subplots(2, 2)
    label_axes(panels[0, 0], "How well each signal separates right from wrong", y="AUC (0.5: no signal)")
    tests = {name: found.permutations.get((name, "AUC")) for name in found.signals}
    permuted = [Estimate(test.permuted, test.low, test.high) if test else None for test in tests.values()]
    observed: list[Estimate | None] = list(found.signals.values())
    draw_bars(panels[0, 0], list(found.signals), {"observed": observed, "exchanged among matched states": permuted})
    panels[0, 0].axhline(0.5, color="black", linestyle=":", linewidth=1.2)
    _draw_correlations(panels[0, 1], found)
    axes = panels[1, 0]
    label_axes(axes, "Scores against the share of right answers", "mean score in a bin of one tenth", "share right")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfectly calibrated")
    curves = {
        f"{name}: ECE {each.ece:.3f}": [(b.predicted, Estimate(b.observed)) for b in each.curve]
        for name, each in found.calibration.items()
    }
    draw_curves(axes, curves)
    _draw_actions(panels[1, 1], found)


def _draw_correlations(axes: Axes, found: _Measured) -> None:
    names = list(DIMENSIONS)
    table = np.full((len(names), len(names)), np.nan)
    for (one, other), estimate in found.correlations.items():
        row, column = names.index(other), names.index(one)
        table[row, column] = np.nan if estimate is None else estimate.value
        words = "–" if estimate is None else f"{estimate.value:+.2f}"
        dark = estimate is not None and abs(estimate.value) > 0.6
        axes.text(column, row, words, ha="center", va="center", color="white" if dark else "black")
    axes.imshow(np.abs(table), cmap="Greys", vmin=0, vmax=1.3)
    axes.set_xticks(range(len(names)), names, rotation=20)
    axes.set_yticks(range(len(names)), names)
    axes.set_title("Rank correlations over states (darker: stronger)", fontsize=11)


def _draw_actions(axes: Axes, found: _Measured) -> None:
    label_axes(axes, "What was done at each level of the belief", "share of visited states (levels: thirds)")
    names = [f"{level['dimension']}: {level['level']}" for level in found.levels]
    left = np.zeros(len(names))
    for number, action in enumerate(Action):
        shares = [level[f"{action.value} (share)"] for level in found.levels]
        style: dict[str, Any] = {"color": str(1 - 0.15 * number), "hatch": HATCHES[number % len(HATCHES)]}
        axes.barh(names, shares, left=left, height=0.85, edgecolor="black", label=action.value, **style)
        left += shares
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8, frameon=False, ncols=6)
