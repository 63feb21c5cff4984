"""`beliefrag ask`: answers a question from documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beliefrag.cli import options
from beliefrag.types import Budget

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from beliefrag.cli.browser_page import DisplayWithPage
    from beliefrag.cli.episode_run import Display
    from beliefrag.engine.assembly import Assembly

__all__ = ["NO_TEXT", "ask", "is_text"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

NO_TEXT = "bytes that are no text in this terminal's encoding"
"""What a question has that `is_text` refuses."""
_BUDGET = "Budget"
_OUTPUT = "Output"
_DEFAULT = Budget()


def _budget_option(help_: str, default: int, *, least: int = 1) -> Any:
    return typer.Option(metavar="N", min=least, help=f"{help_}; {default:,} by default.", rich_help_panel=_BUDGET)


@options.with_option_groups
def ask(
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help="What to answer; without one, a prompt opens for many.", show_default=False
        ),
    ] = None,
    further: options.FurtherPaths = None,
    *,
    documents: options.DocumentOptions,
    search: options.SearchOptions,
    method: options.Method = None,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    risk: options.RiskOptions,
    prompts: options.PromptOptions,
    rounds: Annotated[int | None, _budget_option("Most searches", _DEFAULT.rounds, least=0)] = None,
    top_k: Annotated[int | None, _budget_option("Passages per search", _DEFAULT.top_k)] = None,
    actions: Annotated[int | None, _budget_option("Most actions, the last one included", _DEFAULT.actions)] = None,
    tokens: Annotated[int | None, _budget_option("Most tokens before the final answer", _DEFAULT.tokens)] = None,
    best_guess: Annotated[
        bool,
        typer.Option(
            "--best-guess",
            "--never-abstain",
            metavar="",
            help="Never decline: give the best guess as the answer, however unlikely.",
            rich_help_panel=_BUDGET,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", metavar="", help="Print one JSON object and nothing else.", rich_help_panel=_OUTPUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", metavar="", help="Print the answer alone.", rich_help_panel=_OUTPUT),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every event to this file, as JSON Lines. A file that is there is kept unless --force is given.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", metavar="", help="Overwrite a trace that is there.", rich_help_panel=_OUTPUT),
    ] = False,
    tracing: options.TracingOptions,
    view: Annotated[
        bool,
        typer.Option(
            "--view",
            metavar="",
            help="Show the episode in a browser as it happens. The page stays until Ctrl-C.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    no_open: Annotated[
        bool,
        typer.Option(
            "--no-open",
            metavar="",
            help="With --view: print the address of the page, and open no browser.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Answer a question from documents, searching only as much as it needs.

    Shows what it believes at each step and why it acts, then the answer, how sure it is, why it stopped, its sources
    and what it cost. It declines when the documents do not hold the answer.

    Example: beliefrag ask "Who approves travel?" --docs handbook/

    Without a question it opens a prompt that keeps the model loaded; /help lists its commands.

    Ends with 0 when an answer was given, 3 when it declined, 1 when something failed, 2 when it was asked wrongly.
    """
    import asyncio
    import contextlib
    import os

    from beliefrag.cli.episode_display import choose_display, print_answer, print_failure, print_json
    from beliefrag.cli.episode_run import run_episode
    from beliefrag.cli.exit_codes import exit_code
    from beliefrag.cli.opening import open_assembly
    from beliefrag.cli.trace_file import Trace
    from beliefrag.types import Question

    if question is not None and documents.docs and os.path.exists(question):  # noqa: PTH110 - Path fails on long texts
        # A shell turns `--docs notes/*.md` into one option and further arguments, of which the first is no question.
        further = [Path(question), *(further or ())]
        question = None
    if question is None:
        _check_prompt(**{"--json": as_json, "--trace": trace, "--view": view, "--otel": tracing.otel})
    elif not question.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    elif not is_text(question):
        raise typer.BadParameter(f"it has {NO_TEXT}; ask in UTF-8", param_hint="QUESTION")
    if as_json and quiet:
        raise typer.BadParameter("--json and --quiet exclude each other")
    if no_open and not view:
        raise typer.BadParameter("--no-open needs --view", param_hint="--no-open")
    paths = options.join_docs(documents.docs, further)
    limits = {"rounds": rounds, "top_k": top_k, "actions": actions, "tokens": tokens}
    settings = options.read_settings(
        search,
        model,
        calibration,
        risk,
        prompts,
        config=config,
        method=method,
        **{f"budget.{name}": limit for name, limit in limits.items()},
        **{"thresholds.abstain": False if best_guess else None},
    )
    if question is None:
        from beliefrag.cli.ask_prompt import AskPrompt

        opened = open_assembly(settings, docs=paths, index=documents.index)
        AskPrompt(opened, lambda: choose_display(opened, settings, quiet=quiet)).run()
        return
    # The trace comes first: if it cannot be written, nothing has been paid for yet.
    with (
        Trace(trace, replace=force) if trace else contextlib.nullcontext() as written,
        options.tracing(tracing) as traces,
    ):
        assembly = open_assembly(settings, docs=paths, index=documents.index)
        display = choose_display(assembly, settings, as_json=as_json, quiet=quiet)
        spans = traces.episode() if traces else None
        with _serve_page(display, assembly, no_open=no_open) if view else contextlib.nullcontext() as page:
            watcher = page or display
            result = asyncio.run(run_episode(Question(question), assembly, display=watcher, trace=written, spans=spans))
            if as_json:
                print_json(result)
            elif quiet:
                print_answer(result)
            print_failure(result)
            if page is not None:
                page.wait_for_interrupt()
    if written is not None:
        written.check()
    raise typer.Exit(exit_code(result.outcome))


def is_text(question: str) -> bool:
    """Says whether all bytes of what was typed are text. Python keeps others as halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in question)


def _check_prompt(**given: object) -> None:
    """Refuses to open a prompt where nobody can type, or with an option that belongs to one question."""
    from beliefrag.cli.ask_prompt import is_on_terminal

    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"{name} needs a question", param_hint="QUESTION")
    if not is_on_terminal():
        raise typer.BadParameter("it is missing, and a prompt needs a terminal", param_hint="QUESTION")


def _serve_page(
    display: Display | None, assembly: Assembly, *, no_open: bool
) -> AbstractContextManager[DisplayWithPage]:
    # Only --view needs the viewer.
    from beliefrag.cli.browser_page import serve_live_page

    return serve_live_page(display, assembly, no_open=no_open)
