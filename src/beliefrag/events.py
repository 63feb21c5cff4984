"""The events of an episode.

The terminal display, the JSONL trace and Python callers read these events and nothing else. An event is a frozen
value; `as_record` gives it as plain data, ready for JSON.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from beliefrag.outcome import Outcome
from beliefrag.policy.evidence import Mutation
from beliefrag.types import (
    Attempt,
    Belief,
    Budget,
    Citation,
    Decision,
    Diagnostics,
    Hit,
    Observation,
    Passage,
    Question,
    Usage,
)

__all__ = [
    "CallFinished",
    "CallStarted",
    "Decided",
    "Event",
    "Finished",
    "Packed",
    "Pruned",
    "Retrieved",
    "Rewritten",
    "ShownPassage",
    "Started",
    "as_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have: the step they belong to, and seconds since the episode began."""

    kind: ClassVar[str] = ""

    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """An episode begins."""

    kind: ClassVar[str] = "started"
    question: Question
    method: str
    model: str
    budget: Budget
    prompts: Mapping[str, str]
    """Hash of each prompt."""
    verifier: str
    made_with: Mapping[str, str]
    """Calibration, corpus and whatever else the harness names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """A model is being asked: lets a display say what it is waiting for."""

    kind: ClassVar[str] = "call_started"
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished(Event):
    """A model replied."""

    kind: ClassVar[str] = "call_finished"
    purpose: str
    messages: tuple[Mapping[str, str], ...]
    reply: str
    tokens_in: int
    tokens_out: int
    counted_by: str
    seconds: float
    cached: bool
    retries: int
    repairs: Mapping[str, int] = field(default_factory=dict)
    least_token: float | None = None
    """The probability of the reply's least likely token, where the model was asked for token probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """The evidence was measured, the belief moved and an action was chosen."""

    kind: ClassVar[str] = "decided"
    decision: Decision
    observation: Observation | None
    diagnostics: Diagnostics | None
    belief: Belief | None
    answerability: float | None
    retrieval_value: float | None
    evidence: tuple[str, ...]
    """Ids retained when the decision was made."""
    tokens: int
    """Tokens used so far."""
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved(Event):
    """RETRIEVE was carried out."""

    kind: ClassVar[str] = "retrieved"
    query: str | None
    """None when no search was made and no round was used: the query writer found nothing missing, or the tokens left
    did not reach for asking it."""
    hits: tuple[Hit, ...]
    candidates: tuple[float, ...] = ()
    """Scores of all candidates, where a cut chose the hits among them."""
    added: tuple[str, ...]
    known: tuple[str, ...]
    refused: tuple[str, ...]
    novelty: float
    mutations: tuple[Mutation, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(Event):
    """REWRITE was carried out: the query changed, the evidence did not.

    The query stays as it was where the model had no other one, or the tokens left did not reach for asking it. It is
    `SUFFICIENT` where a call that knows the evidence finds nothing missing, or nothing left to search for.
    """

    kind: ClassVar[str] = "rewritten"
    before: str
    after: str
    reason: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Event):
    """VERIFY was carried out: flagged passages are gone."""

    kind: ClassVar[str] = "pruned"
    mutations: tuple[Mutation, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """Which parts of a passage a prompt shows."""

    passage_id: str
    spans: tuple[tuple[int, int], ...]
    """Where the shown sentences begin and end in the passage's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(Event):
    """Sentences were chosen for the prompts that follow. Only an episode with packing has such events."""

    kind: ClassVar[str] = "packed"
    shown: tuple[ShownPassage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The episode ended."""

    kind: ClassVar[str] = "finished"
    outcome: Outcome


def as_record(event: Event) -> dict[str, Any]:
    """Gives the event as plain data, its kind first."""
    record: dict[str, Any] = {"event": event.kind, **_plain(event)}
    if isinstance(event, Finished):
        record["outcome"] = {"outcome": event.outcome.name} | record["outcome"]
    return record


_LEAVES = (str, int, float, type(None))


def _plain(value: Any) -> Any:
    # Most values are leaves, and asking whether something is a dataclass is slow.
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, Usage):
        return usage_record(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        record = {name: _plain(getattr(value, name)) for name in _field_names(value.__class__)}
        if isinstance(value, Hit) and value.provenance is None:
            del record["provenance"]
        if isinstance(value, Passage | Citation) and not value.place:
            del record["place"]
        return record
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def usage_record(usage: Usage) -> dict[str, Any]:
    """Gives usage as plain data: totals, then each purpose with its own."""
    totals = {name: getattr(usage, name) for name in _field_names(Usage) if name != "by_purpose"}
    record: dict[str, Any] = {"tokens": usage.tokens} | totals
    if usage.by_purpose:
        record["by_purpose"] = {purpose: usage_record(part) for purpose, part in usage.by_purpose.items()}
    return record
