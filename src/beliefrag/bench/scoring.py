"""Writes one episode down: how it ended, what it scored and cost, and the way to it.

Passages are named by id, and a search for the question's own words is marked as such: a run's file holds no benchmark
text apart from what models wrote. Whatever depends on the clock or on the state of the cache is under `timing` alone,
so that two runs can be compared without it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from beliefrag import events
from beliefrag.bench.metrics import answer_scores, retained_at_the_end, rows_read, score
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.outcome import Abstained, Answered, Failed, Stopped
from beliefrag.result import Result, step_records
from beliefrag.runs.record import now

__all__ = ["episode_record"]

_TIMED = ("seconds", "cached_calls")


def episode_record(
    result: Result, labelled: LabelledQuestion, *, dataset: str, method: str, seed: int
) -> dict[str, Any]:
    """One line of `episodes.jsonl`, not yet judged. A failure has no metrics."""
    outcome = result.outcome
    steps = _steps(result, labelled)
    calls = [event for event in result.events if isinstance(event, events.CallFinished)]
    record: dict[str, Any] = {
        "method": method,
        "dataset": dataset,
        "question_id": labelled.id,
        "seed": seed,
        "outcome": outcome.name,
        "answer": result.answer,
        "metrics": {},
        "judge": None,
        "usage": _untimed(events.usage_record(outcome.usage)),
        "reason": outcome.reason,
        "answerability": outcome.answerability,
        "sources": [passage.id for passage in outcome.sources],
        "steps": steps,
        "calls": [_call(event) for event in calls],
    }
    if isinstance(outcome, Answered | Stopped | Abstained):
        scores = asdict(score(outcome, labelled.gold, retained_at_the_end(result)))
        record["metrics"] = {**scores, "judge": None, "rounds": outcome.usage.searches, "actions": len(steps)}
        record["metrics"] |= rows_read(result, labelled.gold)
    if isinstance(outcome, Failed):
        message = _without_question(outcome.error, labelled)
        record["error"] = {"cause": outcome.cause, "message": message, "remedy": outcome.remedy}
        record["reason"] = message
    record["timing"] = {
        "finished": now(),
        "seconds": result.events[-1].at,
        "model_seconds": round(outcome.usage.seconds, 4),
        "cached_calls": outcome.usage.cached_calls,
        "calls": [round(event.seconds, 4) for event in calls],
    }
    return record


def _steps(result: Result, labelled: LabelledQuestion) -> list[dict[str, Any]]:
    steps = step_records(result.events)
    searches = {event.step: event for event in result.events if isinstance(event, events.Retrieved)}
    for step in steps:
        found = searches.get(step["step"])
        if found is not None:
            own = found.query == result.question.text
            step["query"] = None if own else found.query
            step["query_is_the_question"] = own
            step["hits"] = [[hit.passage.id, hit.score] for hit in found.hits]
        if step["attempt"] is not None and not labelled.gold.is_set:
            scores = answer_scores(step["attempt"]["answer"], labelled.gold)
            step["attempt"] |= dict(zip(("exact_match", "f1", "cover"), scores, strict=True))
    return steps


def _call(event: events.CallFinished) -> dict[str, Any]:
    return {
        "step": event.step,
        "purpose": event.purpose,
        "reply": event.reply,
        "tokens_in": event.tokens_in,
        "tokens_out": event.tokens_out,
        "counted_by": event.counted_by,
        "retries": event.retries,
        "repairs": dict(event.repairs),
    }


def _untimed(usage: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in usage.items() if name not in _TIMED}
    if "by_purpose" in plain:
        plain["by_purpose"] = {purpose: _untimed(part) for purpose, part in plain["by_purpose"].items()}
    return plain


def _without_question(message: str, labelled: LabelledQuestion) -> str:
    text = labelled.question.text
    return message.replace(text, "[question]").replace(text[:80], "[question]")
