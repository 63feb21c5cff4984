"""`beliefrag ask`: answer a question from documents."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import (
    Documents,
    FurtherPaths,
    GivenSettings,
    argument,
    flag,
    join_paths,
    option,
    with_settings,
)
from beliefrag.errors import BeliefRAGError, SettingsError

if TYPE_CHECKING:
    from beliefrag.cli.episode import LineDisplay
    from beliefrag.cli.live import LiveDisplay
    from beliefrag.engine.assembly import Assembly
    from beliefrag.events import Event
    from beliefrag.result import Result
    from beliefrag.settings import Settings
    from beliefrag.types import Question

# ruff: noqa: PLC0415 - the help does not wait for what only a command needs

NOT_UTF8 = "it is not valid in this terminal's encoding; use UTF-8"


@with_settings("model", "base_url", "method", "retriever", "pack", "borrow", "max_error")
def ask(
    question: Annotated[str | None, argument("QUESTION", "The question; without one, a prompt opens.")] = None,
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    best_guess: Annotated[bool, flag("--best-guess", "Never decline: always give the best guess.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, flag("--quiet", "Print only the answer.", "-q")] = False,
    trace: Annotated[Path | None, option("FILE", "Write every event to this new file, as JSON Lines.")] = None,
    view: Annotated[bool, flag("--view", "Show the steps in a browser too, until Ctrl-C.")] = False,
) -> None:
    """Answer a question from documents, searching only as much as needed.

    Prints each step, then the answer with its evidence, its probability, why it stopped and what it cost. Declines if
    the documents do not hold the answer. Without a question it opens a prompt.

    Example: beliefrag ask "Who approves travel?" --docs handbook/

    Exit code: 0 answered, 3 declined, 1 failed, 2 wrong usage.
    """
    import asyncio

    from beliefrag.cli.episode import choose_display, exit_code, print_answer, print_failure
    from beliefrag.types import Question

    if question is not None and documents.docs and os.path.exists(question):  # noqa: PTH110 - Path fails on long texts
        # A shell expands `--docs notes/*.md` to one option and arguments, of which the first is not a question.
        further = [Path(question), *(further or ())]
        question = None
    if question is None:
        _check_prompt(**{"--json": as_json, "--trace": trace, "--view": view})
    elif not question.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    elif not is_text(question):
        raise typer.BadParameter(NOT_UTF8, param_hint="QUESTION")
    if as_json and quiet:
        raise typer.BadParameter("--json and --quiet exclude each other")
    paths = join_paths(documents.docs, further)
    never_decline = {"thresholds.abstain": False, "thresholds.decline_below": 0.0} if best_guess else {}
    settings = given.load(**never_decline)
    if question is None:
        from beliefrag.cli.ask_prompt import AskPrompt

        opened = open_assembly(settings, docs=paths, index=documents.index)
        AskPrompt(opened, lambda: choose_display(opened, settings, quiet=quiet)).run()
        return
    with contextlib.ExitStack() as stack:
        # The trace comes first: if it cannot be written, nothing has been paid for yet.
        observers: list[Callable[[Event], object]] = [stack.enter_context(open_trace(trace))] if trace else []
        assembly = open_assembly(settings, docs=paths, index=documents.index)
        if view:
            from beliefrag.cli.pages import serve_live_page, wait_for_interrupt

            observers.append(stack.enter_context(serve_live_page(assembly)))
        display = choose_display(assembly, settings, as_json=as_json, quiet=quiet)
        result = asyncio.run(run_episode(Question(question), assembly, display=display, observers=observers))
        if as_json:
            typer.echo(json_line(result.record()))
        elif quiet:
            print_answer(result)
        print_failure(result)
        if view:
            wait_for_interrupt()
    raise typer.Exit(exit_code(result.outcome))


def is_text(typed: str) -> bool:
    """Return whether all bytes that were typed are text. Python keeps others as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in typed)


def _check_prompt(**options: object) -> None:
    """Refuse to open a prompt without a terminal, or with an option that belongs to one question."""
    import sys

    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} needs a question", param_hint="QUESTION")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("it is missing, and a prompt needs a terminal", param_hint="QUESTION")


def open_assembly(settings: Settings, *, docs: Sequence[Path] | None, index: Path | None) -> Assembly:
    """Open the model, the documents or the index, and warn about documents that could not be read."""
    from beliefrag.cli.output import print_notice, show_index_progress, show_status
    from beliefrag.engine.assembly import assemble

    if docs is None or index is not None:
        with show_status("opening index and model"):
            return assemble(settings, docs=docs, index=index)
    with show_index_progress() as progress:
        assembly = assemble(settings, docs=docs, progress=progress)
    if assembly.report is not None and (skipped := assembly.report.skipped):
        number = f"{len(skipped):,} files were" if len(skipped) > 1 else "1 file was"
        more = " 'beliefrag index' lists all of them." if len(skipped) > 1 else ""
        print_notice(f"warning: {number} left out: {skipped[0].path} {skipped[0].reason}.{more}")
    return assembly


async def run_episode(
    question: Question,
    assembly: Assembly,
    *,
    display: LineDisplay | LiveDisplay | None,
    observers: Sequence[Callable[[Event], object]] = (),
    keep_open: bool = False,
) -> Result:
    """Answer a question. Cancelling it, or an error in the display, cancels the running model call.

    Args:
        question: What to answer.
        assembly: The opened model, documents and method; closed at the end unless `keep_open`.
        display: What shows the events.
        observers: Called with each event.
        keep_open: Leave the model open for the next question.
    """
    from beliefrag.engine import loop
    from beliefrag.result import Result

    seen: list[Event] = []
    stream = loop.run(question, assembly.method, assembly.harness)
    try:
        # The display is left first: the terminal is usable again while the model still ends.
        async with contextlib.aclosing(stream):
            with display or contextlib.nullcontext():
                async for event in stream:
                    seen.append(event)
                    for observe in observers:
                        observe(event)
                    if display is not None:
                        display.show(event)
    finally:
        if not keep_open:
            await assembly.aclose()
    return Result.from_events(seen)


@contextlib.contextmanager
def open_trace(path: Path) -> Iterator[Callable[[Event], None]]:
    """Return what writes events to a new file, a pipe or a device; each is on disk as soon as it happens.

    Raises:
        SettingsError: The file exists already, or cannot be written.
        BeliefRAGError: At the end: some events could not be written. The answer was given all the same.
    """
    from beliefrag.events import as_record

    is_new = not path.exists()
    try:
        file = path.open("xb" if is_new or path.is_file() else "wb")
    except OSError as error:
        problem = "exists already" if isinstance(error, FileExistsError) else f"cannot be written: {error.strerror}"
        raise SettingsError(f"The trace {path} {problem}.", remedy="Name a file in another place.") from error
    lines = 0
    failure: OSError | None = None

    def write(event: Event) -> None:
        nonlocal lines, failure
        if failure is None:
            try:
                file.write(f"{json_line(as_record(event))}\n".encode("ascii"))
                file.flush()
                lines += 1
            except OSError as error:
                failure = error

    try:
        yield write
    finally:
        with contextlib.suppress(OSError):
            file.close()
        if is_new and not lines:
            path.unlink(missing_ok=True)
    if failure is not None:
        raise BeliefRAGError(
            f"The trace {path} ends after {lines} events: {failure.strerror}.",
            remedy="The answer stands; free some space and ask again to get the whole trace.",
        )


def json_line(record: object) -> str:
    """Return a record on one line, in ASCII: exact for programs, and nothing in it can act on a terminal."""
    return json.dumps(record, separators=(",", ":"))
