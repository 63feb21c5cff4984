"""Fits answerability, in its four kinds, and the retrieval value to recorded states."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from beliefrag.calibration.artifact import (
    AnswerabilityFit,
    IsotonicFit,
    Kind,
    LogisticFit,
    PlattFit,
    RawFit,
    ValueFit,
    ValueReport,
)
from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import (
    Floats,
    auc,
    brier,
    measure_quality,
    predict_answerability,
    predict_retrieval_value,
)
from beliefrag.errors import explain_missing_extra
from beliefrag.policy.calibration import log_odds
from beliefrag.runs.partitions import Partition
from beliefrag.runs.statistics import Estimate, estimate_from_resamples
from beliefrag.types import Diagnostics

__all__ = [
    "DIAGNOSTICS",
    "LEAST_QUESTIONS",
    "LEAST_SETS",
    "LEAST_SPREAD",
    "LEAST_TO_CHOOSE",
    "RESAMPLES",
    "FittedKinds",
    "Logistic",
    "choose_columns",
    "choose_kind",
    "choose_prior",
    "estimate_coefficients",
    "estimate_logistic",
    "fit_all_kinds",
    "fit_logistic",
    "fit_value",
    "has_enough_searches",
    "measure_each_diagnostic",
    "refit_logistic",
    "report_value_fit",
]


LEAST_SPREAD = 0.01
"""A column that varies less than this tells nothing: its weight is 0, rather than a huge one on noise."""

_WEAK_PRIOR = 100.0
"""C of scikit-learn, where a question weighs 1: a slope is hardly shrunk, and still finite where a column separates."""
_PRIORS = (1.0, 10.0, _WEAK_PRIOR)
"""Between these the fit chooses where it has several columns, strongest first."""
_NEXT_TO_NO_PRIOR = 1e6
"""Its slopes are those without any prior, to a thousandth; still finite where columns separate the outcomes."""
_MOST_SHRINK = 0.2
"""A prior that takes this share off the length of the slopes, or more, is not taken."""
_FOLDS = 5
LEAST_SETS = 4
"""Sets that are needed to leave one out, and see which columns also serve on questions of another kind: of three gains
the standard error says too little."""
LEAST_TO_CHOOSE = 100
"""Questions that are needed to take another kind than the paper's: on fewer, the choice would be chance."""
RESAMPLES = 500
"""Refits for the interval of a coefficient."""
_DIGITS = 6
_MOST_STEPS = 200
_NEAR = 1e-7
"""A step so short ends a fit: the next one would be about its square."""
_ROUNDING = 1e-12
_LEAST_CURVE = 1e-12


@dataclass(frozen=True, slots=True)
class Logistic:
    """Intercept and weights on the columns' own scale, rounded as they are written down."""

    intercept: float
    weights: tuple[float, ...]
    idle: tuple[int, ...]
    """Columns that do not vary, and have weight 0."""


def fit_logistic(columns: Floats, outcomes: Floats, weights: Floats, inverse_ridge: float = _WEAK_PRIOR) -> Logistic:
    """Fit a logistic regression. There must be examples of both outcomes.

    Args:
        columns: One row for each example.
        outcomes: 1 or 0 for each.
        weights: What each counts.
        inverse_ridge: How little the weights are drawn towards 0, on columns of spread 1.
    """
    # Heavy, and needed by no command but a fit.
    with explain_missing_extra("A fit", "bench"):
        from sklearn import config_context  # noqa: PLC0415
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    centre, spread = _measure_columns(columns, weights)
    used = spread >= LEAST_SPREAD
    scaled = np.zeros(columns.shape[1])
    if used.any():
        standard = (columns[:, used] - centre[used]) / spread[used]
        fitted = LogisticRegression(C=inverse_ridge, solver="newton-cholesky", tol=1e-8, max_iter=200)
        # An interval takes hundreds of fits of few rows, and a quarter of their time went into checks of types.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            fitted.fit(standard, outcomes, sample_weight=weights)
        scaled[used] = fitted.coef_[0] / spread[used]
        start = float(fitted.intercept_[0])
    else:
        rate = float(np.average(outcomes, weights=weights))
        start = float(np.log(rate / (1 - rate)))
    return Logistic(
        intercept=round(start - float(scaled @ centre), _DIGITS),
        weights=tuple(round(float(weight), _DIGITS) for weight in scaled),
        idle=tuple(int(place) for place in np.flatnonzero(~used)),
    )


def _measure_columns(columns: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each column, and how far it spreads around it."""
    centre = np.average(columns, axis=0, weights=weights)
    return centre, np.sqrt(np.average((columns - centre) ** 2, axis=0, weights=weights))


def refit_logistic(columns: Floats, outcomes: Floats, weights: Floats, inverse_ridge: float = _WEAK_PRIOR) -> Floats:
    """Make the fit of `fit_logistic` once for each row of weights, without the overhead of scikit-learn.

    Args:
        columns: One row for each example.
        outcomes: 1 or 0 for each.
        weights: One row for each fit: what each example counts in it, and 0 where it is left out.
        inverse_ridge: How little the weights are drawn towards 0, on columns of spread 1.

    Returns:
        One row for each fit: its intercept and its weights. It is NaN where all outcomes are the same.
    """
    return np.array([_reweighted_least_squares(columns, outcomes, own, 1 / inverse_ridge) for own in weights])


def _reweighted_least_squares(columns: Floats, outcomes: Floats, weights: Floats, ridge: float) -> Floats:
    counted = weights > 0
    x, y, w = columns[counted], outcomes[counted], weights[counted]
    found = np.zeros(columns.shape[1] + 1)
    if len(np.unique(y)) < 2:
        return np.full_like(found, np.nan)
    centre, spread = _measure_columns(x, w)
    used = np.flatnonzero(spread >= LEAST_SPREAD)
    rows = np.column_stack([np.ones(len(y)), (x[:, used] - centre[used]) / spread[used]])
    penalty = np.array([0.0, *(ridge for _ in used)])

    def measure_loss(at: Floats) -> float:
        logits = rows @ at
        return float(w @ (np.logaddexp(0.0, logits) - y * logits) + penalty @ at**2 / 2)

    at = np.zeros(len(penalty))
    for _ in range(_MOST_STEPS):
        chance = 0.5 * (1 + np.tanh(rows @ at / 2))
        curve = (rows.T * (w * chance * (1 - chance))) @ rows + np.diag(penalty + _LEAST_CURVE)
        step = np.linalg.solve(curve, rows.T @ (w * (chance - y)) + penalty * at)
        loss = measure_loss(at) * (1 + _ROUNDING)
        while measure_loss(at - step) > loss and np.abs(step).max() > _NEAR:
            step /= 2
        at = at - step
        if np.abs(step).max() <= _NEAR:
            break
    found[used + 1] = at[1:] / spread[used]
    found[0] = at[0] - found[1:] @ centre
    return found


def choose_columns(columns: Floats, examples: Examples, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    """Choose the columns that also predict a set of questions that was left out of the fit.

    A column may tell right from wrong within every set, and mislead on documents of another kind. From none on, the
    column is added that lowers the loss on left-out sets most, as long as it does so by more than the standard error
    of that gain over the sets. With fewer than `LEAST_SETS` sets all columns are taken.

    Args:
        columns: One row for each example.
        examples: The examples.
        allowed: The places of the columns that may be taken; all by default.
    """
    sets = np.array([example.dataset for example in examples.each])
    names = sorted(set(sets))
    everything = tuple(range(columns.shape[1]) if allowed is None else allowed)
    y, w = examples.outcomes, examples.weights
    if len(names) < LEAST_SETS or any(len(set(y[sets != name])) < 2 for name in names):
        return everything

    def measure_losses(chosen: tuple[int, ...]) -> Floats:
        own = columns[:, list(chosen)]
        unseen = np.array([sets == name for name in names])
        loss = _unseen_losses(own, y, refit_logistic(own, y, w * ~unseen, _PRIORS[1]))
        return np.average(loss, axis=1, weights=w * unseen)

    chosen: tuple[int, ...] = ()
    least = measure_losses(chosen)
    while len(chosen) < len(everything):
        others = {place: measure_losses(tuple(sorted((*chosen, place)))) for place in everything if place not in chosen}
        best = min(others, key=lambda place: others[place].mean())
        gains = least - others[best]
        if gains.mean() <= gains.std(ddof=1) / np.sqrt(len(gains)):
            break
        chosen, least = tuple(sorted((*chosen, best))), others[best]
    return chosen or everything


def choose_prior(columns: Floats, examples: Examples) -> float:
    """Choose how weakly to draw the weights towards 0: the strength that predicts unseen questions best.

    Only strengths count that leave the slopes nearly as they are: on columns of spread 1, their length is less than a
    fifth below that without a prior. Where none is, because the columns separate the outcomes, it is the weakest. A
    single column that varies needs no choice: its slope is left as it is. Questions
    are dealt to folds in turn, so that the same examples always give the same choice; of equal ones the strongest is
    taken.
    """
    questions = sorted(set(examples.questions))
    y, w = examples.outcomes, examples.weights
    _, spread = _measure_columns(columns, w)
    if (spread >= LEAST_SPREAD).sum() < 2 or len(questions) < 2 * _FOLDS:
        return _WEAK_PRIOR
    deal = {question: place % _FOLDS for place, question in enumerate(questions)}
    fold = np.array([deal[question] for question in examples.questions])
    unseen = np.array([fold == number for number in range(_FOLDS)])

    def measure_loss(prior: float) -> float:
        loss = _unseen_losses(columns, y, refit_logistic(columns, y, w * ~unseen, prior))
        return float(np.nansum(loss * w * unseen))  # a fold that leaves one outcome to fit on has no say

    def measure_slopes(prior: float) -> float:
        return float(np.linalg.norm(refit_logistic(columns, y, w[None], prior)[0, 1:] * spread))

    least = (1 - _MOST_SHRINK) * measure_slopes(_NEXT_TO_NO_PRIOR)
    allowed = [prior for prior in _PRIORS if prior == _WEAK_PRIOR or measure_slopes(prior) > least]
    return min(allowed, key=measure_loss)


def _unseen_losses(columns: Floats, outcomes: Floats, fitted: Floats) -> Floats:
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
        name: estimate_from_resamples(value, table[:, place])
        for place, (name, value) in enumerate(zip(("intercept", *names), values, strict=True))
    }


DIAGNOSTICS: tuple[str, ...] = tuple(field.name for field in fields(Diagnostics))


@dataclass(frozen=True, slots=True)
class FittedKinds:
    """All kinds, fitted to the same states."""

    kinds: Mapping[Kind, AnswerabilityFit]
    """Simplest first: of kinds that are equally good the first is taken."""
    idle: tuple[str, ...]
    """Diagnostics that do not vary in these states, and have weight 0."""
    misleading: tuple[str, ...]
    """Diagnostics that do not help on a set that was left out, and have weight 0."""


def fit_all_kinds(examples: Examples, diagnostics: Collection[str] = DIAGNOSTICS) -> FittedKinds:
    """Fit raw, Platt, logistic and isotonic to these states; answerable ones and others must both be there.

    Args:
        examples: The states.
        diagnostics: The diagnostics that the logistic kind may use.
    """
    # Heavy, and needed by no command but a fit.
    with explain_missing_extra("A fit", "bench"):
        from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    y, weights = examples.outcomes, examples.weights
    columns = _diagnostics(examples)
    allowed = _places_of(diagnostics)
    kept = choose_columns(columns, examples, allowed)
    columns = _blank_others(columns, kept)
    full = fit_logistic(columns, y, weights, choose_prior(columns, examples))
    idle = fit_logistic(_diagnostics(examples), y, weights).idle
    platt = fit_logistic(_log_odds(examples), y, weights)
    steps = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
    steps.fit(_sufficiency(examples), y, sample_weight=weights)
    return FittedKinds(
        {
            "raw": RawFit(),
            "platt": PlattFit(intercept=platt.intercept, slope=platt.weights[0]),
            "logistic": LogisticFit(intercept=full.intercept, weights=Diagnostics(*full.weights)),
            "isotonic": IsotonicFit(
                scores=tuple(steps.X_thresholds_.tolist()), probabilities=tuple(steps.y_thresholds_.tolist())
            ),
        },
        tuple(DIAGNOSTICS[place] for place in idle),
        tuple(DIAGNOSTICS[place] for place in allowed if place not in kept and place not in idle),
    )


def choose_kind(fits: FittedKinds, examples: Examples) -> tuple[Kind, dict[str, float]]:
    """Choose the kind with the lowest Brier score on these states, and gives the scores of all.

    On fewer than `LEAST_TO_CHOOSE` questions it is the paper's kind, the logistic one, whatever they say.
    """
    scores = {
        kind: float(brier(predict_answerability(examples, fit.function()), examples.outcomes, examples.weights))
        for kind, fit in fits.kinds.items()
    }
    chosen: Kind = "logistic"
    if examples.count.questions >= LEAST_TO_CHOOSE:
        chosen = min(scores, key=lambda kind: scores[kind])
    return chosen, {kind: round(score, 6) for kind, score in scores.items()}


def estimate_coefficients(
    examples: Examples, diagnostics: Collection[str] = DIAGNOSTICS
) -> dict[str, dict[str, Estimate]]:
    """Estimate the coefficients of the two kinds that have any, with their intervals; as `fit_all_kinds` fits them."""
    columns = _diagnostics(examples)
    columns = _blank_others(columns, choose_columns(columns, examples, _places_of(diagnostics)))
    return {
        "logistic": estimate_logistic(columns, examples, DIAGNOSTICS),
        "platt": estimate_logistic(_log_odds(examples), examples, ("slope",)),
    }


def measure_each_diagnostic(examples: Examples) -> dict[str, float]:
    """Measure the AUC of each diagnostic by itself: far from 0.5, in either direction, it carries signal."""
    columns = _diagnostics(examples)
    return {
        name: round(float(auc(columns[:, place], examples.outcomes, examples.weights)), 4)
        for place, name in enumerate(DIAGNOSTICS)
    }


def _places_of(diagnostics: Collection[str]) -> tuple[int, ...]:
    return tuple(place for place, name in enumerate(DIAGNOSTICS) if name in diagnostics)


def _blank_others(columns: Floats, kept: Sequence[int]) -> Floats:
    """The same columns, where those that are not kept do not vary: a fit gives them the weight 0."""
    blank = np.zeros_like(columns)
    blank[:, list(kept)] = columns[:, list(kept)]
    return blank


def _diagnostics(examples: Examples) -> Floats:
    return np.array([state.diagnostics.vector() for state in examples.states])


def _sufficiency(examples: Examples) -> Floats:
    return np.array([state.belief.sufficiency for state in examples.states])


def _log_odds(examples: Examples) -> Floats:
    return np.array([[log_odds(state.belief.sufficiency)] for state in examples.states])


LEAST_QUESTIONS = 10
"""With fewer questions of either outcome three weights would be guesses, and the paper's schedule is the better one."""

_NAMES = ("rounds", "novelty", "sufficiency")


def has_enough_searches(pairs: Examples) -> bool:
    """Return whether there are enough searches of both outcomes to fit on."""
    count = pairs.count
    return min(count.questions_positive, count.questions_negative) >= LEAST_QUESTIONS


def fit_value(pairs: Examples) -> tuple[ValueFit, tuple[str, ...]]:
    """Fit the retrieval value, and names what does not vary in these searches."""
    columns = _columns(pairs)
    fitted = fit_logistic(columns, pairs.outcomes, pairs.weights, choose_prior(columns, pairs))
    rounds, novelty, sufficiency = fitted.weights
    found = ValueFit(intercept=fitted.intercept, rounds=rounds, novelty=novelty, sufficiency=sufficiency)
    return found, tuple(_NAMES[place] for place in fitted.idle)


def report_value_fit(fit: ValueFit, pairs: Examples, unseen: Examples) -> ValueReport:
    """Report how the fit to the first part came about, and how good it is on searches that it has not seen."""
    own = pairs.select_part(Partition.XFIT)
    return ValueReport(
        counts={part.value: pairs.select_part(part).count for part in Partition},
        base_rate=round(own.rate, 6),
        coefficients=estimate_logistic(_columns(own), own, _NAMES),
        held_out=measure_quality(predict_retrieval_value(unseen, fit.function()), unseen, own.rate)
        if len(unseen)
        else None,
    )


def _columns(pairs: Examples) -> Floats:
    return np.array(
        [(state.rounds, state.diagnostics.novelty, state.belief.sufficiency) for state in pairs.states], dtype=float
    )
