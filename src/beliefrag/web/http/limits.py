"""What a server takes on at most, in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields

from beliefrag.errors import SettingsError
from beliefrag.types import Budget

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on every request, so that no client can cost more than its share."""

    request_bytes: int = 65_536
    question_chars: int = 4_000
    concurrency: int = 4
    """Episodes at a time."""
    queue: int = 16
    """Requests that wait for their turn; the next one is refused."""
    timeout: float = 120.0
    """Seconds that a request may take, its wait included."""
    grace: float = 30.0
    """Seconds that episodes under way are given at shutdown."""
    heartbeat: float = 15.0
    """Seconds of silence in a stream after which a comment keeps the connection alive."""
    body_seconds: float = 10.0
    """Seconds within which a request's body must have arrived."""
    budget: Budget = Budget()
    """The most that a request may ask for, limit by limit."""

    def __post_init__(self) -> None:
        may_be_zero = {"queue", "grace"}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "budget" and (value < 0 or (value == 0 and f.name not in may_be_zero)):
                raise SettingsError(f"The limit {f.name} cannot be {value}.", remedy="Give a number above 0.")
