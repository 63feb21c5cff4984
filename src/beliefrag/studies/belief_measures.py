"""The measures of the belief study: how well each belief dimension tells right states from wrong ones.

AUCs of a joint fit are taken within parts of held-out questions. Scores of different fits cannot be put together in one
AUC: a part with many right states lies below the others, since its fit has seen few of them. And a single dimension
that was picked on the very states would flatter itself beside a fit that was not made on them.

The permutation test asks whether a score tells right from wrong beyond what dataset and round tell. A question takes
part with its first state of each round. It is exchanged as a whole: it gets the scores of another question of the same
dataset that reached the same rounds, round by round. So the states of one question, which are not independent, stay
together: exchanging them one by one would call chance a signal (Winkler et al., NeuroImage 2015, on exchangeability
blocks).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.artifact import Bin
from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.fitting import LEAST_SPREAD, fit_logistic, refit_logistic
from beliefrag.calibration.quality import auc, estimate_auc, expected_calibration_error, reliability_curve
from beliefrag.runs.states import State
from beliefrag.runs.statistics import (
    MEAN_RESAMPLES,
    Estimate,
    Floats,
    draw_counts,
    estimate_from_resamples,
    random_generator,
)
from beliefrag.studies.state_table import StateTable, have_same_order, rank_with_ties
from beliefrag.types import Action

__all__ = [
    "ANSWERABILITY",
    "DIMENSIONS",
    "JOINT",
    "MIN_FIT_QUESTIONS",
    "PARTITIONS",
    "RESAMPLES",
    "BeliefMeasures",
    "HeldOutAuc",
    "PermutationTest",
    "belief_matrix",
    "fit_scores",
    "match_questions",
    "measure_belief",
    "measure_calibration",
    "measure_held_out_auc",
    "rank_correlation",
    "run_permutation_test",
    "signal_auc",
    "split_into_levels",
]

JOINT = "all jointly"
ANSWERABILITY = "answerability"
MIN_FIT_QUESTIONS = 10
"""Questions with a right and with a wrong state that a fit of six weights needs."""
PARTITIONS = 20
"""How often questions are divided into parts: with one division the joint AUC would be a matter of luck."""
RESAMPLES = 200
_LIKE_PROBABILITIES = ("sufficiency", "reliability")
_LEVELS = ("low", "middle", "high")
_PARTS = 5
_PERMUTATIONS = 2_000
_SEED = 0
_ENOUGH_PARTNERS = 0.8
"""The finer match is taken if at least this share of the questions still has a partner."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScoredDimension:
    """One dimension of the belief."""

    name: str
    better: int
    """1 where more of it speaks for a right answer, -1 where less does."""
    value: Callable[[State], float]


_IN_ORDER = (
    ScoredDimension("sufficiency", 1, lambda s: s.belief.sufficiency),
    ScoredDimension("reliability", 1, lambda s: s.belief.reliability),
    ScoredDimension("conflict", -1, lambda s: s.belief.conflict),
    ScoredDimension("uncertainty", -1, lambda s: s.belief.uncertainty),
    ScoredDimension("gap", -1, lambda s: s.belief.gap),
    ScoredDimension("cost", -1, lambda s: s.belief.cost),
)
DIMENSIONS: Mapping[str, ScoredDimension] = {dimension.name: dimension for dimension in _IN_ORDER}


def belief_matrix(examples: Examples) -> Floats:
    """Return the belief of each example, a column for each dimension."""
    return np.array([[d.value(state) for d in DIMENSIONS.values()] for state in examples.states])


def signal_auc(scores: Floats, examples: Examples) -> Estimate | None:
    """Return the AUC of a score for being right, with its interval; None where all outcomes are the same."""
    found = estimate_auc(scores, examples)
    return None if found is None else replace(found, questions=examples.count.questions)


def fit_scores(matrix: Floats, examples: Examples) -> Floats:
    """Return the scores of one fit that has seen all states: it flatters itself, and shows by how much."""
    fitted = fit_logistic(matrix, examples.outcomes, examples.weights)
    return np.asarray(fitted.intercept + matrix @ np.array(fitted.weights))


def rank_correlation(one: Floats, other: Floats, examples: Examples) -> Estimate | None:
    """Return Spearman's rank correlation over states, with its interval over questions; None where one is constant."""
    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return None
    # Ranks of the whole, taken once: what resamples change is how much each state weighs.
    ranks = rank_with_ties(one), rank_with_ties(other)
    value = float(_weighted_correlation(*ranks, examples.weights))
    drawn = examples.resample(partial(_weighted_correlation, *ranks))
    return estimate_from_resamples(value, drawn, questions=examples.count.questions)


def _weighted_correlation(one: Floats, other: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=-1)
    first, second = weights @ one / total, weights @ other / total
    product = weights @ (one * other) / total - first * second
    spread = (weights @ one**2 / total - first**2) * (weights @ other**2 / total - second**2)
    blank = np.full(np.shape(spread), np.nan)
    found: Floats = np.divide(product, np.sqrt(np.maximum(spread, 0)), out=blank, where=spread > 1e-12)
    return found


@dataclass(frozen=True, slots=True)
class BeliefLevel:
    """A third of the visited states, by one dimension."""

    dimension: str
    name: str
    low: float
    high: float
    """The lowest and highest value among its states."""
    states: int
    actions: Mapping[Action, int]

    def share(self, action: Action) -> float:
        """Return the share of its states after which this was done."""
        return self.actions.get(action, 0) / self.states


def split_into_levels(states: StateTable, dimension: ScoredDimension) -> tuple[BeliefLevel, ...] | None:
    """Split the visited states into three levels; None where the dimension varies too little for three.

    The cuts lie at one and two thirds of the visited states. States with the same value stay together, so that the
    thirds can differ in size.
    """
    values = states.column(dimension.value)
    cuts = np.quantile(values, [1 / 3, 2 / 3])
    place = np.searchsorted(cuts, values, side="left")
    if len(set(place.tolist())) < len(_LEVELS):
        return None
    return tuple(
        BeliefLevel(
            dimension=dimension.name,
            name=name,
            low=float(values[place == number].min()),
            high=float(values[place == number].max()),
            states=int((place == number).sum()),
            actions=Counter(s.action for s, own in zip(states.states, place == number, strict=True) if own),
        )
        for number, name in enumerate(_LEVELS)
    )


@dataclass(frozen=True, slots=True)
class HeldOutAuc:
    """The chance that a right state has the better score than a wrong one of the same held-out part."""

    joint: Estimate
    """The AUC of a logistic fit of all dimensions on the other parts."""
    single: Estimate
    """The AUC of the dimension that is strongest on the other parts."""
    difference: Estimate
    """The first minus the second."""


@dataclass(frozen=True, slots=True)
class _ScoredPart:
    places: Integers
    joint: Floats
    single: Floats


def measure_held_out_auc(
    matrix: Floats, scores: Floats, examples: Examples, *, seed: int = _SEED, resamples: int | None = None
) -> HeldOutAuc | None:
    """Measure both AUCs and their difference on questions that neither was fitted or picked on.

    For the intervals questions are resampled, and fits and picks made anew on each resample: with those of the whole an
    interval would be too narrow. A resample has fewer different questions to fit on, so its AUCs lie lower; how far
    they lie apart is what the intervals are made of.

    Args:
        matrix: A column for each dimension.
        scores: The same columns, turned so that more speaks for a right answer.
        examples: The states and outcomes.
        seed: The seed of the division of questions into parts and of the resamples.
        resamples: How many resamples to draw; `RESAMPLES` by default.

    Returns:
        None where some part leaves only one outcome to fit on.
    """
    generator = random_generator(seed)
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    drawn = [examples.weights] * PARTITIONS
    cuts = [_cut_into_parts(weights, place, generator) for weights in drawn]
    for _ in range(RESAMPLES if resamples is None else resamples):
        drawn.append(draw_counts(generator, len(questions), 1)[0, place] * examples.weights)
        cuts.append(_cut_into_parts(drawn[-1], place, generator))
    scored = _score_parts(matrix, scores, examples, np.array(drawn), cuts)
    parts = [part for division in scored[:PARTITIONS] for part in division or ()]
    if len(parts) < PARTITIONS * _PARTS:
        return None
    value = _mean_auc(parts, examples, examples.weights)
    spread = np.array([_mean_auc(own or (), examples, w) for own, w in zip(scored, drawn, strict=True)])[PARTITIONS:]
    spread += value - np.nanmean(spread, axis=0)
    estimates = (
        estimate_from_resamples(float(own), np.clip(each, low, 1), questions=len(questions))
        for own, each, low in zip(value, spread.T, (0, 0, -1), strict=True)
    )
    return HeldOutAuc(*estimates)


def _cut_into_parts(weights: Floats, question: Integers, generator: np.random.Generator) -> list[Integers]:
    """Cut the questions that weigh anything into five parts, and gives the places of the states of each."""
    there = np.flatnonzero(weights)
    present, own = np.unique(question[there], return_inverse=True)
    part = (generator.permutation(len(present)) % _PARTS)[own]
    return [there[part == each] for each in range(_PARTS)]


def _score_parts(
    matrix: Floats, scores: Floats, examples: Examples, weights: Floats, divisions: Sequence[Sequence[Integers]]
) -> list[list[_ScoredPart] | None]:
    """Scores each part of each division by what the others of it give; None where they have one outcome only."""
    inside = [part for division in divisions for part in division]
    others = np.repeat(weights, _PARTS, axis=0)
    for row, part in zip(others, inside, strict=True):
        row[part] = 0.0
    fitted = refit_logistic(matrix, examples.outcomes, others)
    strongest = np.array([auc(column, examples.outcomes, others) for column in scores.T]).argmax(axis=0)
    scored = [
        _ScoredPart(part, fit[0] + matrix[part] @ fit[1:], scores[part, best])
        for part, fit, best in zip(inside, fitted, strongest, strict=True)
    ]
    starts = range(0, len(scored), _PARTS)
    return [None if np.isnan(fitted[at : at + _PARTS]).any() else scored[at : at + _PARTS] for at in starts]


def _mean_auc(parts: Sequence[_ScoredPart], examples: Examples, weights: Floats) -> Floats:
    """Joint, single and the difference; not a number where no part has both outcomes."""
    won, pairs = np.zeros(2), 0.0
    for part in parts:
        y, w = examples.outcomes[part.places], weights[part.places]
        own = float(w @ y * (w @ (1 - y)))
        if own > 0:
            won += own * np.array([auc(part.joint, y, w), auc(part.single, y, w)])
            pairs += own
    joint, single = won / pairs if pairs else (np.nan, np.nan)
    return np.array([joint, single, joint - single])


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
    with_partner: int
    """How many of the questions have another one to be exchanged with."""


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """A number as it is, and as it is with scores exchanged between matched states."""

    observed: float
    mean: float
    """The mean over permutations: what dataset and round alone give."""
    low: float
    high: float
    """Between them lie 95 % of the permutations."""
    p: float
    """The chance of so large a number, or a larger one, if the score told nothing beyond the match."""


def match_questions(examples: Examples) -> ExchangeableStates:
    """Matches states on dataset and round, and on the number of retained passages where most still find a partner."""
    first: dict[tuple[str, int], tuple[int, Example]] = {}
    for place, example in enumerate(examples.each):
        first.setdefault((example.question, example.state.rounds), (place, example))
    kept = sorted(first.values(), key=lambda found: found[0])
    chosen = Examples(example for _, example in kept)
    # Examples are sorted by question and step, and so are the first ones among them.
    places = np.array([place for place, _ in kept], dtype=np.int64)
    rows: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(chosen.each):
        rows[example.question].append(place)
    fine, coarse = (_group_questions(chosen, rows, retained=retained) for retained in (True, False))
    on_retained = _count_rows(fine) >= _ENOUGH_PARTNERS * _count_rows(coarse) and _count_rows(fine) > 0
    groups = fine if on_retained else coarse
    return ExchangeableStates(chosen, places, groups, on_retained, len(rows), _count_rows(groups))


def run_permutation_test(
    scores: Floats,
    matched: ExchangeableStates,
    *,
    gate: float | None = None,
    permutations: int = _PERMUTATIONS,
    seed: int = _SEED,
) -> PermutationTest | None:
    """Tests the AUC of a score, or how often a gate on it would be right, against permutations of the score.

    Args:
        scores: One for each example that was matched.
        matched: The match.
        gate: A threshold on the score: the number is then the share of right states among those from it on.
        permutations: How many permutations to draw.
        seed: The seed of the permutations.

    Returns:
        None where the number has no value: outcomes all alike, nothing passes the gate, or nobody has a partner.
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
    # Outcomes are exchanged in place of scores: it comes to the same, and the scores are sorted only once.
    orders = _draw_orders(matched, permutations, seed)
    drawn = statistic(outcomes[orders], weights[orders])
    if not np.isfinite(drawn).all():
        return None
    low, high = np.quantile(drawn, [0.025, 0.975])
    # The observed order is one of the permutations, so that p is never 0 (Phipson and Smyth, 2010). A number that
    # differs by rounding alone counts as equal.
    at_least = int((drawn >= observed - 1e-12).sum())
    return PermutationTest(observed, float(drawn.mean()), float(low), float(high), (1 + at_least) / (1 + permutations))


def _draw_orders(matched: ExchangeableStates, permutations: int, seed: int) -> Integers:
    """Draw permutations: each says whose outcome takes the place of each state's."""
    generator = random_generator(seed)
    orders = np.tile(np.arange(len(matched.examples)), (permutations, 1))
    for group in matched.groups:
        drawn = generator.permuted(np.tile(np.arange(len(group)), (permutations, 1)), axis=1)
        orders[:, group] = group[drawn]
    return orders


def _group_questions(examples: Examples, rows: dict[str, list[int]], *, retained: bool) -> tuple[Integers, ...]:
    alike: dict[tuple[object, ...], list[list[int]]] = defaultdict(list)
    for places in rows.values():
        own = [examples.each[place] for place in places]
        pattern = tuple((e.state.rounds, e.state.retained if retained else 0) for e in own)
        alike[own[0].dataset, pattern].append(places)
    return tuple(np.array(group, dtype=np.int64) for group in alike.values() if len(group) > 1)


def _count_rows(groups: tuple[Integers, ...]) -> int:
    return sum(len(group) for group in groups)


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """How near a score lies to the share of right answers."""

    ece: float
    chance: float
    """What a perfectly calibrated score would show on as many states, on average."""
    chance_at_most: float
    """What it would show at most, 95 times of 100."""
    curve: tuple[Bin, ...]


def measure_calibration(p: Floats, examples: Examples) -> ScoreCalibration:
    """Measure the calibration error of a score taken as the chance of being right, and its reliability curve.

    Beside it stands what a perfectly calibrated score would show: outcomes are drawn with the score's own chances,
    those of a question together.
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
class BeliefMeasures:
    """All numbers of the study."""

    signals: Mapping[str, Estimate]
    """AUC of each dimension, of answerability where its order is its own, and of all jointly where that can be said."""
    held_out: HeldOutAuc | None
    """All jointly beside a single one, on questions that neither has seen."""
    joint_seen: Estimate | None
    """The joint AUC of a fit that has seen the states."""
    best: str
    """The strongest dimension."""
    same_order_as: str
    """The dimension that answerability puts the states in the same order as; empty where there is none."""
    correlations: Mapping[tuple[str, str], Estimate | None]
    calibration: Mapping[str, ScoreCalibration]
    matched: ExchangeableStates
    permutations: Mapping[str, PermutationTest]
    gate: PermutationTest | None
    """The share of right states among those from the answer threshold on."""
    levels: tuple[BeliefLevel, ...]
    without_levels: tuple[str, ...]
    """Dimensions that vary too little for three levels."""


def measure_belief(examples: Examples, states: StateTable, threshold: float) -> BeliefMeasures:
    """Work out all numbers of the study.

    Args:
        examples: States with the outcome of answering there, of both outcomes.
        states: The visited states whose next actions are looked at.
        threshold: From which answerability on the policy answers.
    """
    matrix = belief_matrix(examples)
    belief = {name: matrix[:, place] for place, name in enumerate(DIMENSIONS)}
    scores = {name: dimension.better * belief[name] for name, dimension in DIMENSIONS.items()}
    count = examples.count
    enough = min(count.questions_positive, count.questions_negative) >= MIN_FIT_QUESTIONS
    held_out = measure_held_out_auc(matrix, np.column_stack(list(scores.values())), examples) if enough else None
    probabilities = [state.answerability for state in examples.states]
    answerability = None
    if all(p is not None for p in probabilities):
        answerability = np.array(probabilities, dtype=np.float64)
    same_order_as = ""
    if answerability is not None:
        same_order_as = next((name for name in DIMENSIONS if have_same_order(answerability, scores[name])), "")
    if answerability is not None and not same_order_as:
        scores[ANSWERABILITY] = answerability
    signals = {name: found for name, values in scores.items() if (found := signal_auc(values, examples)) is not None}
    best = max(DIMENSIONS, key=lambda name: signals[name].value)
    if held_out:
        signals[JOINT] = held_out.joint
    judged = {name: belief[name] for name in _LIKE_PROBABILITIES}
    if answerability is not None:
        judged[ANSWERABILITY] = answerability
    matched = match_questions(examples)
    tests = {name: run_permutation_test(values, matched) for name, values in scores.items()}
    levels = {name: split_into_levels(states, dimension) for name, dimension in DIMENSIONS.items()}
    return BeliefMeasures(
        signals=signals,
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
        gate=run_permutation_test(answerability, matched, gate=threshold) if answerability is not None else None,
        levels=tuple(level for each in levels.values() for level in each or ()),
        without_levels=tuple(name for name, each in levels.items() if each is None),
    )
