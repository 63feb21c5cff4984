"""What the steps and the end of an episode are in words, and the display of them as plain lines."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from beliefrag import events
from beliefrag.answering.citing import find_uncovered
from beliefrag.calibration import Artifact
from beliefrag.cli.output import (
    ABSTAINED,
    FAILED,
    OK,
    USAGE,
    Heartbeat,
    is_screen,
    open_console,
    print_notice,
    safe_line,
)
from beliefrag.engine.assembly import Assembly
from beliefrag.engine.model_calls import SUFFICIENT
from beliefrag.engine.replies import REPAIRS
from beliefrag.errors import SettingsError
from beliefrag.explanation import ACTION_WORDS, Explanation, describe_belief, describe_reason, explain_episode
from beliefrag.outcome import Abstained, Answered, Failed, Outcome, Stopped
from beliefrag.result import Result
from beliefrag.settings import Settings
from beliefrag.types import Belief, Citation, CitationRole, Passage, Usage

if TYPE_CHECKING:
    from beliefrag.cli.live import LiveDisplay

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


def choose_display(
    assembly: Assembly, settings: Settings, *, as_json: bool = False, quiet: bool = False
) -> LineDisplay | LiveDisplay | None:
    """Gives a live display on a terminal, plain lines elsewhere, and nothing with --quiet.

    With --json, standard output is left to the JSON; a person at a terminal still sees what is being waited for.
    """
    if quiet:
        return None
    calibration = describe_calibration(
        assembly.parts.artifact, assembly.parts.calibration_warnings, assembly.promise, method=assembly.method.name
    )
    stream = sys.stderr if as_json else sys.stdout
    if is_screen(stream):
        # Only a terminal needs rich.
        from beliefrag.cli.live import LiveDisplay  # noqa: PLC0415

        threshold = _find_threshold(assembly, settings)
        return LiveDisplay(open_console(stream), calibration=calibration, threshold=threshold, record=not as_json)
    return None if as_json else LineDisplay(stream, calibration=calibration)


def _find_threshold(assembly: Assembly, settings: Settings) -> float:
    """Gives the answerability from which a question counts as answered, whichever rule asks for the most."""
    thresholds = getattr(assembly.method, "thresholds", settings.thresholds)
    return max(thresholds.answer, thresholds.decline_below or 0.0)


def print_answer(result: Result) -> None:
    """Prints the answer alone; that it was declined, or is only the best there is, goes to standard error."""
    if result.answer is not None:
        sys.stdout.write(safe_line(result.answer) + "\n")
    if isinstance(result.outcome, Abstained | Stopped):
        print_notice(f"{result.outcome.name}: {explain_end(result.outcome, result.events).stopped}")
    if result.best_guess is not None:
        print_notice(f"best guess: {result.best_guess} (--best-guess makes it the answer)")


def print_failure(result: Result) -> None:
    """Says on standard error why an episode failed."""
    if isinstance(result.outcome, Failed):
        print_notice(f"error: {result.outcome.error} {result.outcome.remedy}")


class LineDisplay:
    """Writes each event as it happens, one plain line each, without control codes: for pipes, files and logs.

    Args:
        stream: Where to.
        calibration: Which calibration makes the probabilities, in words.
    """

    def __init__(self, stream: TextIO, *, calibration: str) -> None:
        self._stream = stream
        self._calibration = calibration
        self._titles: dict[str, str] = {}
        self._seen: list[events.Event] = []
        self._waiting_for = "working"
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(lambda seconds: self._write(f"{self._waiting_for}, {seconds:.0f} s"))

    def __enter__(self) -> LineDisplay:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.__exit__()

    def show(self, event: events.Event) -> None:
        """Writes the event, if it matters to a reader."""
        self._seen.append(event)
        match event:
            case events.Started():
                self._write_line("question", event.question.text)
                self._write_line("model", event.model)
                self._write_line("calibration", self._calibration)
            case events.CallStarted():
                self._waiting_for = describe_wait(event.purpose)
                self._heartbeat.note()
            case events.CallFinished():
                self._waiting_for = "working"
                self._heartbeat.note()
            case events.Decided():
                self._write_decision(event)
            case events.Finished():
                for row in summary_rows(event.outcome, self._seen):
                    for value in row.values:
                        self._write_line(row.heading.removesuffix("s") if len(row.values) > 1 else row.heading, value)
            case events.Retrieved() | events.Rewritten() | events.Pruned():
                if isinstance(event, events.Retrieved):
                    self._titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
                self._write_line(f"step {event.step + 1}", join_rows(describe_effect(event, self._titles)))

    def _write_decision(self, event: events.Decided) -> None:
        believed = describe_belief(event.belief, event.answerability)
        reason = describe_reason(event.decision.reason)
        parts = [reason, *([believed] if believed else []), f"{event.tokens:,} tokens so far"]
        self._write_line(f"step {event.step + 1}", f"{ACTION_WORDS[event.decision.action]}: {'; '.join(parts)}")

    def _write_line(self, heading: str, value: str) -> None:
        self._heartbeat.reset()
        self._write(f"{heading}: {safe_line(value)}")

    def _write(self, line: str) -> None:
        with self._lock:
            self._stream.write(f"{line}\n")
            self._stream.flush()


def exit_code(outcome: Outcome) -> int:
    """Return the exit code for how a question ended."""
    if isinstance(outcome, Failed):
        return USAGE if outcome.cause == SettingsError.__name__ else FAILED
    return ABSTAINED if isinstance(outcome, Abstained) else OK
