"""One episode as the pages show it, whether it comes from a run, a trace or an episode that runs now.

`viewer/src/schema.ts` has the same names. What comes from a file is checked against these types before a page gets it,
so that a damaged file gives an error and is never shown in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from beliefrag.engine.replies import REPAIRS
from beliefrag.errors import BeliefRAGError

__all__ = [
    "AttemptView",
    "CallView",
    "CitationView",
    "ComparisonView",
    "DroppedView",
    "EpisodeView",
    "ErrorView",
    "GoldView",
    "MessageView",
    "NotAvailable",
    "PassageView",
    "PromptsView",
    "SearchView",
    "ShownView",
    "StepView",
    "UsageView",
    "ViewError",
    "WayView",
    "repairs_in_words",
]


class ViewError(BeliefRAGError):
    """Something cannot be viewed, or the page cannot be served."""


class NotAvailable(BeliefRAGError):
    """A part of an episode was not recorded, or is not on this machine. The page says so in its place."""


def repairs_in_words(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Says what had to be repaired to read a reply."""
    return tuple(f"{count} {REPAIRS.get(kind, kind)}" for kind, count in counts.items() if count)


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PassageView(_View):
    """A passage; the text is None where only its id was recorded and the corpus is not here."""

    title: str = ""
    text: str | None = None
    source: str = ""
    place: str = ""
    """Where in its source it stands, in words."""


class WayView(_View):
    """How a search came to a passage."""

    way: str
    passage: str = ""
    name: str = ""


class SearchView(_View):
    """What RETRIEVE asked for and what came back."""

    query: str | None
    """None when no search was made: nothing was missing, or too few tokens were left to write a query."""
    is_question: bool
    """Whether the query was the question itself."""
    hits: tuple[tuple[str, float], ...] = ()
    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    found_by: Mapping[str, WayView] = {}
    """How each passage was found, by id, where the retriever has more ways than one."""


class DroppedView(_View):
    """A passage that left the evidence, and why."""

    id: str
    why: str


class ComparisonView(_View):
    """A number and the threshold that it was held against."""

    name: str
    value: float
    relation: str
    threshold: float
    holds: bool


class AttemptView(_View):
    """The answer that the episode would have given at a step."""

    answer: str
    tokens: int = 0
    f1: float | None = None


class StepView(_View):
    """One action with everything that it rests on and changed."""

    step: int
    action: str
    branch: str
    reason: str
    comparisons: tuple[ComparisonView, ...] = ()
    legal: tuple[str, ...] = ()
    diagnostics: Mapping[str, float] | None = None
    belief: Mapping[str, float] | None = None
    answerability: float | None = None
    retrieval_value: float | None = None
    tokens: int
    flagged: tuple[str, ...] = ()
    attempt: AttemptView | None = None
    search: SearchView | None = None
    rewritten: str | None = None
    dropped: tuple[DroppedView, ...] = ()
    evidence: tuple[str, ...] | None = None
    """Ids retained after it; None while it is being carried out."""
    shown: tuple[ShownView, ...] = ()
    """What the prompts until this decision showed of each passage; empty where they showed whole passages."""


class CallView(_View):
    """One model call. Its prompt is loaded apart: it is long, and for a run it has to be looked up."""

    step: int
    purpose: str
    reply: str
    tokens_in: int
    tokens_out: int
    counted_by: str
    retries: int
    repairs: tuple[str, ...] = ()
    """What had to be repaired to read the reply, in words."""
    seconds: float | None = None
    """How long the model took when the reply was made."""
    at: float | None = None
    """When the reply came, in seconds since the episode began."""
    cached: bool | None = None

    @field_validator("repairs", mode="before")
    @classmethod
    def _in_words(cls, counts: Any) -> Any:
        return repairs_in_words(counts) if isinstance(counts, Mapping) else counts


class MessageView(_View):
    """One message of a prompt."""

    role: str
    content: str


class PromptsView(_View):
    """The prompts of an episode's calls, in their order; or why they cannot be had."""

    calls: tuple[tuple[MessageView, ...], ...] = ()
    source: str = ""
    """Where they came from, in words."""
    absent: str = ""
    """Why there are none, and how to get them; empty where there are."""


class CitationView(_View):
    """A part of a passage that the answer rests on."""

    passage_id: str
    start: int
    end: int
    role: str = ""
    """What it does for the answer."""

    @model_validator(mode="before")
    @classmethod
    def _split_span(cls, given: Any) -> Any:
        # A trace has the span as a pair.
        if not isinstance(given, Mapping) or "span" not in given:
            return given
        start, end = given["span"]
        return {**given, "start": start, "end": end}


class ShownView(_View):
    """Which parts of a passage the prompts of a step showed."""

    passage_id: str
    spans: tuple[tuple[int, int], ...]


class GoldView(_View):
    """What is right about the question."""

    answers: tuple[str, ...]
    supporting: tuple[str, ...] | None
    """None where nobody annotated them."""


class UsageView(_View):
    """What an episode cost, in all or for one purpose."""

    calls: int = 0
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    retries: int = 0
    wasted_tokens: int = 0
    searches: int = 0
    by_purpose: Mapping[str, UsageView] = {}


class ErrorView(_View):
    """Why an episode failed."""

    cause: str
    message: str
    remedy: str = ""


class EpisodeView(_View):
    """All of one episode but its prompts."""

    origin: Literal["run", "trace", "live"]
    id: int
    """Its number in the index of a run, 0 for a trace."""
    method: str
    method_title: str
    dataset: str = ""
    question_id: str = ""
    seed: int | None = None
    model: str = ""
    made_with: Mapping[str, str] = {}
    question: str | None = None
    """None where it was recorded by id and the dataset is not here."""
    outcome: str
    """answered, stopped, abstained, failed; `running` while it is under way."""
    answer: str | None = None
    best_guess: str | None = None
    """What the answer would have been, where it abstained."""
    reason: str = ""
    error: ErrorView | None = None
    answerability: float | None = None
    metrics: Mapping[str, float | None] = {}
    usage: UsageView = UsageView()
    seconds: float | None = None
    budget: Mapping[str, int] = {}
    thresholds: Mapping[str, float] = {}
    """The thresholds in force, by the names of the settings. One that is switched off is left out."""
    sources: tuple[str, ...] = ()
    steps: tuple[StepView, ...] = ()
    calls: tuple[CallView, ...] = ()
    passages: Mapping[str, PassageView] = {}
    citations: tuple[CitationView, ...] = ()
    """What the answer rests on; of an abstention, what came nearest to an answer."""
    gold: GoldView | None = None
    waiting: str = ""
    """What an episode under way waits for."""
    notes: tuple[str, ...] = ()
    """What is not shown, why, and how to get it."""
    licence: str = ""
    """The licence of the dataset that questions and passages are from."""
