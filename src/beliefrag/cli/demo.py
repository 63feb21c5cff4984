"""`beliefrag demo`: answer a question about the bundled corpus and show each step."""

from __future__ import annotations

from typing import Annotated

import typer

from beliefrag.cli.options import GivenSettings, Yes, flag, option, with_settings
from beliefrag.cli.output import print_facts, print_table, show_status


@with_settings("model", "base_url", "method")
def demo(
    *,
    question: Annotated[int, option("N", "Which question; --list shows them.", min=1)] = 1,
    list_: Annotated[bool, flag("--list", "List the questions and end.")] = False,
    yes: Yes = False,
    given: GivenSettings,
) -> None:
    """Answer a question about a small bundled corpus, with a model on this machine.

    Example: beliefrag demo --question 5
    """
    import asyncio

    from beliefrag.cli.ask import choose_display, exit_code, print_failure, run_episode
    from beliefrag.cli.model import ensure_weights
    from beliefrag.demo import load_passages, load_questions
    from beliefrag.opening import assemble

    questions = load_questions()
    if list_:
        rows = [(str(number), each.kind, each.question) for number, each in enumerate(questions, start=1)]
        print_table(("n", "kind", "question"), rows)
        return
    if question > len(questions):
        raise typer.BadParameter(f"there are {len(questions)} questions", param_hint="--question")
    settings = given.load()
    ensure_weights(settings.model, agreed=yes)
    chosen = questions[question - 1]
    with show_status("opening corpus and model"):
        assembly = assemble(settings, passages=load_passages())
    display = choose_display(assembly, steps=True)
    episode = asyncio.run(run_episode(chosen.to_question(), assembly, display=display))
    answer = episode.answer if episode.answer is not None else f"no answer ({episode.outcome})"
    expected = " or ".join(chosen.answers) or "no answer: the corpus does not say"
    typer.echo()
    print_facts([("given", answer), ("expected", expected), ("note", chosen.note)])
    print_failure(episode)
    raise typer.Exit(exit_code(episode))
