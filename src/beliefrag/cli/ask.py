"""`beliefrag ask`: answer a question from documents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli.options import Documents, FurtherPaths, GivenSettings, flag, join_paths, with_settings

__all__ = ["NOT_UTF8", "ask", "is_text"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

NOT_UTF8 = "it is not valid in this terminal's encoding; use UTF-8"


@with_settings("model", "base_url", "method", "retriever", "pack", "borrow", "max_error")
def ask(
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="The question; without one, a prompt opens.", show_default=False),
    ] = None,
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    best_guess: Annotated[bool, flag("--best-guess", "Never decline: always give the best guess.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, flag("--quiet", "Print only the answer.", "-q")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every event to this new file, as JSON Lines.")
    ] = None,
    view: Annotated[bool, flag("--view", "Show the steps in a browser too, until Ctrl-C.")] = False,
) -> None:
    """Answer a question from documents, searching only as much as needed.

    Prints each step, then the answer with its evidence, its probability, why it stopped and what it cost. Declines if
    the documents do not hold the answer. Without a question it opens a prompt.

    Example: beliefrag ask "Who approves travel?" --docs handbook/

    Exit code: 0 answered, 3 declined, 1 failed, 2 wrong usage.
    """
    import asyncio
    import contextlib

    from beliefrag.cli.episode_display import choose_display, print_answer, print_failure, print_json
    from beliefrag.cli.episode_run import open_assembly, run_episode
    from beliefrag.cli.output import exit_code
    from beliefrag.cli.trace_file import Trace
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
        written = stack.enter_context(Trace(trace)) if trace else None
        assembly = open_assembly(settings, docs=paths, index=documents.index)
        display = choose_display(assembly, settings, as_json=as_json, quiet=quiet)
        if view:
            from beliefrag.cli.browser_page import serve_live_page

            display = stack.enter_context(serve_live_page(display, assembly))
        result = asyncio.run(run_episode(Question(question), assembly, display=display, trace=written))
        if as_json:
            print_json(result)
        elif quiet:
            print_answer(result)
        print_failure(result)
        if view:
            from beliefrag.cli.browser_page import wait_for_interrupt

            wait_for_interrupt()
    if written is not None:
        written.check()
    raise typer.Exit(exit_code(result.outcome))


def is_text(typed: str) -> bool:
    """Return whether all bytes that were typed are text. Python keeps others as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in typed)


def _check_prompt(**options: object) -> None:
    """Refuse to open a prompt without a terminal, or with an option that belongs to one question."""
    from beliefrag.cli.ask_prompt import is_on_terminal

    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} needs a question", param_hint="QUESTION")
    if not is_on_terminal():
        raise typer.BadParameter("it is missing, and a prompt needs a terminal", param_hint="QUESTION")
