"""All commands in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from beliefrag._version import __version__
from beliefrag.cli import bench, cache, calibrate, config, data, model, prompt, serve
from beliefrag.cli.ask import ask
from beliefrag.cli.ask_page import ask_page
from beliefrag.cli.command_group import CommandGroup, RootGroup
from beliefrag.cli.demo import demo
from beliefrag.cli.doctor import doctor
from beliefrag.cli.index import index
from beliefrag.cli.options import Debug
from beliefrag.cli.root_help import ABOUT, OPTIONS
from beliefrag.cli.study import study
from beliefrag.cli.tune import tune
from beliefrag.cli.view import view

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
app.command()(ask)
app.command("app")(ask_page)
app.command()(demo)
app.command()(index)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(calibrate.app, name="calibrate")
app.command()(tune)
app.command()(study)
app.add_typer(serve.app, name="serve")
app.command()(view)
app.add_typer(cache.app, name="cache")
app.add_typer(model.app, name="model")
app.command()(doctor)
app.add_typer(config.app, name="config")
app.add_typer(prompt.app, name="prompt")


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
