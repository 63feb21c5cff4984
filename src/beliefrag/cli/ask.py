"""`beliefrag ask`: answer a question from documents, and print its steps and its answer."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, argument, flag, join_paths, option, with_settings
from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.explanation import (
    ACTION_WORDS,
    Explanation,
    ask_back,
    describe_belief,
    describe_confidence,
    describe_left_out,
    describe_reason,
    explain_episode,
)
from beliefrag.record import AnswerText, CallStarted, Episode, Outcome, Progress, Step, to_json_line
from beliefrag.types import Citation, CitationRole, Passage, Question, Turn, Usage

if TYPE_CHECKING:
    from beliefrag.cli.live import LiveDisplay
    from beliefrag.opening import Assembly
    from beliefrag.settings import Settings

_SKIPPED_SHOWN = 5
NOT_UTF8 = "it is not valid in this terminal's encoding; use UTF-8"
Rows = list[tuple[str, tuple[str, ...]]]
"""Headings, each with one or more values."""

_WAITING = {
    "verifier": "asking the model what the evidence is worth",
    "query_writer": "asking the model for the next query",
    "rewriter": "asking the model for another query",
    "answer": "asking the model for the answer",
    "read": "asking the model for an answer",
    "write": "asking the model to write the answer",
    "standalone": "asking the model what the question refers to",
}
_OUTCOMES = {
    Outcome.ANSWERED: "answered",
    Outcome.STOPPED: "stopped: the best answer from what there is, not one that is trusted",
    Outcome.ABSTAINED: "abstained: no answer is better than a bad one",
    Outcome.FAILED: "failed",
}


@with_settings("model", "base_url", "method", "retriever", "borrow", "max_error", "answer_style")
def ask(
    question: Annotated[str | None, argument("QUESTION", "The question; without one, a prompt opens.")] = None,
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    best_guess: Annotated[bool, flag("--best-guess", "Never decline: always give the best guess.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, flag("--quiet", "Print only the answer.", "-q")] = False,
    trace: Annotated[Path | None, option("FILE", "Write every step to this new file, as JSON Lines.")] = None,
) -> None:
    """Answer a question from documents, searching only as much as needed.

    Example: beliefrag ask "Who approves travel?" --docs handbook/

    Exit code: 0 answered, 3 declined, 1 failed, 2 wrong usage.
    """
    import asyncio

    from beliefrag.models.providers import describe_destination

    if question is not None and documents.docs and os.path.exists(question):  # noqa: PTH110 - Path fails on long texts
        # A shell expands `--docs notes/*.md` to one option and arguments, of which the first is not a question.
        further = [Path(question), *(further or ())]
        question = None
    if question is None:
        _check_prompt(**{"--json": as_json, "--trace": trace})
    elif not question.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    elif not is_text(question):
        raise typer.BadParameter(NOT_UTF8, param_hint="QUESTION")
    if as_json and quiet:
        raise typer.BadParameter("--json and --quiet exclude each other")
    paths = join_paths(documents.docs, further)
    never_decline = {"thresholds.abstain": False, "thresholds.decline_below": 0.0} if best_guess else {}
    settings = given.load(**never_decline)
    if destination := describe_destination(settings):
        output.print_notice(destination)
    if settings.answer_style is None:
        settings = settings.model_copy(update={"answer_style": "short" if quiet else "sentence"})
    if question is None:
        from beliefrag.cli.ask_prompt import AskPrompt

        opened = open_assembly(settings, docs=paths, index=documents.index, where=documents.where)
        AskPrompt(opened, lambda: choose_display(opened, settings, quiet=quiet), paths).run()
        return
    with contextlib.ExitStack() as stack:
        # The trace comes first: if it cannot be written, nothing has been paid for yet.
        observers: list[Callable[[Progress], object]] = [stack.enter_context(open_trace(trace))] if trace else []
        assembly = open_assembly(settings, docs=paths, index=documents.index, where=documents.where)
        display = choose_display(assembly, settings, as_json=as_json, quiet=quiet)
        episode = asyncio.run(run_episode(Question(question), assembly, display=display, observers=observers))
        if as_json:
            sys.stdout.write(to_json_line(episode))
        elif quiet:
            print_answer(episode)
        print_failure(episode)
        print_unread(episode, assembly)
    raise typer.Exit(exit_code(episode))


def is_text(typed: str) -> bool:
    """Return whether all bytes that were typed are text. Python keeps others as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in typed)


def _check_prompt(**options: object) -> None:
    """Refuse to open a prompt without a terminal, or with an option that belongs to one question."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} needs a question", param_hint="QUESTION")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("it is missing, and a prompt needs a terminal", param_hint="QUESTION")


def open_assembly(
    settings: Settings, *, docs: Sequence[Path] | None, index: Path | None, where: str | None = None
) -> Assembly:
    """Open the model, the documents or the index, and warn about documents that could not be read."""
    from beliefrag.opening import assemble

    if docs is None and index is not None and index.is_dir():
        from beliefrag.retrieval.indexing import count_outdated

        if outdated := count_outdated(index):
            number = f"{outdated:,} documents have" if outdated > 1 else "1 document has"
            output.print_notice(f"warning: {number} changed since {index} was made; run 'beliefrag index' again.")
    if docs is None or index is not None:
        with output.show_status("opening index and model"):
            return assemble(settings, docs=docs, index=index, where=where)
    with output.show_index_progress() as progress:
        assembly = assemble(settings, docs=docs, progress=progress, where=where)
    if assembly.report is not None and (skipped := assembly.report.skipped):
        number = f"{len(skipped):,} files were" if len(skipped) > 1 else "1 file was"
        named = "; ".join(f"{each.path} {each.reason}" for each in skipped[:_SKIPPED_SHOWN])
        more = " 'beliefrag index' lists all of them." if len(skipped) > _SKIPPED_SHOWN else ""
        output.print_notice(f"warning: {number} left out: {named}.{more}")
    return assembly


async def run_episode(
    question: Question,
    assembly: Assembly,
    *,
    display: LineDisplay | LiveDisplay | None,
    observers: Sequence[Callable[[Progress], object]] = (),
    keep_open: bool = False,
    history: Sequence[Turn] = (),
) -> Episode:
    """Answer a question. Cancelling it, or an error in the display, cancels the running model call.

    Observers are called with everything that the loop yields. The model is closed at the end unless `keep_open`.
    """
    from beliefrag.engine import loop

    stream = loop.run(question, assembly.method, assembly.harness, history)
    progress: Progress | None = None
    try:
        # The display is left first: the terminal is usable again while the model still ends.
        async with contextlib.aclosing(stream):
            with display or contextlib.nullcontext():
                async for progress in stream:
                    for observe in observers:
                        observe(progress)
                    if display is not None:
                        display.show(progress)
    finally:
        if not keep_open:
            await assembly.aclose()
    assert isinstance(progress, Episode)
    return progress


@contextlib.contextmanager
def open_trace(path: Path) -> Iterator[Callable[[Progress], None]]:
    """Return what writes steps to a new file; each is on disk as soon as it ends."""
    try:
        file = path.open("xb", buffering=0)
    except OSError as error:
        problem = "exists already" if isinstance(error, FileExistsError) else f"cannot be written: {error.strerror}"
        raise SettingsError(f"The trace {path} {problem}.", remedy="Name a file in another place.") from error

    def write(progress: Progress) -> None:
        if isinstance(progress, CallStarted | AnswerText):
            return
        try:
            file.write(to_json_line(progress).encode("ascii"))
        except OSError as error:
            raise BeliefRAGError(
                f"The trace {path} cannot be written: {error.strerror}.",
                remedy="Free some space and ask again; replies that were paid for are kept.",
            ) from error

    with file:
        try:
            yield write
        finally:
            if not file.tell():
                path.unlink(missing_ok=True)


def exit_code(episode: Episode) -> int:
    """Return the exit code for how a question ended."""
    if episode.outcome is Outcome.FAILED:
        return output.USAGE if episode.cause == SettingsError.__name__ else output.FAILED
    return output.ABSTAINED if episode.outcome is Outcome.ABSTAINED else output.OK


def print_answer(episode: Episode) -> None:
    """Print the answer alone; that it was declined, or is only the best there is, goes to standard error."""
    if episode.answer is not None:
        sys.stdout.write(output.safe_line(episode.answer) + "\n")
    if note := describe_left_out(episode.left_out):
        output.print_notice(f"left out: {note}")
    if episode.outcome in {Outcome.ABSTAINED, Outcome.STOPPED}:
        output.print_notice(f"{episode.outcome}: {explain_end(episode).stopped}")
    if episode.best_guess is not None:
        output.print_notice(f"best guess: {episode.best_guess} (--best-guess makes it the answer)")


def print_failure(episode: Episode) -> None:
    """Print on standard error why an episode failed."""
    if episode.error is not None:
        output.print_notice(f"error: {episode.error.message} {episode.error.remedy}")


def print_unread(episode: Episode, assembly: Assembly) -> None:
    """Print which files were not read that a declined question seems to be about."""
    from beliefrag.retrieval.indexing import find_unread

    if episode.outcome is Outcome.ABSTAINED and assembly.report:
        for each in find_unread(episode.question.text, assembly.report.skipped):
            output.print_notice(f"note: the question may be about {each.path}, which was not read: it {each.reason}.")


def choose_display(
    assembly: Assembly, settings: Settings, *, as_json: bool = False, quiet: bool = False
) -> LineDisplay | LiveDisplay | None:
    """Return a live display on a terminal, plain lines elsewhere, and nothing with --quiet.

    With --json, standard output is left to the JSON; a person at a terminal still sees what is being waited for.
    """
    if quiet:
        return None
    stream = sys.stderr if as_json else sys.stdout
    if output.is_screen(stream):
        # Only a terminal needs rich.
        from beliefrag.cli.live import LiveDisplay

        thresholds = getattr(assembly.method, "thresholds", settings.thresholds)
        threshold = max(thresholds.answer, thresholds.decline_below or 0.0)
        calibration = describe_calibration(assembly)
        return LiveDisplay(
            output.open_console(stream), calibration=calibration, threshold=threshold, record=not as_json
        )
    return None if as_json else LineDisplay(stream, calibration=describe_calibration(assembly))


def describe_calibration(assembly: Assembly) -> str:
    """Return which calibration the percentages come from, why they may be off, and what the answers keep to."""
    parts = assembly.parts
    if parts.artifact is None:
        return f"none: the method {assembly.method.name} does not say how likely its answer is right"
    if parts.calibration_warnings:
        why = "; ".join(parts.calibration_warnings)
        named = "" if parts.artifact.any_model else f"{parts.artifact.name}: "
        return f"{named}{why}, so percentages are estimates; 'beliefrag calibrate auto' fits them to your documents"
    return f"{parts.artifact.name}, with {assembly.promise}" if assembly.promise else parts.artifact.name


class LineDisplay(output.Heartbeat):
    """Write one or two plain lines for each step, without control codes: for pipes, files and logs."""

    def __init__(self, stream: TextIO, *, calibration: str) -> None:
        self._stream = stream
        self._calibration = calibration
        self._titles: dict[str, str] = {}
        self._waiting_for = "working"
        self._lock = threading.Lock()
        super().__init__(lambda seconds: self._write_text(f"{self._waiting_for}, {seconds:.0f} s"))

    def show(self, progress: Progress) -> None:
        """Write what matters to a reader."""
        match progress:
            case CallStarted():
                self._waiting_for = describe_wait(progress.purpose)
                self.note()
            case Step():
                self._waiting_for = "working"
                self._titles |= {name: passage.title for name, passage in progress.passages.items()}
                for line in describe_step(progress, self._titles):
                    self._write_line(f"step {progress.number + 1}", line)
            case Episode(outcome=None):
                self._write_line("question", progress.question.text)
                if progress.standalone:
                    self._write_line("understood as", progress.standalone)
                self._write_line("model", progress.model)
                self._write_line("calibration", self._calibration)
            case Episode():
                for heading, values in summary_rows(progress):
                    for value in values:
                        self._write_line(heading, value)

    def _write_line(self, heading: str, value: str) -> None:
        self.reset()
        self._write_text(f"{heading}: {output.safe_line(value)}")

    def _write_text(self, line: str) -> None:
        with self._lock:
            self._stream.write(f"{line}\n")
            self._stream.flush()


def describe_wait(purpose: str) -> str:
    """Return what a model call is for."""
    return _WAITING.get(purpose, f"asking the model ({purpose.replace('_', ' ')})")


def describe_step(step: Step, titles: Mapping[str, str]) -> list[str]:
    """Return a line with the action and its reason, and one with what it changed; `titles` is by id of the passage."""
    reason = describe_reason(step.reason, step.comparisons)
    believed = describe_belief(step.belief, step.answerability)
    parts = [f"{ACTION_WORDS[step.action]}: {reason}", *([believed] if believed else [])]
    changes = "; ".join(f"{heading} {value}" for heading, (value,) in step_rows(step, titles))
    return ["; ".join((*parts, f"{step.tokens:,} tokens so far")), *([changes] if changes else [])]


def step_rows(step: Step, titles: Mapping[str, str]) -> Rows:
    """Return what a step changed: the query and what it found, the new query, or the passages dropped."""
    from beliefrag.engine.calls import SUFFICIENT

    if (search := step.search) is not None:
        if search.query is None:
            return [("query", ("none: nothing is missing or left to search for, or the tokens are spent",))]
        parts = [f"{len(search.added)} new{_list_titles(search.added, titles)}"] if search.hits else ["nothing"]
        parts += [f"{len(search.known)} known"] if search.known else []
        parts += [f"{len(search.refused)} dropped earlier"] if search.refused else []
        return [("query", (search.query,)), ("found", (", ".join(parts),))]
    if (query := step.rewritten) is not None:
        return [("query", ("none: nothing is missing, or left to search for" if query == SUFFICIENT else query,))]
    if (dropped := step.dropped) is not None:
        named = f"{len(dropped)}{_list_titles(dropped, titles)}" if dropped else "none"
        return [("dropped", (f"{named}, {len(step.evidence)} kept",))]
    return []


def _list_titles(ids: Iterable[str], titles: Mapping[str, str]) -> str:
    named = "; ".join(dict.fromkeys(titles.get(each) or each for each in ids))
    return f" ({named})" if named else ""


def summary_rows(episode: Episode) -> Rows:
    """Return how it ended: answer, outcome, confidence, quotes, what else was read, why, and what it cost."""
    assert episode.outcome is not None
    cost = ("cost", (_describe_cost(episode.usage, episode.seconds),))
    outcome = ("outcome", (_OUTCOMES[episode.outcome],))
    if episode.outcome is Outcome.FAILED:
        # The error with its remedy follows on standard error, and there is nothing else to say.
        return [outcome, cost]
    likely = describe_confidence(episode)
    explained = explain_end(episode)
    rows: Rows = [("answer", (episode.answer or "none",))]
    rows += [("left out", (note,))] if (note := describe_left_out(episode.left_out)) else []
    rows += [("please say", (question,))] if (question := ask_back(episode)) else []
    if episode.best_guess:
        rows.append(("best guess", (f"{episode.best_guess} ({likely})",)))
    rows += [outcome, ("confidence", (likely.replace(" likely right", ""),)), *evidence_rows(episode)]
    rows += [("guarantee", (words,)) for words in (episode.made_with.get("guarantee"),) if words]
    rows += [("searched", (explained.searched,)), ("stopped", (explained.stopped,))]
    return [*rows, ("changes it", (explained.would_change,)), cost]


def explain_end(episode: Episode) -> Explanation:
    """Explain an episode to a person who can ask again with other options."""
    from beliefrag.answering.citing import find_uncovered
    from beliefrag.answering.counting import asks_for_all

    uncovered = find_uncovered(episode.asked, episode.read_passages)
    return explain_episode(episode, uncovered, name_options=True, whole=asks_for_all(episode.asked))


def evidence_rows(episode: Episode) -> Rows:
    """Return the sentences that the answer rests on, or the nearest ones, and what else was read."""
    cited = {citation.passage_id for citation in episode.citations}
    rows: Rows = []
    if episode.citations:
        nearest = episode.outcome is Outcome.ABSTAINED or episode.citations[-1].role is CitationRole.RELATED
        rows.append(("nearest" if nearest else "because", tuple(map(_describe_citation, episode.citations))))
    if read := tuple(_describe_sources(each for each in episode.read_passages if each.id not in cited)):
        rows.append(("also read" if cited else "read", read))
    return rows or [("read", ("nothing",))]


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
    try:
        return source.removeprefix(f"{Path.cwd()}/")
    except FileNotFoundError:  # the current folder is gone
        return source


def _describe_cost(usage: Usage, seconds: float) -> str:
    cached = f", {usage.cached_calls} of them recorded earlier" if usage.cached_calls else ""
    retried = f", {_count(usage.retries, 'retry', 'retries')}" if usage.retries else ""
    return (
        f"{usage.tokens:,} tokens ({usage.tokens_in:,} in, {usage.tokens_out:,} out), "
        f"{_count(usage.calls, 'call', 'calls')}{cached}{retried}, {_count(usage.searches, 'search', 'searches')}, "
        f"{seconds:.1f} s"
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
