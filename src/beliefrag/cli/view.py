"""`beliefrag view`: a run or a trace as pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import FurtherPaths, NoOpen, Port
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.web.view import RunSource, TraceSource

__all__ = ["view"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


def view(
    path: Annotated[
        Path,
        typer.Argument(metavar="RUN|TRACE", help="The folder of a run, or a trace file.", show_default=False),
    ],
    further: FurtherPaths = None,
    *,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="DIR...",
            help="The run's datasets, or a folder of datasets: for questions, gold answers and passages.",
            envvar="BELIEFRAG_DATA",
            show_default=False,
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own questions that the run asked, if they lie elsewhere by now; needs --docs.",
            show_default=False,
        ),
    ] = None,
    docs: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH...", help="The documents that the run answered from; needs --questions.", show_default=False
        ),
    ] = None,
    port: Port = 0,
    no_open: NoOpen = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write one episode as a single HTML file, and end. A file that is there is kept."
        ),
    ] = None,
    episode: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Which episode of a run to export: the number in its page's address."),
    ] = None,
) -> None:
    """Look at a run or a trace in a browser: numbers, episodes, and each decision with what it rests on.

    The page is served on this machine alone, and works offline.

    Example: beliefrag view runs/first --data data
    """
    from beliefrag.bench.own_questions import OwnDocuments
    from beliefrag.cli.browser_page import open_address, wait_for_interrupt
    from beliefrag.cli.output import show_status
    from beliefrag.web.view import RunSource, ViewServer, open_source

    if episode is not None and export is None:
        raise typer.BadParameter("it is only for --export: give --export too", param_hint="--episode")
    if further and not (data or docs):
        raise typer.BadParameter(f"{str(further[0])!r} is unexpected", param_hint="RUN|TRACE")
    if (questions is None) != (not docs):
        raise SettingsError("--questions and --docs go together, and one is missing.", remedy="Give both or neither.")
    more = further or []
    # Values after the first one belong to the option that takes several.
    own = OwnDocuments(questions, (*(docs or ()), *more)) if questions is not None else None
    with show_status("reading"):
        source = open_source(path, data or () if own else [*(data or ()), *more], own)
    if export is not None:
        try:
            if isinstance(source, RunSource) and episode is None:
                raise typer.BadParameter("a run has many episodes; name one with --episode", param_hint="--export")
            _export(source, episode or 0, export)
        finally:
            source.close()
        return
    with ViewServer(source, port) as server:
        open_address("view", server.address, server.address_once, no_open=no_open)
        wait_for_interrupt()


def _export(source: RunSource | TraceSource, number: int, file: Path) -> None:
    from beliefrag.web.view import export_page

    page = export_page(source.episode(number), source.prompts(number))
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(page)
    except FileExistsError:
        raise SettingsError(f"The file {file} is there already.", remedy="Name another one.") from None
