"""`beliefrag demo`: answers a question about the bundled corpus and shows each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import GivenSettings, Yes, flag, with_settings

if TYPE_CHECKING:
    from beliefrag.demo import DemoQuestion
    from beliefrag.result import Result

__all__ = ["demo"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


@with_settings("model", "base_url", "method")
def demo(
    *,
    question: Annotated[
        int, typer.Option("--question", metavar="N", min=1, help="Which question; --list shows them.")
    ] = 1,
    list_: Annotated[bool, flag("--list", "List the questions and end.")] = False,
    yes: Yes = False,
    given: GivenSettings,
) -> None:
    """Answer a question about a small bundled corpus, with a model on this machine.

    Downloads the default model once, after asking. At the end it prints the expected answer, which the method never
    sees.

    Example: beliefrag demo --question 5
    """
    import asyncio

    from beliefrag.cli.ask import run_episode
    from beliefrag.cli.episode import choose_display, exit_code, print_failure
    from beliefrag.cli.model import ensure_weights
    from beliefrag.cli.output import show_status
    from beliefrag.demo import load_passages, load_questions
    from beliefrag.engine.assembly import assemble

    questions = load_questions()
    if list_:
        _print_questions(questions)
        return
    if question > len(questions):
        raise typer.BadParameter(f"there are {len(questions)} questions", param_hint="--question")
    settings = given.load()
    ensure_weights(settings.model, agreed=yes)
    chosen = questions[question - 1]
    with show_status("opening corpus and model"):
        assembly = assemble(settings, passages=load_passages())
    display = choose_display(assembly, settings)
    result = asyncio.run(run_episode(chosen.to_question(), assembly, display=display))
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
