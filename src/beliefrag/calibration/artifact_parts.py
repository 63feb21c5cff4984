"""The parts of an artifact's file: fitted numbers, what the fit saw, and how good it is on held-out questions.

In all numbers a question counts once: its states share its weight. Intervals are 95 % bootstraps over questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, PlainSerializer, Tag, model_validator

from beliefrag.policy import (
    Answerability,
    FittedValue,
    IsotonicAnswerability,
    LogisticAnswerability,
    PlattAnswerability,
    RawAnswerability,
    ScoreScale,
)
from beliefrag.runs.estimate import Estimate
from beliefrag.types import Diagnostics

__all__ = [
    "AnswerabilityFit",
    "AnswerabilityReport",
    "Bin",
    "Bounded",
    "CorpusReport",
    "FitReport",
    "IsotonicFit",
    "Kind",
    "LogisticFit",
    "PartCount",
    "PlattFit",
    "Quality",
    "QualityOnOtherStates",
    "RawFit",
    "Strict",
    "ValueFit",
    "ValueReport",
]


class Strict(BaseModel):
    """Frozen. Unknown fields and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Kind = Literal["logistic", "platt", "isotonic", "raw"]


class LogisticFit(Strict):
    """Intercept and one weight per diagnostic. An artifact that names no kind of fit holds this kind."""

    kind: Literal["logistic"] = "logistic"
    intercept: float
    weights: Diagnostics

    def function(self) -> Answerability:
        """Gives the probability that these numbers stand for."""
        return LogisticAnswerability(self.intercept, self.weights)


class PlattFit(Strict):
    """A line in the log-odds of the raw score."""

    kind: Literal["platt"] = "platt"
    intercept: float
    slope: float

    def function(self) -> Answerability:
        """Gives the probability that these numbers stand for."""
        return PlattAnswerability(self.intercept, self.slope)


class IsotonicFit(Strict):
    """Points of a rising line over the raw score."""

    kind: Literal["isotonic"] = "isotonic"
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    @model_validator(mode="after")
    def _check_rising(self) -> Self:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise ValueError("needs as many probabilities as scores, and at least one")
        if any(a >= b for a, b in pairwise(self.scores)) or any(a > b for a, b in pairwise(self.probabilities)):
            raise ValueError("scores and probabilities must rise")
        if self.probabilities[0] < 0 or self.probabilities[-1] > 1:
            raise ValueError("probabilities lie between 0 and 1")
        return self

    def function(self) -> Answerability:
        """Gives the probability that these points stand for."""
        return IsotonicAnswerability(self.scores, self.probabilities)


class RawFit(Strict):
    """Nothing fitted: the raw score is taken for a probability."""

    kind: Literal["raw"] = "raw"

    def function(self) -> Answerability:
        """Gives the raw score."""
        return RawAnswerability()


def _read_kind(given: Any) -> Any:
    return given.get("kind", "logistic") if isinstance(given, dict) else getattr(given, "kind", None)


AnswerabilityFit = Annotated[
    Annotated[LogisticFit, Tag("logistic")]
    | Annotated[PlattFit, Tag("platt")]
    | Annotated[IsotonicFit, Tag("isotonic")]
    | Annotated[RawFit, Tag("raw")],
    Discriminator(_read_kind),
]
"""Any of the kinds. Files from before there were kinds name none: they are logistic."""


class ValueFit(Strict):
    """The retrieval-value logistic."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float

    def function(self) -> FittedValue:
        """Gives the probability that these numbers stand for."""
        return FittedValue(self.intercept, self.rounds, self.novelty, self.sufficiency)


def _three_numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


Bounded = Annotated[Estimate, PlainSerializer(_three_numbers)]
"""An estimate in the file of an artifact: its value and its bounds, null where there is too little to tell."""


class Bin(Strict):
    """One step of a reliability curve: what was predicted there, and what came true."""

    low: float
    high: float
    states: int
    share: float
    """The bin's share of all weight."""
    predicted: float
    observed: float


class Quality(Strict):
    """How good probabilities are on questions that neither the fit nor the choice has seen."""

    states: int
    questions: int
    share: float
    """The share of positive outcomes, by weight."""
    brier: Bounded
    brier_base_rate: float
    """The Brier score of always saying the share of the fitted questions."""
    brier_gain: Bounded
    """Base rate minus fit: above 0 the fit is better than no fit."""
    auc: Bounded | None
    """None where all states came out alike."""
    ece: float
    curve: tuple[Bin, ...]


class QualityOnOtherStates(Quality):
    """The quality on states of any run, also compared with always saying the share of these very states.

    The share of the fitted questions is a soft mark where other datasets are easier or harder. Always saying the share
    of these states is the best that one number can do here; nobody could know it beforehand.
    """

    brier_share: float
    """The Brier score of always saying `share`."""
    brier_gain_over_share: Bounded
    """The Brier score of always saying `share` minus that of the fit: above 0 the fit tells these states apart."""


class PartCount(Strict):
    """How many states and questions one part of the questions has, by outcome."""

    states: int
    positive: int
    """States with the outcome that is predicted."""
    questions: int
    questions_positive: int
    """Questions with at least one such state."""
    questions_negative: int
    """Questions with at least one other state."""


class AnswerabilityReport(Strict):
    """What is reported about the fit of answerability."""

    counts: Mapping[str, PartCount]
    without_evidence: int
    """States that were left out because nothing was retained: their diagnostics are constants."""
    unlabelled: int
    """States that were left out because nobody tried or judged an answer there."""
    base_rate: float
    selection: Mapping[str, float]
    """Brier score of each kind on the questions for choosing; empty if there were none."""
    coefficients: Mapping[str, Mapping[str, Bounded]]
    """Coefficients by kind; also of a kind that was not chosen."""
    alone: Mapping[str, float]
    """AUC of each diagnostic by itself on the fitted questions: 0.5 is no signal."""
    held_out: Quality | None


class ValueReport(Strict):
    """What is reported about the fit of the retrieval value, on searches from states that were not answerable."""

    counts: Mapping[str, PartCount]
    base_rate: float
    coefficients: Mapping[str, Bounded]
    held_out: Quality | None


class CorpusReport(Strict):
    """One dataset that states come from."""

    fingerprint: str
    passages: int
    questions: int
    score_scale: ScoreScale | None


class FitReport(Strict):
    """Everything about a fit that is not needed to use it."""

    label: str
    judge: str | None
    """Who judged, where the label is the judge's."""
    methods: tuple[str, ...]
    """The methods that visited these states."""
    datasets: Mapping[str, CorpusReport]
    budget: Mapping[str, int]
    versions: Mapping[str, str]
    fit_questions: tuple[str, ...]
    selection_questions: tuple[str, ...]
    answerability: AnswerabilityReport
    retrieval_value: ValueReport | None
    warnings: tuple[str, ...]
