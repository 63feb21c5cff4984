"""An episode from its events: those of a trace file, or those that an episode under way has left so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beliefrag.methods import METHODS
from beliefrag.policy.decide import UNSURE
from beliefrag.web.view.errors import ViewError
from beliefrag.web.view.lines import read_line
from beliefrag.web.view.schema import EpisodeView, MessageView, PromptsView

__all__ = ["episode_of", "prompts_of", "read_trace"]

Record = Mapping[str, Any]

_COMPARED = {
    ("answerability", "answer"): "answer",
    ("conflict", ""): "conflict",
    ("reliability", ""): "reliability",
    ("retrieval value", ""): "retrieval_value",
    ("novelty", ""): "novelty",
    ("sufficiency", ""): "abstain_sufficiency",
    ("uncertainty", ""): "abstain_uncertainty",
    ("answerability", "abstain"): "abstain_answerability",
    ("answerability", UNSURE): "least_answerability",
}
"""Which setting a comparison was made with: a trace holds the numbers that were compared, and no settings."""


def read_trace(path: Path) -> list[Record]:
    """The events of a trace file. A last line without an end was torn by a kill, and is left out.

    Raises:
        ViewError: The file cannot be read or is no trace.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ViewError(f"{path} cannot be read: {error.strerror}.") from error
    records: list[Record] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = read_line(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "event" not in record:
            raise _no_trace(path, f"line {number} is no event")
        records.append(record)
    if not records or records[0]["event"] != "started":
        raise _no_trace(path, "it does not begin with the start of an episode")
    try:
        episode_of(records)
        prompts_of(records)
    except (KeyError, TypeError, AttributeError, IndexError, ValidationError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{type(error).__name__} {error}"
        raise _no_trace(path, f"an event lacks something or holds another type ({what})") from None
    return records


def _no_trace(path: Path, why: str) -> ViewError:
    return ViewError(
        f"{path} is no trace: {why}.", remedy="Name a file that 'beliefrag ask --trace' wrote, or the folder of a run."
    )


def episode_of(
    records: Sequence[Record], *, live: bool = False, thresholds: Mapping[str, float] | None = None
) -> EpisodeView:
    """The episode that a stream of events tells of, as far as it goes.

    Args:
        records: Events as plain data, the first of them `started`; none of an episode that is about to begin.
        live: Whether more events may come.
        thresholds: Those in force, where somebody knows them; otherwise those that decisions were made with.
    """
    origin = "live" if live else "trace"
    if not records:
        return EpisodeView(origin="live", id=0, method="", method_title="", outcome="running", waiting="it to begin")
    started, outcome = records[0], _ending(records)
    steps = list(_steps(records))
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
        "thresholds": thresholds if thresholds is not None else _thresholds(steps),
        "sources": [passage["id"] for passage in outcome.get("sources", ())],
        "steps": steps,
        "calls": [record for record in records if record["event"] == "call_finished"],
        "passages": _passages(records),
        "waiting": _waiting(records) if live and not outcome else "",
    }
    if outcome.get("outcome") == "failed":
        view["error"] = {"cause": outcome["cause"], "message": outcome["error"], "remedy": outcome["remedy"]}
    elif not outcome and not live:
        view["error"] = {"cause": "torn", "message": "The trace breaks off before the end of the episode."}
    if thresholds is None:
        view["notes"] = ("A trace holds the thresholds that decisions were made with; others are not drawn.",)
    return EpisodeView.model_validate(view)


def prompts_of(records: Sequence[Record]) -> PromptsView:
    """The prompts, as the events hold them."""
    calls = (record["messages"] for record in records if record["event"] == "call_finished")
    return PromptsView(
        calls=tuple(tuple(MessageView.model_validate(message) for message in messages) for messages in calls),
        source="as they were sent",
    )


def _ending(records: Sequence[Record]) -> Record:
    last = records[-1]
    ending: Record = last["outcome"] if last["event"] == "finished" else {}
    return ending


def _steps(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    step: dict[str, Any] | None = None
    question = records[0]["question"]["text"]
    for record in records:
        kind = record["event"]
        if kind == "decided":
            if step is not None:
                yield step
            observation = record["observation"] or {}
            numbers = ("diagnostics", "belief", "answerability", "retrieval_value", "tokens", "attempt", "step")
            step = {**record["decision"], **{name: record[name] for name in numbers}}
            step["flagged"] = observation.get("unhelpful", ())
        elif step is not None and kind == "retrieved":
            found = {"added": record["added"], "known": record["known"], "refused": record["refused"]}
            hits = [(hit["passage"]["id"], hit["score"]) for hit in record["hits"]]
            own = record["query"] == question
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


def _passages(records: Sequence[Record]) -> dict[str, Record]:
    return {
        hit["passage"]["id"]: hit["passage"]
        for record in records
        if record["event"] == "retrieved"
        for hit in record["hits"]
    }


def _usage_so_far(records: Sequence[Record]) -> dict[str, int]:
    calls = [record for record in records if record["event"] == "call_finished"]
    tokens_in, tokens_out = (sum(call[name] for call in calls) for name in ("tokens_in", "tokens_out"))
    searches = sum(record["event"] == "retrieved" and record["query"] is not None for record in records)
    totals = {"tokens": tokens_in + tokens_out, "tokens_in": tokens_in, "tokens_out": tokens_out}
    return {"calls": len(calls), "searches": searches, **totals}


def _thresholds(steps: Sequence[Record]) -> dict[str, float]:
    found: dict[str, float] = {}
    for step in steps:
        # Abstentions compare answerability with thresholds of their own.
        which = step["branch"] if step["branch"] in ("abstain", UNSURE) else "answer"
        for comparison in step["comparisons"] if step["belief"] else ():
            name = comparison["name"]
            key = (name, which if name == "answerability" else "")
            if key in _COMPARED:
                found[_COMPARED[key]] = comparison["threshold"]
    return found


def _waiting(records: Sequence[Record]) -> str:
    last = records[-1]
    return f"the model ({last['purpose'].replace('_', ' ')})" if last["event"] == "call_started" else "the next event"
