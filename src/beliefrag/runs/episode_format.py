"""The one writer and the one reader of the lines of `episodes.jsonl`.

A damaged line must never become a number: the reader checks every value that is used. A run can have tens of thousands
of lines, so the checks are plain comparisons, and `read_summary` leaves the steps and replies of a line alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from beliefrag.outcome import Abstained, Answered, Failed, Stopped
from beliefrag.runs.episode import (
    CitedSpan,
    Episode,
    EpisodeError,
    EpisodeKey,
    EpisodeSummary,
    Injected,
    ModelCall,
    Search,
    Step,
    Timing,
    TrialAnswer,
    Verdict,
)
from beliefrag.types import Action, Belief, CitationRole, Comparison, Diagnostics, Provenance, Usage

__all__ = [
    "DAMAGED_LINE",
    "FORMAT",
    "decode_line",
    "describe_damage",
    "episode_line",
    "episode_record",
    "read_episode",
    "read_summary",
    "summary_record",
]

FORMAT: Final = 2
"""The version of a run's two files."""
DAMAGED_LINE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading a damaged line can raise, whatever the damage."""

_OUTCOMES = frozenset(kind.name for kind in (Answered, Stopped, Abstained, Failed))
_ANSWER_SCORES = ("exact_match", "f1", "cover")
_TRIAL_SCORES = (*_ANSWER_SCORES, "judge")
_METRICS = (*_ANSWER_SCORES, "evidence_recall", "answer_row_recall", "judge", "rounds", "actions")
"""What every finished episode has, if only as null where it has no meaning."""
_NOT_SHARES = frozenset({"rounds", "actions", "rows_needed", "rows_read", "false_read"})
_EPISODE_USAGE = ("calls", "tokens", "tokens_in", "tokens_out", "searches")
_JUDGE_USAGE = ("calls", "tokens", "tokens_in", "tokens_out")
_PURPOSE_USAGE = ("calls",)


def episode_line(episode: Episode) -> bytes:
    """Gives an episode as one line in ASCII: no text in it can break the line or act on a terminal.

    Raises:
        ValueError: A number is infinite or NaN.
    """
    return json.dumps(episode_record(episode), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def episode_record(episode: Episode) -> dict[str, Any]:
    """Gives an episode as plain data, ready for JSON."""
    key = episode.key
    record: dict[str, Any] = {
        "method": key.method,
        "dataset": key.dataset,
        "question_id": key.question_id,
        "seed": key.seed,
        "outcome": episode.outcome,
        "answer": episode.answer,
        "metrics": dict(episode.metrics),
        "judge": _verdict_record(episode.verdict) if episode.verdict else None,
        "usage": _usage_record(episode.usage),
        "reason": episode.reason,
        "answerability": episode.answerability,
        "sources": list(episode.sources),
        "steps": [_step_record(step) for step in episode.steps],
        "calls": [_call_record(call) for call in episode.calls],
    }
    if episode.citations:
        record["citations"] = [[each.passage_id, each.start, each.end, each.role] for each in episode.citations]
    if episode.best_guess is not None:
        record["best_guess"] = episode.best_guess
    if (error := episode.error) is not None:
        record["error"] = {"cause": error.cause, "message": error.message, "remedy": error.remedy}
    record["timing"] = _timing_record(episode.timing)
    if (injected := episode.injected) is not None:
        record["injected"] = {"noise": list(injected.noise), "counterfactual": list(injected.counterfactual)}
    return record


def summary_record(summary: EpisodeSummary) -> dict[str, Any]:
    """Gives the numbers of an episode as plain data, which `read_summary` reads back."""
    key, error = summary.key, summary.error
    record: dict[str, Any] = {
        "method": key.method,
        "dataset": key.dataset,
        "question_id": key.question_id,
        "seed": key.seed,
        "outcome": summary.outcome,
        "metrics": dict(summary.metrics),
        "judge": _verdict_record(summary.verdict) if summary.verdict else None,
        "usage": _usage_record(summary.usage),
        "timing": {"model_seconds": summary.seconds},
    }
    if error is not None:
        record["error"] = {"cause": error.cause, "message": error.message, "remedy": error.remedy}
    return record


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    usage = verdict.usage
    cost = {name: getattr(usage, name) for name in (*_JUDGE_USAGE, "retries")}
    record: dict[str, Any] = {"correct": verdict.correct, "usage": cost}
    if verdict.error is not None:
        record["error"] = {"cause": verdict.error.cause, "message": verdict.error.message}
    return record


def _usage_record(usage: Usage) -> dict[str, Any]:
    names = ("tokens", "calls", "tokens_in", "tokens_out", "retries", "wasted_tokens", "searches")
    record: dict[str, Any] = {name: getattr(usage, name) for name in names}
    if usage.by_purpose:
        record["by_purpose"] = {purpose: _usage_record(part) for purpose, part in usage.by_purpose.items()}
    return record


def _step_record(step: Step) -> dict[str, Any]:
    record: dict[str, Any] = {
        "step": step.number,
        "action": step.action,
        "branch": step.branch,
        "reason": step.reason,
        "comparisons": [_fields(each) for each in step.comparisons],
        "legal": list(step.legal),
        "diagnostics": _fields(step.diagnostics) if step.diagnostics else None,
        "belief": _fields(step.belief) if step.belief else None,
        "answerability": step.answerability,
        "retrieval_value": step.retrieval_value,
        "tokens": step.tokens,
        "flagged": list(step.flagged),
        "attempt": _attempt_record(step.attempt) if step.attempt else None,
    }
    if (search := step.search) is not None:
        record |= {
            "query": search.query,
            "added": list(search.added),
            "known": list(search.known),
            "refused": list(search.refused),
            "evidence": list(step.evidence),
            "query_is_the_question": search.is_question,
            "hits": [list(hit) for hit in search.hits],
        }
        if search.found_by:
            record["found_by"] = {each: [by.way, by.passage, by.name] for each, by in search.found_by.items()}
        return record
    if step.rewritten is not None:
        record["query"] = step.rewritten
    if step.dropped is not None:
        record["dropped"] = list(step.dropped)
    record["evidence"] = list(step.evidence)
    return record


def _call_record(call: ModelCall) -> dict[str, Any]:
    record = _fields(call)
    if call.least_token is None:
        del record["least_token"]
    return record


def _fields(value: Comparison | Diagnostics | Belief | ModelCall) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _attempt_record(attempt: TrialAnswer) -> dict[str, Any]:
    return {"answer": attempt.answer, "tokens": attempt.tokens, **attempt.scores}


def _timing_record(timing: Timing) -> dict[str, Any]:
    names = ("finished", "seconds", "model_seconds", "cached_calls", "calls", "ends", "cached", "judge_seconds")
    return {name: value for name in names if (value := getattr(timing, name)) not in (None, "")}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Python reads NaN and Infinity, which no run writes and no mean survives."""


def decode_line(line: bytes) -> Any:
    """Gives a line as plain data, for `read_summary` and `read_episode`.

    Raises:
        ValueError, RecursionError: It is no JSON, or has a number that is none.
    """
    return _DECODER.decode(line.decode())


def describe_damage(error: Exception) -> str:
    """Says what is wrong with a line, from what reading it raised."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def read_summary(record: Mapping[str, Any], offset: int = 0) -> EpisodeSummary:
    """Reads the numbers of a line, and checks how the episode ended, what a finished one must have, and every range.

    Args:
        record: The line as plain data.
        offset: The byte at which the line begins in its file.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is no episode; `DAMAGED_LINE` names all kinds.
    """
    if record.get("format", FORMAT) != FORMAT:
        raise ValueError(f"its format is {record['format']!r:.40}, and this version of beliefrag reads {FORMAT}")
    if record["outcome"] not in _OUTCOMES:
        raise ValueError(f"its outcome is {record['outcome']!r:.40}")
    failed = record["outcome"] == Failed.name
    for name in ("dataset", "method", "question_id"):
        if not isinstance(record[name], str):
            raise TypeError(f"{name} is no text")
    _check_amount("seed", record["seed"])
    _check_amount("timing.model_seconds", record["timing"]["model_seconds"])
    usage = _read_usage("usage", record["usage"], _EPISODE_USAGE)
    verdict = None if record["judge"] is None else _read_verdict(record["judge"])
    metrics = record["metrics"]
    for name, value in metrics.items():
        if value is not None:
            (_check_amount if name in _NOT_SHARES else _check_share)(name, value)
    error = _read_error("error", record["error"]) if failed else None
    if not failed:
        _check_finished(metrics)
    return EpisodeSummary(
        key=EpisodeKey(record["dataset"], record["method"], record["question_id"], record["seed"]),
        outcome=record["outcome"],
        metrics=metrics,
        usage=usage,
        verdict=verdict,
        error=error,
        seconds=record["timing"]["model_seconds"],
        offset=offset,
    )


def read_episode(record: Mapping[str, Any]) -> Episode:
    """Reads the whole episode of a line, and checks that every number is in its range.

    Args:
        record: The line as plain data.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, IndexError: It is no episode; `DAMAGED_LINE` names all kinds.
    """
    summary = read_summary(record)
    steps = tuple(_read_step(step) for step in record["steps"])
    for step in steps if summary.finished else ():
        if step.action is Action.RETRIEVE and step.search is None:
            raise ValueError(f"step {step.number} has no search")
    injected = record.get("injected")
    return Episode(
        key=summary.key,
        outcome=summary.outcome,
        answer=_optional_text("answer", record["answer"]),
        metrics=summary.metrics,
        verdict=summary.verdict,
        usage=summary.usage,
        reason=_text("reason", record["reason"]),
        answerability=_optional_share("answerability", record["answerability"]),
        sources=_texts("sources", record["sources"]),
        citations=tuple(_read_citation(each) for each in record.get("citations", ())),
        best_guess=_optional_text("best_guess", record.get("best_guess")),
        steps=steps,
        calls=tuple(_read_call(call) for call in record["calls"]),
        error=summary.error,
        timing=_read_timing(record["timing"]),
        injected=None
        if injected is None
        else Injected(
            _texts("injected.noise", injected["noise"]), _texts("injected.counterfactual", injected["counterfactual"])
        ),
    )


def _check_finished(metrics: Mapping[str, Any]) -> None:
    for name in _METRICS:
        if name not in metrics:
            raise ValueError(f"it finished without the metric {name}")
    # A question about a set of rows has another score than one about a fact; every question has one of the two.
    scores = [metrics[name] for name in _ANSWER_SCORES]
    if None in scores and (metrics["answer_row_recall"] is None or scores != [None, None, None]):
        raise ValueError("it finished without a score")
    for name in ("rounds", "actions"):
        _check_amount(name, metrics[name])


def _read_usage(where: str, record: Mapping[str, Any], required: tuple[str, ...]) -> Usage:
    for name in required:
        _check_count(f"{where}.{name}", record[name])
    counts = {}
    for name in ("calls", "tokens_in", "tokens_out", "retries", "wasted_tokens", "searches"):
        if name in record:
            counts[name] = _check_count(f"{where}.{name}", record[name])
    purposes = {
        purpose: _read_usage(f"{where}.by_purpose.{purpose:.40}", part, _PURPOSE_USAGE)
        for purpose, part in record.get("by_purpose", {}).items()
    }
    usage = Usage(**counts, by_purpose=purposes)
    if "tokens" in required and record["tokens"] != usage.tokens:
        raise ValueError(f"{where}.tokens is {record['tokens']!r:.40}, and {usage.tokens} went in and out")
    return usage


def _read_verdict(record: Mapping[str, Any]) -> Verdict:
    if record["correct"] not in (True, False, None):
        raise ValueError(f"judge.correct is {record['correct']!r:.40}")
    error = record.get("error")
    return Verdict(
        None if record["correct"] is None else bool(record["correct"]),
        _read_usage("judge.usage", record["usage"], _JUDGE_USAGE),
        None if error is None else _read_error("judge.error", error),
    )


def _read_error(where: str, record: Mapping[str, Any]) -> EpisodeError:
    if not isinstance(record["cause"], str):
        raise TypeError(f"{where}.cause is no text")
    return EpisodeError(record["cause"], str(record.get("message", "")), str(record.get("remedy", "")))


def _read_timing(record: Mapping[str, Any]) -> Timing:
    optional: dict[str, Any] = {}
    for name in ("seconds", "cached_calls", "judge_seconds"):
        if record.get(name) is not None:
            optional[name] = _check_amount(f"timing.{name}", record[name])
    for name in ("calls", "ends"):
        if record.get(name) is not None:
            optional[name] = tuple(_check_amount(f"timing.{name}", each) for each in record[name])
    if record.get("cached") is not None:
        optional["cached"] = tuple(bool(each) for each in record["cached"])
    return Timing(
        record["model_seconds"],
        finished=_text("timing.finished", record.get("finished", "")),
        **optional,
    )


def _read_step(record: Mapping[str, Any]) -> Step:
    action = Action(record["action"])
    diagnostics, belief = record["diagnostics"], record["belief"]
    attempt, dropped = record.get("attempt"), record.get("dropped")
    return Step(
        number=_check_count("step", record["step"]),
        action=action,
        branch=_text("branch", record.get("branch", "")),
        reason=_text("reason", record["reason"]),
        comparisons=tuple(_read_comparison(each) for each in record.get("comparisons", ())),
        legal=tuple(Action(each) for each in record["legal"]),
        diagnostics=None if diagnostics is None else Diagnostics(**_shares("diagnostics", diagnostics)),
        belief=None if belief is None else Belief(**_shares("belief", belief)),
        answerability=_optional_share("answerability", record.get("answerability")),
        retrieval_value=_optional_share("retrieval_value", record.get("retrieval_value")),
        tokens=_check_count("tokens", record["tokens"]),
        flagged=_texts("flagged", record.get("flagged", ())),
        attempt=None if attempt is None else _read_attempt(attempt),
        search=_read_search(record) if action is Action.RETRIEVE and "added" in record else None,
        rewritten=_optional_text("query", record.get("query")) if action is Action.REWRITE else None,
        dropped=None if dropped is None else _texts("dropped", dropped),
        evidence=_texts("evidence", record["evidence"]),
    )


def _read_comparison(record: Mapping[str, Any]) -> Comparison:
    for name in ("value", "threshold"):
        _check_number(f"comparisons.{name}", record[name])
    return Comparison(**record)


def _read_attempt(record: Mapping[str, Any]) -> TrialAnswer:
    scores = {name: record[name] for name in _TRIAL_SCORES if record.get(name) is not None}
    return TrialAnswer(
        _text("attempt.answer", record["answer"]),
        _check_count("attempt.tokens", record.get("tokens", 0)),
        _shares("attempt", scores),
    )


def _read_search(record: Mapping[str, Any]) -> Search:
    return Search(
        query=_optional_text("query", record["query"]),
        is_question=bool(record["query_is_the_question"]),
        hits=tuple((_text("hits", hit[0]), _check_number("hits", hit[1])) for hit in record.get("hits", ())),
        added=_texts("added", record["added"]),
        known=_texts("known", record["known"]),
        refused=_texts("refused", record["refused"]),
        found_by={
            identifier: Provenance(*_texts("found_by", found))
            for identifier, found in record.get("found_by", {}).items()
        },
    )


def _read_citation(record: Any) -> CitedSpan:
    passage_id, start, end, role = record
    span = (_check_count("citations", start), _check_count("citations", end))
    return CitedSpan(_text("citations", passage_id), *span, CitationRole(role))


def _read_call(record: Mapping[str, Any]) -> ModelCall:
    return ModelCall(
        step=_check_count("calls.step", record["step"]),
        purpose=_text("calls.purpose", record["purpose"]),
        reply=_text("calls.reply", record["reply"]),
        tokens_in=_check_count("calls.tokens_in", record["tokens_in"]),
        tokens_out=_check_count("calls.tokens_out", record["tokens_out"]),
        counted_by=_text("calls.counted_by", record["counted_by"]),
        retries=_check_count("calls.retries", record["retries"]),
        repairs=dict(record.get("repairs", {})),
        least_token=_optional_share("calls.least_token", record.get("least_token")),
    )


def _shares(where: str, record: Mapping[str, Any]) -> dict[str, float]:
    for name, value in record.items():
        _check_share(f"{where}.{name}", value)
    return dict(record)


def _check_share(name: str, value: Any) -> float:
    if type(value) not in (float, int) or not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r:.40}, not a number from 0 to 1")
    return value  # type: ignore[no-any-return]


def _optional_share(name: str, value: Any) -> float | None:
    return None if value is None else _check_share(name, value)


def _check_amount(name: str, value: Any) -> Any:
    if type(value) not in (float, int) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r:.40}, not a number from 0 up")
    return value


def _check_number(name: str, value: Any) -> Any:
    if type(value) not in (float, int) or not -math.inf < value < math.inf:
        raise ValueError(f"{name} is {value!r:.40}, not a number")
    return value


def _check_count(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r:.40}, not a count")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.40}, not text")
    return value


def _optional_text(name: str, value: Any) -> str | None:
    return None if value is None else _text(name, value)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{name} is {values!r:.40}, not a list of texts")
    return tuple(values)
