"""An episode from its events: those of a trace file, or those of an episode that runs now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beliefrag.methods import METHODS
from beliefrag.policy.decide import UNSURE
from beliefrag.web.view.sanitise import read_json_line
from beliefrag.web.view.schema import EpisodeView, MessageView, PromptsView, ViewError

__all__ = ["EventRecord", "read_trace", "view_events", "view_prompts"]

EventRecord = Mapping[str, Any]
"""An event as plain data, as a trace holds it."""

_COMPARED = {
    ("answerability", "answer"): "answer",
    ("conflict", ""): "conflict",
    ("reliability", ""): "reliability",
    ("retrieval value", ""): "retrieval_value",
    ("novelty", ""): "novelty",
    ("sufficiency", ""): "abstain_sufficiency",
    ("uncertainty", ""): "abstain_uncertainty",
    ("answerability", "abstain"): "abstain_answerability",
    ("answerability", UNSURE): "decline_below",
}
"""The setting behind each comparison. A trace holds the compared numbers but no settings."""


def read_trace(path: Path) -> list[EventRecord]:
    """Read the events of a trace file. A last line without an end is left out: a kill cut it off.

    Raises:
        ViewError: The file cannot be read or is not a trace.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ViewError(f"{path} cannot be read: {error.strerror}.") from error
    records: list[EventRecord] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = read_json_line(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or "event" not in record:
            raise _not_a_trace(path, f"line {number} is not an event")
        records.append(record)
    if not records or records[0]["event"] != "started":
        raise _not_a_trace(path, "it does not begin with the start of an episode")
    try:
        view_events(records)
        view_prompts(records)
    except (KeyError, TypeError, AttributeError, IndexError, ValidationError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{type(error).__name__} {error}"
        raise _not_a_trace(path, f"an event lacks something or holds another type ({what})") from None
    return records


def _not_a_trace(path: Path, why: str) -> ViewError:
    return ViewError(
        f"{path} is not a trace: {why}.",
        remedy="Name a file that 'beliefrag ask --trace' wrote, or the folder of a run.",
    )


def view_events(
    records: Sequence[EventRecord], *, live: bool = False, thresholds: Mapping[str, float] | None = None
) -> EpisodeView:
    """Return the episode of a stream of events, as far as it goes.

    Args:
        records: Events as plain data, the first of them `started`; none for an episode that has not begun.
        live: Whether more events may come.
        thresholds: The thresholds in use, where they are known; otherwise those that decisions were made with.
    """
    origin = "live" if live else "trace"
    if not records:
        return EpisodeView(origin="live", id=0, method="", method_title="", outcome="running", waiting="it to begin")
    started, outcome = records[0], _outcome_record(records)
    steps = list(_step_records(records))
    unfinished = "running" if live else "failed"
    view: dict[str, Any] = {
        "origin": origin,
        "id": 0,
        "method": started["method"],
        "method_title": METHODS.title(started["method"]),
        "model": started["model"],
        "made_with": {"verifier": started["verifier"], **started["made_with"]},
        "question": started["question"]["text"],
        "question_id": started["question"]["id"],
        "outcome": outcome.get("outcome", unfinished),
        "answer": outcome.get("answer"),
        "reason": outcome.get("reason", ""),
        "answerability": outcome.get("answerability"),
        "usage": outcome.get("usage") or _usage_so_far(records),
        "seconds": records[-1]["at"],
        "budget": started["budget"],
        "thresholds": thresholds if thresholds is not None else _thresholds_of_decisions(steps),
        "sources": [passage["id"] for passage in outcome.get("sources", ())],
        "citations": outcome.get("citations") or outcome.get("nearest") or (),
        "best_guess": outcome.get("best_guess"),
        "steps": steps,
        "calls": [record for record in records if record["event"] == "call_finished"],
        "passages": _passage_records(records),
        "waiting": _describe_wait(records) if live and not outcome else "",
    }
    if outcome.get("outcome") == "failed":
        view["error"] = {"cause": outcome["cause"], "message": outcome["error"], "remedy": outcome["remedy"]}
    elif not outcome and not live:
        view["error"] = {"cause": "torn", "message": "The trace ends before the end of the episode."}
    if thresholds is None:
        view["notes"] = ("A trace holds the thresholds that decisions were made with; others are not drawn.",)
    return EpisodeView.model_validate(view)


def view_prompts(records: Sequence[EventRecord]) -> PromptsView:
    """Return the prompts, which the events hold."""
    calls = (record["messages"] for record in records if record["event"] == "call_finished")
    return PromptsView(
        calls=tuple(tuple(MessageView.model_validate(message) for message in messages) for messages in calls),
        source="as they were sent",
    )


def _outcome_record(records: Sequence[EventRecord]) -> EventRecord:
    last = records[-1]
    ending: EventRecord = last["outcome"] if last["event"] == "finished" else {}
    return ending


def _step_records(records: Sequence[EventRecord]) -> Iterator[dict[str, Any]]:
    step: dict[str, Any] | None = None
    shown: Sequence[EventRecord] = ()
    question = records[0]["question"]["text"]
    for record in records:
        kind = record["event"]
        if kind == "packed":
            shown = record["shown"]
            # What is packed to carry an action out belongs to the step of that action, as its calls do.
            if step is not None and record["step"] == step["step"]:
                step["shown"] = shown
        elif kind == "decided":
            if step is not None:
                yield step
            observation = record["observation"] or {}
            numbers = ("diagnostics", "belief", "answerability", "retrieval_value", "tokens", "attempt", "step")
            step = {**record["decision"], **{name: record[name] for name in numbers}}
            step |= {"flagged": observation.get("unhelpful", ()), "shown": shown}
        elif step is not None and kind == "retrieved":
            found = {"added": record["added"], "known": record["known"], "refused": record["refused"]}
            hits = [(hit["passage"]["id"], hit["score"]) for hit in record["hits"]]
            own = record["query"] == question
            found["found_by"] = {
                hit["passage"]["id"]: hit["provenance"] for hit in record["hits"] if hit.get("provenance")
            }
            step["search"] = {"query": record["query"], "is_question": own, "hits": hits, **found}
            step["evidence"] = record["evidence"]
        elif step is not None and kind == "rewritten":
            step |= {"rewritten": record["after"], "evidence": record["evidence"]}
        elif step is not None and kind == "pruned":
            step["dropped"] = [{"id": each["passage_id"], "why": each["reason"]} for each in record["mutations"]]
            step["evidence"] = record["evidence"]
        elif step is not None and kind == "finished":
            step.setdefault("evidence", [passage["id"] for passage in record["outcome"]["sources"]])
    if step is not None:
        yield step


def _passage_records(records: Sequence[EventRecord]) -> dict[str, EventRecord]:
    return {
        hit["passage"]["id"]: hit["passage"]
        for record in records
        if record["event"] == "retrieved"
        for hit in record["hits"]
    }


def _usage_so_far(records: Sequence[EventRecord]) -> dict[str, int]:
    calls = [record for record in records if record["event"] == "call_finished"]
    tokens_in, tokens_out = (sum(call[name] for call in calls) for name in ("tokens_in", "tokens_out"))
    searches = sum(record["event"] == "retrieved" and record["query"] is not None for record in records)
    totals = {"tokens": tokens_in + tokens_out, "tokens_in": tokens_in, "tokens_out": tokens_out}
    return {"calls": len(calls), "searches": searches, **totals}


def _thresholds_of_decisions(steps: Sequence[EventRecord]) -> dict[str, float]:
    found: dict[str, float] = {}
    for step in steps:
        # Abstentions compare answerability with their own thresholds.
        which = step["branch"] if step["branch"] in ("abstain", UNSURE) else "answer"
        for comparison in step["comparisons"] if step["belief"] else ():
            name = comparison["name"]
            key = (name, which if name == "answerability" else "")
            if key in _COMPARED:
                found[_COMPARED[key]] = comparison["threshold"]
    return found


def _describe_wait(records: Sequence[EventRecord]) -> str:
    last = records[-1]
    return f"the model ({last['purpose'].replace('_', ' ')})" if last["event"] == "call_started" else "the next event"
