"""How an episode can end: four types, so that a failure can never be mistaken for an answer or an abstention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.types import Belief, Citation, Passage, Usage

__all__ = ["Abstained", "Answered", "Failed", "Outcome", "Stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What every outcome has."""

    name: ClassVar[str] = ""

    reason: str
    """Why it ended, in words and numbers."""
    answerability: float | None
    """The calibrated probability that answering now is right; None for methods that have none."""
    belief: Belief | None
    sources: tuple[Passage, ...]
    """The passages that were read for it. Which sentences of them an answer rests on is in `citations`."""
    usage: Usage
    citations: tuple[Citation, ...] = ()
    """The sentences that the answer rests on, in the order of the argument; none where there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Outcome):
    """The controller judged the question answerable."""

    name: ClassVar[str] = "answered"
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Outcome):
    """Further search was not worth it or not possible; the answer is the best that the evidence allows."""

    name: ClassVar[str] = "stopped"
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstained(Outcome):
    """The evidence is inadequate and the system declines to answer."""

    name: ClassVar[str] = "abstained"
    best_guess: str | None = None
    """What the answer would have been, where that is known; `answerability` says how likely it is right."""
    nearest: tuple[Citation, ...] = ()
    """The sentences that came nearest to an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Outcome):
    """Something broke. Never scored, never an abstention; what was already paid for is in `usage`."""

    name: ClassVar[str] = "failed"
    cause: str
    """The kind of error, as a stable name."""
    error: str
    remedy: str
