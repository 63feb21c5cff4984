"""`beliefrag ask`: answer a question from documents, and print the answer with its quotes; with --steps, all of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import typer

from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, argument, flag, join_paths, option, with_settings
from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.explanation import (
    ACTION_WORDS,
    BELIEF_WORDS,
    DECLINED,
    Explanation,
    ask_back,
    describe_belief,
    describe_confidence,
    describe_left_out,
    describe_reason,
    explain_episode,
)
from beliefrag.feedback import FEEDBACK, find_correction
from beliefrag.record import AnswerText, CallStarted, Episode, Outcome, Progress, Step, to_json_line
from beliefrag.types import Citation, CitationRole, Passage, Question, Turn, Usage

if TYPE_CHECKING:
    from beliefrag.cli.live import LiveDisplay
    from beliefrag.opening import Assembly
    from beliefrag.settings import Settings

_SKIPPED_SHOWN = 5
MARGIN = 4
NOT_UTF8 = "it is not valid in this terminal's encoding; use UTF-8"


class Line(NamedTuple):
    """A line of what is printed; an empty one separates parts."""

    text: str = ""
    style: str = ""
    mark: str = ""
    """What the margin holds, such as the number of a quote."""

    def __str__(self) -> str:
        return (f"{self.mark:<{MARGIN}}" if self.mark else "") + output.safe_line(self.text)


_WAITING = {
    "verifier": "asking the model what the evidence is worth",
    "query_writer": "asking the model for the next query",
    "rewriter": "asking the model for another query",
    "answer": "asking the model for the answer",
    "read": "asking the model for an answer",
    "write": "asking the model to write the answer",
    "gather": "asking the model what some more passages add",
    "standalone": "asking the model what the question refers to",
}


@with_settings("model", "base_url", "method", "retriever", "borrow", "max_error", "answer_style")
def ask(
    question: Annotated[str | None, argument("QUESTION", "The question; without one, a prompt opens.")] = None,
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    best_guess: Annotated[bool, flag("--best-guess", "Never decline: always give the best guess.")] = False,
    steps: Annotated[bool, flag("--steps", "Show each step with its reason and beliefs, and why it stopped.")] = False,
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
    if as_json + quiet + steps > 1:
        raise typer.BadParameter("use only one of --json, --quiet and --steps")
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
        AskPrompt(opened, lambda: choose_display(opened, quiet=quiet, steps=steps), paths).run()
        return
    with contextlib.ExitStack() as stack:
        # The trace comes first: if it cannot be written, nothing has been paid for yet.
        observers: list[Callable[[Progress], object]] = [stack.enter_context(open_trace(trace))] if trace else []
        assembly = open_assembly(settings, docs=paths, index=documents.index, where=documents.where)
        display = choose_display(assembly, as_json=as_json, quiet=quiet, steps=steps)
        episode = asyncio.run(run_episode(Question(question), assembly, display=display, observers=observers))
        if as_json:
            sys.stdout.write(to_json_line(episode))
        elif quiet:
            print_answer(episode)
        print_failure(episode)
        print_notes(episode, assembly)
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
        raise typer.BadParameter("it is required where there is no terminal for a prompt", param_hint="QUESTION")


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
        number = f"{len(skipped):,} problems" if len(skipped) > 1 else "1 problem"
        named = "; ".join(f"{each.path} {each.reason}" for each in skipped[:_SKIPPED_SHOWN])
        more = " 'beliefrag index' lists all of them." if len(skipped) > _SKIPPED_SHOWN else ""
        output.print_notice(f"warning: {number} with the documents: {named}.{more}")
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
        raise SettingsError(f"The trace {path} {problem}.", remedy="Name another file.") from error

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


def print_notes(episode: Episode, assembly: Assembly) -> None:
    """Print that an answer was marked wrong before, and unread files that a declined question seems to be about."""
    from beliefrag.retrieval.indexing import find_unread

    if correction := find_correction(FEEDBACK, episode):
        output.print_notice(f"note: {correction}")
    if episode.outcome is Outcome.ABSTAINED and assembly.report:
        for each in find_unread(episode.question.text, assembly.report.skipped):
            output.print_notice(f"note: the question may be about {each.path}, which was not read: it {each.reason}.")


def choose_display(
    assembly: Assembly, *, as_json: bool = False, quiet: bool = False, steps: bool = False
) -> LineDisplay | LiveDisplay | None:
    """Return a live display on a terminal, plain lines elsewhere, and None with --quiet.

    With --json, standard output is left to the JSON; a person at a terminal still sees what is being waited for.
    """
    if quiet:
        return None
    stream = sys.stderr if as_json else sys.stdout
    if output.is_screen(stream):
        # Only a terminal needs rich.
        from beliefrag.cli.live import LiveDisplay

        console, calibration = output.open_console(stream), describe_calibration(assembly)
        return LiveDisplay(console, calibration=calibration, steps=steps, record=not as_json)
    return None if as_json else LineDisplay(stream, calibration=describe_calibration(assembly), steps=steps)


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
    """Write plain lines without control codes, for pipes, files and logs; while it waits, to standard error."""

    def __init__(self, stream: TextIO, *, calibration: str, steps: bool = False) -> None:
        self._stream = stream
        self._calibration = calibration
        self._steps = steps
        self._titles: dict[str, str] = {}
        self._waiting_for = "working"
        super().__init__(lambda seconds: output.print_notice(f"{self._waiting_for}, {seconds:.0f} s"))

    def show(self, progress: Progress) -> None:
        """Write what matters to a reader."""
        match progress:
            case CallStarted():
                self._waiting_for = describe_wait(progress.purpose)
                self.note()
            case Step():
                self._waiting_for = "working"
                self._titles |= {name: passage.title for name, passage in progress.passages.items()}
                if self._steps:
                    self._print(*step_lines(progress, self._titles))
            case Episode(outcome=None):
                self._print(*begin_lines(progress, self._calibration, steps=self._steps))
            case Episode():
                self._print(*end_lines(progress, steps=self._steps))

    def _print(self, *lines: Line) -> None:
        self.reset()
        self._stream.writelines(f"{line}\n" for line in lines)
        self._stream.flush()


def describe_wait(purpose: str) -> str:
    """Return what a model call is for."""
    return _WAITING.get(purpose, f"asking the model ({purpose.replace('_', ' ')})")


def step_lines(step: Step, titles: Mapping[str, str]) -> Iterator[Line]:
    """Yield the action of a step with its reason, what is believed, and what changed; `titles` is by passage."""
    action = f"{ACTION_WORDS[step.action]}: {describe_reason(step.reason, step.comparisons)}"
    yield Line(action, "bold", mark=f"{step.number + 1}.")
    if believed := describe_belief(step.belief, step.answerability):
        yield Line(believed, "dim", mark=" ")
    numbers = {**(asdict(step.belief) if step.belief else {}), "answerability": step.answerability}
    if known := [f"{BELIEF_WORDS[name]} {value:.2f}" for name, value in numbers.items() if value is not None]:
        yield Line(", ".join(known), "dim", mark=" ")
    for change in _describe_changes(step, titles):
        yield Line(change, mark=" ")


def _describe_changes(step: Step, titles: Mapping[str, str]) -> Iterator[str]:
    """Describe what a step changed: the query and what it found, the new query, or the passages dropped."""
    from beliefrag.engine.calls import SUFFICIENT

    if (search := step.search) is not None and search.query is None:
        yield "query: none, because nothing is missing or left to search for, or the token budget is spent"
    elif search is not None:
        parts = [f"{len(search.added)} new{_list_titles(search.added, titles)}"] if search.hits else ["nothing"]
        parts += [f"{len(search.known)} known"] if search.known else []
        parts += [f"{len(search.refused)} dropped earlier"] if search.refused else []
        yield from (f"query: {search.query}", f"found: {', '.join(parts)}")
    elif (query := step.rewritten) is not None:
        yield f"query: {'none, because nothing is missing or left to search for' if query == SUFFICIENT else query}"
    elif (dropped := step.dropped) is not None:
        named = f"{len(dropped)}{_list_titles(dropped, titles)}" if dropped else "none"
        yield f"dropped: {named}, {len(step.evidence)} kept"


def _list_titles(ids: Iterable[str], titles: Mapping[str, str]) -> str:
    named = "; ".join(dict.fromkeys(titles.get(each) or each for each in ids))
    return f" ({named})" if named else ""


def begin_lines(episode: Episode, calibration: str, *, steps: bool) -> Iterator[Line]:
    """Yield how a follow-up is understood; with `steps`, the question, the model and its calibration."""
    if steps:
        yield Line(f"question: {episode.question.text}", "bold")
    if episode.standalone:
        yield Line(f"Understood as: {episode.standalone}", "dim")
    if steps:
        yield Line(f"model: {episode.model}", "dim")
        yield Line(f"calibration: {calibration}", "dim")


def end_lines(episode: Episode, *, steps: bool) -> Iterator[Line]:
    """Yield how an episode ended: the answer, its probability, the quotes, the cost; with `steps`, why it ended so."""
    cost = Line(_describe_cost(episode.usage, episode.seconds, in_detail=steps), "dim")
    if steps:
        yield Line()
    if episode.outcome is Outcome.FAILED:
        # The error with its remedy follows on standard error.
        yield from (Line("Failed.", "bold"), cost)
        return
    likely = describe_confidence(episode)
    if episode.answer is None:
        yield Line(ask_back(episode) or DECLINED, "bold")
    else:
        yield Line(_cite_sentences(episode), "bold")
        fits = " ('beliefrag calibrate auto' fits it to your documents)" if episode.calibrated is False else ""
        yield Line(f"{likely[:1].upper()}{likely[1:]}{fits}")
    yield from (*map(Line, explain_end(episode).notes), Line())
    yield from quote_lines(episode)
    if episode.best_guess:
        yield from (Line(f"Best guess: {episode.best_guess} ({likely})"), Line())
    if steps:
        yield from (*read_lines(episode), *why_lines(episode), Line())
    yield cost


def quote_lines(episode: Episode) -> Iterator[Line]:
    """Yield the sentences that the answer rests on, or the nearest ones, each with its place."""
    cited = episode.citations
    if cited and (episode.answer is None or cited[-1].role is CitationRole.RELATED):
        yield Line("Nearest quotes:")
    for number, citation in enumerate(cited, start=1):
        yield Line(f"\u201c{' '.join(citation.quote.split())}\u201d", mark=f"[{number}]")
        yield Line(_describe_place(citation), "dim", mark=" ")
    if cited:
        yield Line()


def read_lines(episode: Episode) -> Iterator[Line]:
    """Yield what else was read."""
    cited = {citation.passage_id for citation in episode.citations}
    if read := "; ".join(_describe_sources(each for each in episode.read_passages if each.id not in cited)):
        yield Line(f"{'Also read' if cited else 'Read'}: {read}.")
    elif not cited:
        yield Line("Nothing was read.")


def why_lines(episode: Episode) -> Iterator[Line]:
    """Yield why an episode searched and stopped, and what would change its end."""
    explained = explain_end(episode)
    yield Line(f"Searched {explained.searched}.")
    yield Line(f"Stopped: {explained.stopped.rstrip('.')}.")
    yield Line(f"What would change it: {explained.would_change.rstrip('.')}.")


def explain_end(episode: Episode) -> Explanation:
    """Explain an episode to a person who can ask again with other options."""
    from beliefrag.answering.citing import find_uncovered
    from beliefrag.answering.counting import asks_for_all

    uncovered = find_uncovered(episode.asked, episode.read_passages)
    return explain_episode(episode, uncovered, name_options=True, whole=asks_for_all(episode.asked))


def _cite_sentences(episode: Episode) -> str:
    """Return the answer; where it has sentences and several quotes, each sentence with the numbers of its quotes."""
    if not episode.sentences or len(episode.citations) < 2:
        return episode.answer or ""
    numbered = ((each.text, "".join(f"[{cited + 1}]" for cited in each.cites)) for each in episode.sentences)
    return " ".join(f"{text} {numbers}".strip() for text, numbers in numbered)


def _describe_place(citation: Citation) -> str:
    where = _relative_path(citation.source)
    place = ", ".join(part for part in (where, citation.place) if part)
    named = citation.title if citation.title not in where else ""
    return " \u00b7 ".join(part for part in (named, place) if part) or citation.passage_id


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


def _describe_cost(usage: Usage, seconds: float, *, in_detail: bool) -> str:
    detail = f" ({usage.tokens_in:,} in, {usage.tokens_out:,} out)" if in_detail else ""
    recorded = f" ({usage.cached_calls} recorded earlier)" if usage.cached_calls else ""
    retried = f", {_count(usage.retries, 'retry', 'retries')}" if usage.retries else ""
    calls, searches = _count(usage.calls, "model call", "model calls"), _count(usage.searches, "search", "searches")
    return f"{usage.tokens:,} tokens{detail}, {calls}{recorded}{retried}, {searches}, {seconds:.1f} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
