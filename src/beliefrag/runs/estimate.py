"""A number with its interval. Reading one from a file needs no arithmetic, and so no NumPy, which is slow to load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

MIN_QUESTIONS = 20
"""With fewer questions a percentile interval is too narrow to be trusted. Tables mark such an interval."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval in which it can be trusted, where there is one."""

    # Pydantic reads this where an estimate is part of a file.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    value: float
    low: float | None = None
    """None where there is too little to say, as with one question, which says nothing about others."""
    high: float | None = None
    questions: int | None = None
    """How many questions it rests on, never how many episodes; None where that is said elsewhere."""
    level: float = 0.95
    smallest: int | None = None
    """For a mean over datasets: how many questions the smallest dataset has."""

    @property
    def has_few_questions(self) -> bool:
        """Whether there are too few questions, in any dataset, for the interval to be trusted."""
        known = self.questions if self.smallest is None else self.smallest
        return known is not None and known < MIN_QUESTIONS

    def without_flat_interval(self) -> Estimate:
        """Return the same estimate without bounds if both bounds are equal.

        If all questions have the same value, then resampling finds no spread. Other questions may still differ.
        """
        return replace(self, low=None, high=None) if self.low == self.high else self

    def record(self) -> dict[str, Any]:
        """Return the estimate as plain values for a file."""
        return {"value": self.value, "low": self.low, "high": self.high, "few": self.has_few_questions}
