"""What an episode came to, as clients of `/v1/ask` read it, and the events on the way, without what is not theirs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag import events
from beliefrag.events import CallFinished, Decided, Event, Finished, Retrieved, Started
from beliefrag.outcome import Failed
from beliefrag.result import Result, step_records
from beliefrag.types import Passage
from beliefrag.web.http.problems import Problem, failed_status
from beliefrag.web.http.service import Service

__all__ = ["Answer", "answer_of", "event_record", "without_folders"]

_EXCERPT = 1_000
"""Characters of a passage that are shown; passages have about a hundred words."""


class Source(BaseModel):
    """A passage that the ending rests on."""

    id: str
    title: str
    excerpt: str
    source: str = Field(description="the file or address that it came from, without the server's folders")


class Step(BaseModel):
    """One action and why it was taken."""

    step: int
    action: str
    branch: str = Field(description="the rule that decided")
    reason: str
    answerability: float | None
    query: str | None = None
    evidence: list[str] = Field(description="ids of the passages retained after it")


class Spent(BaseModel):
    """What the answer cost."""

    tokens: int
    tokens_in: int
    tokens_out: int
    calls: int
    cached_calls: int
    searches: int
    seconds: float = Field(description="spent in model calls, when they were made")


class Answer(BaseModel):
    """What a question came to. Declining is an outcome; a failure is a problem with another status."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "5f1c6c1e9f5a4f0e8f3f0c2d7a9b1e44",
                    "outcome": "answered",
                    "answer": "the head of finance",
                    "answerability": 0.84,
                    "reason": "the question can be answered now (answerability 0.84 is at least 0.50; "
                    "conflict 0.04 is below 0.50)",
                    "sources": [
                        {
                            "id": "travel.md#1",
                            "title": "Travel",
                            "excerpt": "Travel above the limit is approved by the head of finance.",
                            "source": "travel.md",
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
            ]
        }
    )

    id: str = Field(description="of the request; also in the header X-Request-ID and in the server's log")
    outcome: Literal["answered", "stopped", "abstained"] = Field(
        description="answered: judged answerable; stopped: the best there is; abstained: declined, without an answer"
    )
    answer: str | None
    answerability: float | None = Field(description="calibrated probability that answering now is right")
    reason: str
    sources: list[Source]
    steps: list[Step]
    usage: Spent
    calibration: str = Field(description="what the probabilities were fitted for, and why they may be off here")
    guarantee: str | None = Field(description="what the answers keep to, where a guarantee is in force")


def answer_of(result: Result, service: Service, request_id: str) -> Answer:
    """The answer that a client is given.

    Raises:
        Problem: The episode failed.
    """
    outcome = result.outcome
    if isinstance(outcome, Failed):
        status = failed_status(outcome.cause)
        # What broke inside may speak of anything; its name is enough for a report, and the log has it too.
        inside = status == 500
        detail = f"Internal error, {outcome.cause}." if inside else service.words(outcome.error)
        remedy = "Ask again; if it stays, tell whoever runs the server." if inside else service.words(outcome.remedy)
        raise Problem(status, "failed", detail, remedy=remedy)
    started = result.events[0]
    assert isinstance(started, Started)
    usage = outcome.usage
    return Answer(
        id=request_id,
        outcome=outcome.name,  # type: ignore[arg-type]  # the names of the three outcomes that are left
        answer=result.answer,
        answerability=outcome.answerability,
        reason=outcome.reason,
        sources=[Source(**_shown(passage)) for passage in outcome.sources],
        steps=[
            Step(**{name: step[name] for name in Step.model_fields if name in step})
            for step in step_records(result.events)
        ],
        usage=Spent(**{name: getattr(usage, name) for name in Spent.model_fields}),
        calibration=service.words(started.made_with["calibration"]),
        guarantee=started.made_with.get("guarantee"),
    )


def event_record(event: Event, *, prompts: bool) -> dict[str, Any] | None:
    """An event as a client may see it; None for the last one, in whose place it is given the answer.

    Left out are the model's address, the hashes of prompts and the folders of the server. What was said to the model,
    and its replies, are there only if the operator wants that. An answer that the verifier drafted is such a reply: who
    is declined must not find it on the way.
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
        record["hits"] = [{**_shown(hit.passage), "score": hit.score} for hit in event.hits]
    return record


def _shown(passage: Passage) -> dict[str, str]:
    text = passage.text if len(passage.text) <= _EXCERPT else passage.text[: _EXCERPT - 1] + "…"
    return {"id": passage.id, "title": passage.title, "excerpt": text, "source": without_folders(passage.source)}


def without_folders(source: str) -> str:
    """Where a passage came from, as far as it concerns a client: the file's name, or an address as it is."""
    return source if "://" in source else source.replace("\\", "/").rpartition("/")[2]
