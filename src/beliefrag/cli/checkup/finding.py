"""One thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from beliefrag.errors import BeliefRAGError

__all__ = ["Finding", "State", "fine", "problem", "warning"]


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one thing."""

    state: State
    name: str
    detail: str
    remedy: str = ""


def fine(name: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(State.OK, name, detail)


def warning(name: str, detail: str, remedy: str = "") -> Finding:
    """It works, but somebody should know."""
    return Finding(State.WARNING, name, detail, remedy)


def problem(name: str, error: BeliefRAGError) -> Finding:
    """It does not work."""
    return Finding(State.PROBLEM, name, error.message, error.remedy)
