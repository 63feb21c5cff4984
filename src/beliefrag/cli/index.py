"""`beliefrag index`: build or update an index of documents."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import GivenSettings, Json, flag, with_settings
from beliefrag.cli.output import is_screen, open_console, print_notice, safe_line

if TYPE_CHECKING:
    from beliefrag.retrieval import IndexProgress, IndexReport, OnProgress

__all__ = ["index", "show_index_progress"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

_SECONDS_BETWEEN_LINES = 10.0


@with_settings()
def index(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files and folders with documents.", show_default=False),
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The folder of the index.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ENGINE", help="A search engine instead of a folder: NAME:key=value,..."),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Build the graph of names for --retriever linked.")
    ] = True,
    vectors: Annotated[
        bool, flag("--vectors", "Build vectors for --retriever dense and hybrid; about 0.1 s a passage.")
    ] = False,
    on: Annotated[
        str | None, typer.Option("--on", metavar="PLACE", help="'ray' or 'ray:ADDRESS': read on a Ray cluster.")
    ] = None,
    upgrade: Annotated[bool, flag("--upgrade", "Add the graph of names to an index, without its documents.")] = False,
    as_json: Json = False,
    given: GivenSettings,
) -> None:
    """Build an index of documents, so that many questions can use it. Run it again to update the index.

    Reads text, Markdown, HTML, PDF, DOCX, JSON Lines and CSV, and lists the files that it could not read.

    Example: beliefrag index handbook/ minutes.pdf --out handbook.index
    """
    from beliefrag import index as make_index
    from beliefrag.errors import SettingsError
    from beliefrag.retrieval import RETRIEVERS, upgrade_index
    from beliefrag.retrieval.engines.filling import index_paths_to
    from beliefrag.settings import load_settings

    if (out is None) == (to is None):
        raise SettingsError("An index needs one place.", remedy="Give either --out DIR or --to ENGINE:key=value,...")
    if upgrade and (paths or on or vectors or to):
        raise SettingsError("--upgrade only needs --out.", remedy="Leave the other options and the paths out.")
    if not (paths or upgrade):
        raise SettingsError("There is nothing to index.", remedy="Name files or folders with documents.")
    if upgrade:
        assert out is not None
        changed = upgrade_index(out)
        words = f"{safe_line(str(out))}: {'upgraded' if changed else 'is up to date already'}"
        typer.echo(json.dumps({"index": str(out), "upgraded": changed}) if as_json else words)
        return
    assert paths is not None
    options = load_settings(given.values, config=given.config).settings.retrievers
    with show_index_progress() as progress:
        if to is not None:
            if vectors:
                raise SettingsError(
                    "--vectors is for an index in a folder.", remedy="Leave --vectors out, or give --out DIR."
                )
            report = index_paths_to(paths, to, progress=progress, options=options, on=on)
        else:
            assert out is not None
            dense = RETRIEVERS.choose("dense", options).options if vectors else None
            report = make_index(paths, out, progress=progress, names=names, vectors=dense, on=on)
    _print_report(report, str(out or to), as_json=as_json)


def _print_report(report: IndexReport, out: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"index": out, **asdict(report)}, default=str))
        return
    changed = f"{report.files_read:,} read, {report.files_unchanged:,} unchanged, {report.files_removed:,} removed"
    passages = f"{report.passages_total:,} ({report.passages_added:,} added, {report.passages_removed:,} removed)"
    rows = [("index", out), ("files", changed), ("passages", passages), ("fingerprint", report.fingerprint)]
    if report.vectors:
        rows.append(("vectors", report.vectors))
    rows += [("seconds", f"{report.seconds:.1f}"), ("skipped", f"{len(report.skipped):,}")]
    for heading, value in rows:
        typer.echo(f"{heading:<12} {safe_line(value)}")
    for skipped in report.skipped:
        typer.echo(f"  {safe_line(skipped.path)}: {safe_line(skipped.reason)}")


@contextmanager
def show_index_progress() -> Iterator[OnProgress]:
    """Return the function to call with each step: a bar on a terminal, elsewhere a line every ten seconds.

    All of it goes to standard error; standard output is left to the report.
    """
    if not is_screen(sys.stderr):
        yield _ProgressLines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("indexing", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[passages]:,} passages{task.fields[vectors]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=open_console(sys.stderr), transient=True) as progress:
        task = progress.add_task("indexing", total=None, passages=0, vectors="")
        yield lambda at: progress.update(
            task, total=at.files_total, completed=at.files_done, passages=at.passages, vectors=_say_vectors(at)
        )


def _say_vectors(at: IndexProgress) -> str:
    return f", {at.vectors:,} vectors" if at.vectors else ""


class _ProgressLines:
    def __init__(self) -> None:
        self._last_line_at = time.monotonic()

    def __call__(self, at: IndexProgress) -> None:
        if time.monotonic() - self._last_line_at >= _SECONDS_BETWEEN_LINES:
            self._last_line_at = time.monotonic()
            print_notice(
                f"indexing: {at.files_done:,} of {at.files_total:,} files, {at.passages:,} passages{_say_vectors(at)}"
            )
