"""`beliefrag prompt`: the words that models are asked with."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from beliefrag.cli.options import GivenSettings, with_settings

__all__ = ["prompt"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


@with_settings("prompts")
def prompt(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The prompt to print.", show_default=False)] = None,
    *,
    given: GivenSettings,
) -> None:
    """List the prompts with the hashes that runs record, or print one.

    Save a prompt to a file of the same name, edit it, and use it with --set prompts=DIR.

    Example: beliefrag prompt answer > my-prompts/answer.txt
    """
    from beliefrag.cli.output import print_notice, print_table, safe_lines
    from beliefrag.prompts import NAMES, Prompts
    from beliefrag.settings import load_settings

    library = Prompts.load(load_settings(given.values, config=given.config).settings.prompts)
    hashes = library.hashes()
    if name is None:
        shipped = Prompts.load().hashes()
        rows = [(each, digest, "ours" if shipped[each] == digest else "replaced") for each, digest in hashes.items()]
        print_table(("prompt", "hash", "whose"), rows)
        return
    if name not in NAMES:
        raise typer.BadParameter(f"there is no prompt {name!r}; known: {', '.join(NAMES)}", param_hint="NAME")
    # The hash goes to standard error, so that the prompt alone can be saved.
    print_notice(f"{name} {hashes[name]}")
    text = library.templates[name]
    typer.echo(safe_lines(text) if sys.stdout.isatty() else text)
