"""The fitted numbers of an artifact: the four kinds of answerability, and the retrieval value (SPEC 4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from beliefrag.calibration.strict import Strict
from beliefrag.policy import (
    Answerability,
    FittedValue,
    IsotonicAnswerability,
    LogisticAnswerability,
    PlattAnswerability,
    RawAnswerability,
)
from beliefrag.types import Diagnostics

__all__ = ["AnswerabilityFit", "IsotonicFit", "Kind", "LogisticFit", "PlattFit", "RawFit", "ValueFit"]

Kind = Literal["logistic", "platt", "isotonic", "raw"]


class LogisticFit(Strict):
    """Intercept and one weight per diagnostic. What an artifact holds that names no kind."""

    kind: Literal["logistic"] = "logistic"
    intercept: float
    weights: Diagnostics

    def function(self) -> Answerability:
        """The probability that these numbers stand for."""
        return LogisticAnswerability(self.intercept, self.weights)


class PlattFit(Strict):
    """A line in the log-odds of the raw score."""

    kind: Literal["platt"] = "platt"
    intercept: float
    slope: float

    def function(self) -> Answerability:
        """The probability that these numbers stand for."""
        return PlattAnswerability(self.intercept, self.slope)


class IsotonicFit(Strict):
    """Points of a rising line over the raw score."""

    kind: Literal["isotonic"] = "isotonic"
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise ValueError("needs as many probabilities as scores, and at least one")
        if any(a >= b for a, b in pairwise(self.scores)) or any(a > b for a, b in pairwise(self.probabilities)):
            raise ValueError("scores and probabilities must rise")
        if self.probabilities[0] < 0 or self.probabilities[-1] > 1:
            raise ValueError("probabilities lie between 0 and 1")
        return self

    def function(self) -> Answerability:
        """The probability that these points stand for."""
        return IsotonicAnswerability(self.scores, self.probabilities)


class RawFit(Strict):
    """Nothing fitted: the raw score is taken for a probability."""

    kind: Literal["raw"] = "raw"

    def function(self) -> Answerability:
        """The raw score."""
        return RawAnswerability()


def _kind(given: Any) -> Any:
    return given.get("kind", "logistic") if isinstance(given, dict) else getattr(given, "kind", None)


AnswerabilityFit = Annotated[
    Annotated[LogisticFit, Tag("logistic")]
    | Annotated[PlattFit, Tag("platt")]
    | Annotated[IsotonicFit, Tag("isotonic")]
    | Annotated[RawFit, Tag("raw")],
    Discriminator(_kind),
]
"""Any of the kinds. Files from before there were kinds name none: they are logistic."""


class ValueFit(Strict):
    """The retrieval-value logistic."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float

    def function(self) -> FittedValue:
        """The probability that these numbers stand for."""
        return FittedValue(self.intercept, self.rounds, self.novelty, self.sufficiency)
