"""Fits answerability, in its three kinds, and the retrieval value to recorded states."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beliefrag.calibration.artifact import AnswerabilityFit, Kind
from beliefrag.calibration.examples import DIAGNOSTICS, Examples
from beliefrag.calibration.quality import brier, predict_answerability
from beliefrag.errors import explain_missing_extra
from beliefrag.policy import FittedValue, IsotonicAnswerability, LogisticAnswerability, PlattAnswerability
from beliefrag.policy.belief import log_odds
from beliefrag.runs.statistics import Estimate, Floats, estimate_from_resamples
from beliefrag.types import Diagnostics

LEAST_SPREAD = 0.01
"""A column that varies less than this has weight 0, rather than a huge one on noise."""
LEAST_SETS = 4
"""Fewest sets to leave one out: of three gains the standard error says too little."""
LEAST_TO_CHOOSE = 100
"""Questions that are needed to take another kind than the paper's: on fewer, the choice would be chance."""
RESAMPLES = 500
VALUE_COLUMNS = ("rounds", "novelty", "sufficiency")

_WEAK_PRIOR = 100.0
"""C of scikit-learn, where a question weighs 1: a slope is hardly shrunk, and still finite where a column separates."""
_PRIORS = (1.0, 10.0, _WEAK_PRIOR)
_NEGLIGIBLE_PRIOR = 1e6
_MOST_SHRINK = 0.2
"""A prior that takes this share off the length of the slopes, or more, is not taken."""
_PRIOR_STATES = 4.0
"""Chosen among 0.5 to 8 on 13 sets, each with a fit to the others: it loses least where it loses at all."""
_MOST_STEPS = 50
_FOLDS = 5
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Logistic:
    """Intercept and weights on the columns' own scale, rounded as they are written down."""

    intercept: float
    weights: tuple[float, ...]
    idle: tuple[int, ...]


def fit_logistic(columns: Floats, outcomes: Floats, weights: Floats, inverse_ridge: float = _WEAK_PRIOR) -> Logistic:
    """Fit a logistic regression to rows of columns, with outcomes of 1 and 0, both of which must occur.

    `inverse_ridge` is how little the weights are drawn towards 0, on columns of spread 1.
    """
    (found,) = refit_logistic(columns, outcomes, weights[None], inverse_ridge)
    intercept, *slopes = (round(float(value), _DIGITS) for value in found)
    idle = np.flatnonzero(_measure_columns(columns, weights)[1] < LEAST_SPREAD)
    return Logistic(intercept, tuple(slopes), tuple(idle.tolist()))


def refit_logistic(columns: Floats, outcomes: Floats, weights: Floats, inverse_ridge: float = _WEAK_PRIOR) -> Floats:
    """Make the same fit for each row of weights; a weight of 0 leaves an example out.

    Returns:
        One row for each fit: its intercept and its weights. It is NaN where all outcomes are the same.
    """
    # Heavy, and needed by no command but a fit.
    with explain_missing_extra("A fit", "bench"):
        from sklearn import config_context  # noqa: PLC0415
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    found = np.full((len(weights), columns.shape[1] + 1), np.nan)
    solver = LogisticRegression(C=inverse_ridge, solver="newton-cholesky", tol=1e-8, max_iter=200)
    # An interval takes hundreds of fits of few rows, and a quarter of their time went into checks of types.
    with config_context(assume_finite=True, skip_parameter_validation=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for row, own in zip(found, weights, strict=True):
            counted = own > 0
            x, y, w = columns[counted], outcomes[counted], own[counted]
            if len(np.unique(y)) < 2:
                continue
            row[:] = 0.0
            centre, spread = _measure_columns(x, w)
            used = np.flatnonzero(spread >= LEAST_SPREAD)
            if len(used):
                solver.fit((x[:, used] - centre[used]) / spread[used], y, sample_weight=w)
                row[used + 1] = solver.coef_[0] / spread[used]
                row[0] = solver.intercept_[0] - row[1:] @ centre
            else:
                row[0] = log_odds(float(np.average(y, weights=w)))
    return found


def _measure_columns(columns: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each column, and its standard deviation."""
    centre = np.average(columns, axis=0, weights=weights)
    return centre, np.sqrt(np.average((columns - centre) ** 2, axis=0, weights=weights))


def choose_columns(columns: Floats, examples: Examples, allowed: Sequence[int]) -> tuple[int, ...]:
    """Choose the columns, among those allowed, that also predict a set of questions that was left out of the fit.

    A column may separate right from wrong within every set, and mislead on documents of another kind. Starting with
    none, the column is added that lowers the loss on left-out sets most, as long as it does so by more than the
    standard error of that gain over the sets. With fewer than `LEAST_SETS` sets all columns are taken.
    """
    sets = np.array([example.dataset for example in examples.each])
    names = sorted(set(sets))
    y, w = examples.outcomes, examples.weights
    if len(names) < LEAST_SETS or any(len(set(y[sets != name])) < 2 for name in names):
        return tuple(allowed)
    unseen = np.array([sets == name for name in names])

    def measure_losses(chosen: tuple[int, ...]) -> Floats:
        own = columns[:, list(chosen)]
        loss = _losses(own, y, refit_logistic(own, y, w * ~unseen, _PRIORS[1]))
        return np.average(loss, axis=1, weights=w * unseen)

    chosen: tuple[int, ...] = ()
    least = measure_losses(chosen)
    while len(chosen) < len(allowed):
        others = {place: measure_losses(tuple(sorted((*chosen, place)))) for place in allowed if place not in chosen}
        best = min(others, key=lambda place: others[place].mean())
        gains = least - others[best]
        if gains.mean() <= gains.std(ddof=1) / np.sqrt(len(gains)):
            break
        chosen, least = tuple(sorted((*chosen, best))), others[best]
    return chosen or tuple(allowed)


def choose_prior(columns: Floats, examples: Examples) -> float:
    """Choose how weakly to draw the weights towards 0: the strength that predicts unseen questions best.

    Only strengths count that leave the slopes nearly as they are: on columns of spread 1, their length is less than a
    fifth below that without a prior. A single column that varies, or few questions, need no choice. Questions are dealt
    to folds in turn, so the same examples always give the same choice; of equal ones the strongest is taken.
    """
    questions = sorted(set(examples.questions))
    y, w = examples.outcomes, examples.weights
    _, spread = _measure_columns(columns, w)
    if (spread >= LEAST_SPREAD).sum() < 2 or len(questions) < 2 * _FOLDS:
        return _WEAK_PRIOR
    deal = {question: place % _FOLDS for place, question in enumerate(questions)}
    unseen = np.array([[deal[question] == fold for question in examples.questions] for fold in range(_FOLDS)])

    def measure_loss(prior: float) -> float:
        loss = _losses(columns, y, refit_logistic(columns, y, w * ~unseen, prior))
        return float(np.nansum(loss * w * unseen))  # a fold that leaves one outcome to fit on does not count

    def measure_slopes(prior: float) -> float:
        return float(np.linalg.norm(refit_logistic(columns, y, w[None], prior)[0, 1:] * spread))

    least = (1 - _MOST_SHRINK) * measure_slopes(_NEGLIGIBLE_PRIOR)
    allowed = [prior for prior in _PRIORS if prior == _WEAK_PRIOR or measure_slopes(prior) > least]
    return min(allowed, key=measure_loss)


def _losses(columns: Floats, outcomes: Floats, fitted: Floats) -> Floats:
    """Return the loss of each example by each fit."""
    logits = fitted[:, :1] + fitted[:, 1:] @ columns.T
    return np.logaddexp(0.0, np.where(outcomes > 0, -logits, logits))


def estimate_logistic(columns: Floats, examples: Examples, names: Sequence[str]) -> dict[str, Estimate]:
    """Return the intercept and the weights by name, each with the interval of refits on resampled questions."""
    prior = choose_prior(columns, examples)
    fitted = fit_logistic(columns, examples.outcomes, examples.weights, prior)
    blocks = examples.resampled_weights(RESAMPLES)
    table = np.concatenate([refit_logistic(columns, examples.outcomes, weights, prior) for weights in blocks])
    values = (fitted.intercept, *fitted.weights)
    return {
        name: estimate_from_resamples(value, drawn)
        for name, value, drawn in zip(("intercept", *names), values, table.T, strict=True)
    }


@dataclass(frozen=True, slots=True)
class FittedKinds:
    """All kinds, fitted to the same states."""

    kinds: Mapping[Kind, AnswerabilityFit]
    """Simplest first: of kinds that are equally good the first is taken."""
    columns: Floats
    """The diagnostics that the logistic kind was fitted to; others are 0."""
    idle: tuple[str, ...]
    """Diagnostics that do not vary in these states, and have weight 0."""
    misleading: tuple[str, ...]
    """Diagnostics that do not help on a set that was left out, and have weight 0."""


def update_answerability(
    fit: LogisticAnswerability, examples: Examples, diagnostics: Collection[str] = DIAGNOSTICS
) -> LogisticAnswerability:
    """Return a fit moved towards a user's own labelled states, by as much as they are worth.

    The fit is the prior: each number is drawn back to it as strongly as `_PRIOR_STATES` states of even odds would.
    So a few labels move it a little, and many replace it. docs/results/diagnostics.md has the learning curves. Only the
    intercept and the weights of these `diagnostics` move.
    """
    if not len(examples):
        return fit
    prior = np.array([fit.intercept, *fit.weights.vector()])
    movable = [True, *(name in diagnostics for name in DIAGNOSTICS)]
    used = np.flatnonzero(np.concatenate(([1.0], prior[1:])) * movable)
    every = np.column_stack((np.ones(len(examples)), examples.diagnostics))
    columns, fixed = every[:, used], np.delete(every, used, axis=1) @ np.delete(prior, used)
    found = prior[used].copy()
    for _ in range(_MOST_STEPS):
        p = 1 / (1 + np.exp(-columns @ found - fixed))
        gradient = columns.T @ (examples.weights * (p - examples.outcomes)) + _PRIOR_STATES * (found - prior[used])
        curvature = (columns * (examples.weights * p * (1 - p))[:, None]).T @ columns
        step = np.linalg.solve(curvature + _PRIOR_STATES * np.eye(len(used)), gradient)
        found -= step
        if np.abs(step).max() < 10**-_DIGITS:
            break
    numbers = prior.copy()
    numbers[used] = found
    intercept, *weights = (round(float(number), _DIGITS) for number in numbers)
    return LogisticAnswerability(intercept, Diagnostics(*weights))


def fit_all_kinds(examples: Examples, diagnostics: Collection[str] = DIAGNOSTICS) -> FittedKinds:
    """Fit each kind to these states, which must have both outcomes. The logistic kind may use the `diagnostics`."""
    with explain_missing_extra("A fit", "bench"):
        from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    y, weights, every = examples.outcomes, examples.weights, examples.diagnostics
    allowed = [place for place, name in enumerate(DIAGNOSTICS) if name in diagnostics]
    kept = choose_columns(every, examples, allowed)
    columns = np.where(np.isin(np.arange(len(DIAGNOSTICS)), kept), every, 0.0)
    full = fit_logistic(columns, y, weights, choose_prior(columns, examples))
    idle = fit_logistic(every, y, weights).idle
    platt = fit_logistic(log_odds_of(examples), y, weights)
    steps = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
    steps.fit([state.belief.sufficiency for state in examples.states], y, sample_weight=weights)
    return FittedKinds(
        {
            "platt": PlattAnswerability(platt.intercept, platt.weights[0]),
            "logistic": LogisticAnswerability(full.intercept, Diagnostics(*full.weights)),
            "isotonic": IsotonicAnswerability(tuple(steps.X_thresholds_.tolist()), tuple(steps.y_thresholds_.tolist())),
        },
        columns,
        tuple(DIAGNOSTICS[place] for place in idle),
        tuple(DIAGNOSTICS[place] for place in allowed if place not in kept and place not in idle),
    )


def log_odds_of(examples: Examples) -> Floats:
    """Return the log-odds of the raw scores, as one column."""
    return np.array([[log_odds(state.belief.sufficiency)] for state in examples.states])


def choose_kind(fits: FittedKinds, examples: Examples) -> tuple[Kind, dict[str, float]]:
    """Choose the kind with the lowest Brier score on these states, and return it with the scores of all.

    On fewer than `LEAST_TO_CHOOSE` questions it is always the paper's kind, the logistic one.
    """
    scores = {
        kind: float(brier(predict_answerability(examples, fit), examples.outcomes, examples.weights))
        for kind, fit in fits.kinds.items()
    }
    chosen: Kind = "logistic"
    if len(set(examples.questions)) >= LEAST_TO_CHOOSE:
        chosen = min(scores, key=lambda kind: scores[kind])
    return chosen, {kind: round(score, 6) for kind, score in scores.items()}


def value_columns(pairs: Examples) -> Floats:
    """Return what the retrieval value of each search is fitted to."""
    rows = [(state.rounds, state.diagnostics.novelty, state.belief.sufficiency) for state in pairs.states]
    return np.array(rows, dtype=float)


def fit_value(pairs: Examples) -> tuple[FittedValue, tuple[str, ...]]:
    """Fit the retrieval value, and return it with the names of what does not vary in these searches."""
    columns = value_columns(pairs)
    fitted = fit_logistic(columns, pairs.outcomes, pairs.weights, choose_prior(columns, pairs))
    return FittedValue(fitted.intercept, *fitted.weights), tuple(VALUE_COLUMNS[place] for place in fitted.idle)
