"""The program with all its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from beliefrag._version import __version__
from beliefrag.cli.command_group import CommandGroup, RootGroup
from beliefrag.cli.options import Debug
from beliefrag.cli.root_help import ABOUT, OPTIONS

__all__ = ["app"]

app = CommandGroup(
    cls=RootGroup,
    help=ABOUT,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"beliefrag {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help=OPTIONS["--version"]),
    ] = False,
    debug: Debug = False,
) -> None: ...
