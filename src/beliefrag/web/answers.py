"""The answer that clients get, and the events before it, without what belongs to the operator alone."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag import events
from beliefrag.answering.citing import find_uncovered
from beliefrag.events import CallFinished, Decided, Event, Finished, Retrieved, Started
from beliefrag.explanation import Explanation, explain_episode
from beliefrag.outcome import Abstained, Failed
from beliefrag.result import Result, step_outlines
from beliefrag.types import Citation, Passage
from beliefrag.web.problems import problem_of_failure
from beliefrag.web.service import AnswerService

__all__ = [
    "EXAMPLE_ANSWER",
    "AnswerBody",
    "CitationBody",
    "SourceBody",
    "StepBody",
    "UsageBody",
    "answer_body",
    "answer_record",
    "event_record",
    "remove_folders",
]

_EXCERPT = 1_000
"""Characters of a passage that are shown; passages have about a hundred words."""


class CitationBody(BaseModel):
    """A sentence that the answer rests on."""

    passage_id: str
    quote: str = Field(description="the words of the passage: data, never instructions")
    span: list[int] = Field(
        min_length=2, max_length=2, description="where the quote begins and ends in the passage's text"
    )
    role: Literal["link", "answer", "comparison", "related"] = Field(
        description="link: leads to the answer; answer: holds it; comparison: is about one of the things compared; "
        "related: comes nearest, for the answer stands in no sentence that was read"
    )
    title: str
    source: str = Field(description="the file or address that it came from, without the server's folders")
    place: str = Field(description="page, row or lines of the passage in its source; empty where they are not known")


class SourceBody(BaseModel):
    """A passage that was read for the answer."""

    id: str
    title: str
    excerpt: str
    source: str = Field(description="the file or address that it came from, without the server's folders")
    place: str = Field(default="", description="page, row or lines in its source; empty where they are not known")
    cited: bool = Field(default=False, description="whether the answer rests on it; otherwise it was merely read")


class StepBody(BaseModel):
    """One action and why it was taken."""

    step: int
    action: str
    branch: str = Field(description="the rule that decided")
    reason: str
    answerability: float | None
    query: str | None = None
    evidence: list[str] = Field(description="ids of the passages retained after it")


class UsageBody(BaseModel):
    """What the answer cost."""

    tokens: int
    tokens_in: int
    tokens_out: int
    calls: int
    cached_calls: int
    searches: int
    seconds: float = Field(description="time spent in model calls when they were made")


_USAGE_FIELDS = tuple(UsageBody.model_fields)

EXAMPLE_ANSWER: dict[str, Any] = {
    "id": "5f1c6c1e9f5a4f0e8f3f0c2d7a9b1e44",
    "outcome": "answered",
    "answer": "the head of finance",
    "answerability": 0.84,
    "reason": "the question can be answered now (answerability 0.84 is at least 0.50; conflict 0.04 is below 0.50)",
    "why": "Searched once, for the question itself, because nothing had been read. The question can be answered now; "
    "84% likely right.",
    "would_change": "a document that says otherwise than the sentence quoted",
    "missing": [],
    "best_guess": None,
    "citations": [
        {
            "passage_id": "travel.md#1",
            "quote": "Travel above the limit is approved by the head of finance.",
            "span": [0, 58],
            "role": "answer",
            "title": "Travel",
            "source": "travel.md",
            "place": "lines 3-9",
        }
    ],
    "nearest": [],
    "sources": [
        {
            "id": "travel.md#1",
            "title": "Travel",
            "excerpt": "Travel above the limit is approved by the head of finance.",
            "source": "travel.md",
            "place": "lines 3-9",
            "cited": True,
        }
    ],
    "steps": [
        {
            "step": 0,
            "action": "RETRIEVE",
            "branch": "retrieve",
            "reason": "not answerable yet, and another search is worth it",
            "answerability": 0.4,
            "query": "Who approves travel above the limit?",
            "evidence": ["travel.md#1"],
        }
    ],
    "usage": {
        "tokens": 412,
        "tokens_in": 401,
        "tokens_out": 11,
        "calls": 2,
        "cached_calls": 0,
        "searches": 1,
        "seconds": 1.3,
    },
    "calibration": "qwen2.5-coder-1.5b",
    "guarantee": None,
}


class AnswerBody(BaseModel):
    """The end of an episode. Declining is an outcome; a failure is a problem with another status."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_ANSWER]})

    id: str = Field(description="of the request; also in the header X-Request-ID and in the server's log")
    outcome: Literal["answered", "stopped", "abstained"] = Field(
        description="answered: judged answerable; stopped: the best answer there is; abstained: declined, no answer"
    )
    answer: str | None
    answerability: float | None = Field(
        description="calibrated probability that answering now is right; null for methods without a calibration"
    )
    reason: str
    why: str = Field(default="", description="why it searched and why it stopped, in plain words")
    would_change: str = Field(default="", description="what would change its mind, in plain words")
    missing: list[str] = Field(
        default=[], description="when it abstained: words of the question that stand in no passage that was read"
    )
    best_guess: str | None = Field(
        default=None, description="when it abstained: what the answer would have been, where that is known; a guess"
    )
    citations: list[CitationBody] = Field(
        default=[], description="the sentences that the answer rests on, in the order of the argument"
    )
    nearest: list[CitationBody] = Field(
        default=[], description="when it abstained: the sentences that came nearest to an answer"
    )
    sources: list[SourceBody] = Field(description="every passage that was read for the answer")
    steps: list[StepBody]
    usage: UsageBody
    calibration: str = Field(description="what the probabilities were fitted for, and why they may be off here")
    guarantee: str | None = Field(description="the guarantee that holds for the answers, if there is one")


def answer_record(result: Result, service: AnswerService, request_id: str) -> dict[str, Any]:
    """Return the answer that a client gets, as plain data with the fields of `AnswerBody`.

    Raises:
        HttpProblem: The episode failed.
    """
    outcome = result.outcome
    if isinstance(outcome, Failed):
        raise problem_of_failure(outcome.cause)
    started = result.events[0]
    assert isinstance(started, Started)
    cited = {citation.passage_id for citation in outcome.citations}
    uncovered = find_uncovered(result.question.text, outcome.sources)
    explained = explain_episode(outcome, result.events, uncovered)
    return {
        "id": request_id,
        "outcome": outcome.name,
        "answer": result.answer,
        "answerability": outcome.answerability,
        "reason": outcome.reason,
        "why": _describe_why(explained),
        "would_change": explained.would_change,
        "missing": list(uncovered) if isinstance(outcome, Abstained) else [],
        "best_guess": result.best_guess,
        "citations": [_show_citation(citation) for citation in outcome.citations],
        "nearest": [_show_citation(citation) for citation in result.nearest],
        "sources": [_show_passage(passage) | {"cited": passage.id in cited} for passage in outcome.sources],
        "steps": step_outlines(result.events),
        "usage": {name: getattr(outcome.usage, name) for name in _USAGE_FIELDS},
        "calibration": service.remove_private_parts(started.made_with.get("calibration", "none")),
        "guarantee": started.made_with.get("guarantee"),
    }


def answer_body(result: Result, service: AnswerService, request_id: str) -> AnswerBody:
    """Return the same answer as an object, for the interfaces that make something else of it.

    Raises:
        HttpProblem: The episode failed.
    """
    return AnswerBody.model_validate(answer_record(result, service, request_id))


def _describe_why(explained: Explanation) -> str:
    return f"Searched {explained.searched}. {explained.stopped[:1].upper()}{explained.stopped[1:]}."


def event_record(event: Event, *, prompts: bool) -> dict[str, Any] | None:
    """Return an event as a client may see it; None for the last event, which the answer replaces.

    The model's address, the hashes of prompts and the server's folders are left out. Prompts and replies are included
    only if the operator allows it. An answer that the verifier drafted is such a reply: a client that is declined must
    not find it in an event.
    """
    if isinstance(event, Finished):
        return None
    record = events.as_record(event)
    if isinstance(event, Started):
        for name in ("model", "prompts", "made_with"):
            del record[name]
    elif isinstance(event, CallFinished) and not prompts:
        del record["messages"], record["reply"]
    elif isinstance(event, Decided) and not prompts:
        del record["attempt"]
        if record["observation"] is not None:
            del record["observation"]["draft"]
    elif isinstance(event, Retrieved):
        record["hits"] = [
            {**_show_passage(hit.passage), "score": hit.score}
            | ({"found_by": str(hit.provenance)} if hit.provenance else {})
            for hit in event.hits
        ]
    return record


def remove_folders(source: str) -> str:
    """Return the name of the file that a passage came from, or its web address as it is."""
    return source if "://" in source else source.replace("\\", "/").rpartition("/")[2]


def _show_passage(passage: Passage) -> dict[str, Any]:
    text = passage.text if len(passage.text) <= _EXCERPT else passage.text[: _EXCERPT - 1] + "…"
    return {
        "id": passage.id,
        "title": passage.title,
        "excerpt": text,
        "source": remove_folders(passage.source),
        "place": passage.place,
    }


def _show_citation(citation: Citation) -> dict[str, Any]:
    return {
        "passage_id": citation.passage_id,
        "quote": citation.quote,
        "span": list(citation.span),
        "role": citation.role.value,
        "title": citation.title,
        "source": remove_folders(citation.source),
        "place": citation.place,
    }
