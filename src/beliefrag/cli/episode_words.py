"""What an episode's events and outcome are in words. Both displays, on a terminal and in plain lines, use these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from beliefrag import events
from beliefrag.answering.citing import find_uncovered
from beliefrag.calibration import Artifact
from beliefrag.engine.model_calls import SUFFICIENT
from beliefrag.engine.replies import REPAIRS
from beliefrag.explanation import ACTION_WORDS, Explanation, describe_reason, explain_episode
from beliefrag.outcome import Abstained, Answered, Failed, Outcome, Stopped
from beliefrag.types import Belief, Citation, CitationRole, Passage, Usage

__all__ = [
    "Row",
    "belief_items",
    "describe_calibration",
    "describe_effect",
    "describe_steps",
    "describe_wait",
    "explain_end",
    "format_percent",
    "join_rows",
    "summary_rows",
]

_WAITING = {
    "verifier": "asking the model what the evidence is worth",
    "query_writer": "asking the model for the next query",
    "rewriter": "asking the model for another query",
    "answer": "asking the model for the answer",
}
_OUTCOMES = {
    Answered: "answered",
    Stopped: "stopped: the best answer from what there is, not one that is trusted",
    Abstained: "abstained: no answer is better than a bad one",
    Failed: "failed",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A heading with one or more values."""

    heading: str
    values: tuple[str, ...]


def describe_wait(purpose: str) -> str:
    """Says what a model call is for, as something that is going on."""
    return _WAITING.get(purpose, f"asking the model ({purpose.replace('_', ' ')})")


def format_percent(probability: float | None) -> str:
    """Gives a probability as a person reads it."""
    return "unknown" if probability is None else f"{probability:.0%}"


def belief_items(belief: Belief) -> Iterator[tuple[str, float]]:
    """Gives the six beliefs by name, in the paper's order."""
    for field in fields(belief):
        yield field.name, getattr(belief, field.name)


def describe_calibration(
    artifact: Artifact | None, calibration_warnings: Sequence[str], promise: str = "", *, method: str = ""
) -> str:
    """Says which calibration the percentages come from, why they may be off, and what the answers keep to."""
    if artifact is None:
        return f"none: the method {method} does not say how likely its answer is right"
    if calibration_warnings:
        return f"{artifact.name}: {'; '.join(calibration_warnings)}; so percentages may be off"
    return f"{artifact.name}, with {promise}" if promise else artifact.name


def describe_effect(event: events.Event, titles: Mapping[str, str]) -> list[Row]:
    """Says what an action changed.

    Args:
        event: The event that reports it; other events give nothing.
        titles: Title of each passage by id.
    """
    if isinstance(event, events.Retrieved):
        if event.query is None:
            return [Row("query", ("none: nothing is missing or left to search for, or the tokens are spent",))]
        return [Row("query", (event.query,)), Row("found", (_describe_hits(event, titles),))]
    if isinstance(event, events.Rewritten):
        nothing_missing = event.after == SUFFICIENT
        return [Row("query", ("none: nothing is missing, or left to search for" if nothing_missing else event.after,))]
    if isinstance(event, events.Pruned):
        dropped = [mutation.passage_id for mutation in event.mutations]
        named = f"{len(dropped)} ({_join_titles(dropped, titles)})" if dropped else "none"
        return [Row("dropped", (f"{named}, {len(event.evidence)} kept",))]
    return []


def join_rows(rows: Iterable[Row]) -> str:
    """Gives rows on one line."""
    return "; ".join(f"{row.heading} {', '.join(row.values)}" for row in rows)


def describe_steps(stream: Iterable[events.Event]) -> list[str]:
    """Gives a line for each step: its action, why it was taken, and what it changed."""
    titles: dict[str, str] = {}
    steps: list[str] = []
    for event in stream:
        if isinstance(event, events.Decided):
            decision = event.decision
            steps.append(f"{ACTION_WORDS[decision.action]}: {describe_reason(decision.reason)}")
            continue
        if isinstance(event, events.Retrieved):
            titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
        if effect := join_rows(describe_effect(event, titles)):
            steps[-1] += f"; {effect}"
    return steps


def _describe_hits(event: events.Retrieved, titles: Mapping[str, str]) -> str:
    if not event.hits:
        return "nothing"
    parts = [f"{len(event.added)} new" + (f" ({_join_titles(event.added, titles)})" if event.added else "")]
    parts += [f"{len(event.known)} known"] if event.known else []
    parts += [f"{len(event.refused)} dropped earlier"] if event.refused else []
    return ", ".join(parts)


def _join_titles(ids: Iterable[str], titles: Mapping[str, str]) -> str:
    return "; ".join(dict.fromkeys(titles.get(identifier) or identifier for identifier in ids))


def summary_rows(outcome: Outcome, stream: Sequence[events.Event]) -> list[Row]:
    """Says how it ended: answer, outcome, confidence, quotes, what else was read, why, and what it cost."""
    if isinstance(outcome, Failed):
        # The error with its remedy follows on standard error, and there is nothing else to say.
        cost = _describe_cost(outcome.usage, stream[-1].at if stream else 0.0)
        return [Row("outcome", (_OUTCOMES[Failed],)), Row("cost", (cost,))]
    answer = outcome.answer if isinstance(outcome, Answered | Stopped) else "none"
    guess = outcome.best_guess if isinstance(outcome, Abstained) else None
    rows = [
        Row("answer", (answer,)),
        *([Row("best guess", (f"{guess} ({format_percent(outcome.answerability)} likely right)",))] if guess else []),
        Row("outcome", (_OUTCOMES.get(type(outcome), outcome.name),)),
        Row("confidence", (format_percent(outcome.answerability),)),
        *_evidence_rows(outcome),
        *_explanation_rows(outcome, stream),
        Row("cost", (_describe_cost(outcome.usage, stream[-1].at if stream else 0.0),)),
    ]
    if repairs := _describe_repairs(stream):
        rows.append(Row("mended", (repairs,)))
    return rows


def explain_end(outcome: Outcome, stream: Sequence[events.Event]) -> Explanation:
    """Explains an episode to somebody at a terminal, who can ask again with other options."""
    asked = next((event.question.text for event in stream if isinstance(event, events.Started)), "")
    return explain_episode(outcome, stream, find_uncovered(asked, outcome.sources), name_options=True)


def _explanation_rows(outcome: Outcome, stream: Sequence[events.Event]) -> Iterator[Row]:
    explained = explain_end(outcome, stream)
    yield Row("searched", (explained.searched,))
    yield Row("stopped", (explained.stopped,))
    yield Row("changes it", (explained.would_change,))


def _evidence_rows(outcome: Outcome) -> Iterator[Row]:
    cited = {citation.passage_id for citation in outcome.citations}
    if outcome.citations:
        is_related = outcome.citations[-1].role is CitationRole.RELATED
        yield Row("nearest" if is_related else "because", tuple(map(_describe_citation, outcome.citations)))
    elif isinstance(outcome, Abstained) and outcome.nearest:
        yield Row("nearest", tuple(map(_describe_citation, outcome.nearest)))
    if read := tuple(_describe_sources(passage for passage in outcome.sources if passage.id not in cited)):
        yield Row("also read" if cited else "read", read)
    elif not cited:
        yield Row("read", ("nothing",))


def _describe_citation(citation: Citation) -> str:
    where = _relative_path(citation.source)
    named = [citation.title] if citation.title and citation.title not in where else []
    parts = [part for part in (where, *named, citation.place) if part]
    return f"\u201c{' '.join(citation.quote.split())}\u201d ({', '.join(parts) or citation.passage_id})"


def _describe_sources(passages: Iterable[Passage]) -> Iterator[str]:
    counted = Counter((passage.title or passage.id, passage.source) for passage in passages)
    for (title, source), count in counted.items():
        where = f" ({_relative_path(source)})" if source and source != title else ""
        yield f"{title}{where}" + (f", {count} passages" if count > 1 else "")


def _relative_path(source: str) -> str:
    """Gives a path as seen from the folder that the person stands in."""
    try:
        return source.removeprefix(f"{Path.cwd()}/")
    except FileNotFoundError:  # that folder is gone
        return source


def _describe_cost(usage: Usage, seconds: float) -> str:
    cached = f", {usage.cached_calls} of them recorded earlier" if usage.cached_calls else ""
    retried = f", {_count(usage.retries, 'retry', 'retries')}" if usage.retries else ""
    return (
        f"{usage.tokens:,} tokens ({usage.tokens_in:,} in, {usage.tokens_out:,} out), "
        f"{_count(usage.calls, 'call')}{cached}{retried}, {_count(usage.searches, 'search', 'searches')}, "
        f"{seconds:.1f} s"
    )


def _describe_repairs(stream: Sequence[events.Event]) -> str:
    total: Counter[str] = Counter()
    for event in stream:
        if isinstance(event, events.CallFinished):
            total.update(event.repairs)
    return "; ".join(f"{count} {REPAIRS.get(kind, kind)}" for kind, count in total.items() if count)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
