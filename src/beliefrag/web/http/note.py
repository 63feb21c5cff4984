"""What is known about one request when it is over: for the log and the counters, never its text."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

from beliefrag.events import CallFinished, Event, Finished
from beliefrag.outcome import Failed

__all__ = ["Note", "note_of"]

_KEY = "beliefrag.note"


@dataclass(slots=True)
class Note:
    """Filled in while a request is handled."""

    request_id: str
    outcome: str | None = None
    """The outcome's name, or how the episode was broken off."""
    cause: str | None = None
    """The kind of error of a failed episode. Its message may quote the question, so it is not kept."""
    answerability: float | None = None
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    refused: str | None = None
    """Why it was turned away before an episode began."""
    gone: bool = False
    """The client left before it was answered."""

    def attach(self, scope: Scope) -> None:
        """Makes it the note of a request."""
        scope[_KEY] = self

    def take(self, event: Event) -> None:
        """Counts what an event says about cost and outcome."""
        if isinstance(event, CallFinished):
            self.calls += 1
            self.tokens_in += event.tokens_in
            self.tokens_out += event.tokens_out
        elif isinstance(event, Finished):
            self.answerability = event.outcome.answerability
            self.cause = event.outcome.cause if isinstance(event.outcome, Failed) else None

    def ended(self, how: str, seconds: float) -> None:
        """Keeps how the episode ended."""
        self.outcome = how


def note_of(scope: Scope) -> Note:
    """The note of a request."""
    note = scope[_KEY]
    assert isinstance(note, Note)
    return note
