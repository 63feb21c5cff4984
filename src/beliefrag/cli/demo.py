"""`beliefrag demo`: answers a question about the bundled corpus and shows each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options

if TYPE_CHECKING:
    from beliefrag.demo import DemoQuestion
    from beliefrag.result import Result

__all__ = ["demo"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


@options.with_option_groups
def demo(
    *,
    question: Annotated[
        int, typer.Option("--question", metavar="N", min=1, help="Which question; --list shows them.")
    ] = 1,
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the questions and end.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", metavar="", help="Download the model's weights without asking.")
    ] = False,
    method: options.Method = None,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Answer a question about a small bundled corpus, with a model on this machine.

    The default model is downloaded once, after asking. The expected answer is shown beside the given one at the end;
    whatever answers the question never sees it.

    Example: beliefrag demo --question 5
    """
    import asyncio

    from beliefrag.cli.episode_display import choose_display, print_failure
    from beliefrag.cli.episode_run import run_episode
    from beliefrag.cli.exit_codes import exit_code
    from beliefrag.cli.output import show_status
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.demo import load_passages, load_questions
    from beliefrag.engine.assembly import assemble

    questions = load_questions()
    if list_:
        _print_questions(questions)
        return
    if question > len(questions):
        raise typer.BadParameter(f"there are {len(questions)} questions", param_hint="--question")
    settings = options.read_settings(model, calibration, prompts, config=config, method=method)
    ensure_weights(settings.model, agreed=yes)
    chosen = questions[question - 1]
    with show_status("opening corpus and model"):
        assembly = assemble(settings, passages=load_passages())
    display = choose_display(assembly, settings)
    result = asyncio.run(run_episode(chosen.to_question(), assembly, display=display, trace=None))
    _print_comparison(chosen, result)
    print_failure(result)
    raise typer.Exit(exit_code(result.outcome))


def _print_questions(questions: list[DemoQuestion]) -> None:
    from beliefrag.cli.output import print_table

    rows = [(str(number), each.kind, each.question) for number, each in enumerate(questions, start=1)]
    print_table(("n", "kind", "question"), rows)


def _print_comparison(question: DemoQuestion, result: Result) -> None:
    from beliefrag.cli.output import safe_line

    given = result.answer if result.answer is not None else f"no answer ({result.outcome.name})"
    expected = " or ".join(question.answers) or "no answer: the corpus does not say"
    typer.echo(
        f"\ngiven       {safe_line(given)}\nexpected    {safe_line(expected)}\nnote        {safe_line(question.note)}"
    )
