"""`beliefrag prompt`: the words that models are asked with."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="List and show the prompts: the words that models are asked with.", no_args_is_help=True)


@app.command("list")
def list_(prompts: options.Prompts = None, config: options.Config = None, debug: options.Debug = False) -> None:
    """List the prompts with the hashes that runs and calibrations record.

    Example: beliefrag prompt list
    """
    from beliefrag.cli.output import print_table
    from beliefrag.prompts import Prompts
    from beliefrag.settings import load_settings

    settings = load_settings({"prompts": prompts}, config=config).settings
    shipped, used = Prompts.load().hashes(), Prompts.load(settings.prompts).hashes()
    rows = [(name, digest, "ours" if shipped[name] == digest else "replaced") for name, digest in used.items()]
    print_table(("prompt", "hash", "whose"), rows)


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One prompt; all by default.", show_default=False)
    ] = None,
    prompts: options.Prompts = None,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Print a prompt. Saved to a file of the same name, it can be changed and used with --prompts.

    Example: beliefrag prompt show answer > my-prompts/answer.txt
    """
    from beliefrag.cli.output import print_notice, safe_lines
    from beliefrag.prompts import NAMES, Prompts
    from beliefrag.settings import load_settings

    library = Prompts.load(load_settings({"prompts": prompts}, config=config).settings.prompts)
    hashes = library.hashes()
    if name is not None and name not in NAMES:
        raise typer.BadParameter(f"there is no prompt {name!r}; known are {', '.join(NAMES)}", param_hint="NAME")
    if name is not None:
        # The hash goes to standard error, so that the prompt alone can be saved.
        print_notice(f"{name} {hashes[name]}")
        text = library.templates[name]
        typer.echo(safe_lines(text) if sys.stdout.isatty() else text)
        return
    for number, (each, text) in enumerate(library.templates.items()):
        typer.echo(f"{'' if number == 0 else chr(10)}== {each} {hashes[each]}\n{safe_lines(text)}")
