"""`beliefrag index`: makes an index of documents, or brings one up to date."""

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

from beliefrag.cli import options
from beliefrag.cli.output import is_screen, open_console, print_notice, safe_line

if TYPE_CHECKING:
    from beliefrag.retrieval import IndexProgress, IndexReport, OnProgress
    from beliefrag.retrieval.dense import DenseOptions

__all__ = ["index", "show_index_progress"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_SECONDS_BETWEEN_LINES = 10.0


def index(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Files and folders with documents.", show_default=False)
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder of the index. It is made, or brought up to date."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="ENGINE",
            help="An index on an engine elsewhere, in place of a folder: NAME:key=value,... as for --retriever.",
        ),
    ] = None,
    names: Annotated[
        bool,
        typer.Option(
            "--names/--no-names",
            help="Also make the graph of names, which --retriever linked needs. It takes about as long as the rest.",
        ),
    ] = True,
    vectors: Annotated[
        bool,
        typer.Option(
            "--vectors",
            metavar="",
            help="Also make the vectors, which --retriever dense and hybrid need. It takes about 0.1 s a passage. "
            "An engine elsewhere gets them by its option hybrid=true.",
        ),
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="NAME|FILE",
            help="The embedding model of --vectors in place of all-minilm-l6-v2: gte-small (with the extra "
            "beliefrag[dense]), or a file in GGUF or ONNX format.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="ray or ray:ADDRESS: read, cut, name and embed on the workers of a Ray cluster, which 'ray' starts "
            "here.",
            show_default=False,
        ),
    ] = None,
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Bring an index of an older version up to date, without its documents."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the report as one JSON object.")] = False,
    debug: options.Debug = False,
) -> None:
    """Make an index of documents, so that many questions can use it. Run it again to take in what has changed.

    Reads text, Markdown, HTML, PDF, DOCX, JSON Lines and CSV, and says which files it could not read.

    Example: beliefrag index handbook/ minutes.pdf --out handbook.index
    """
    from beliefrag import index as make_index
    from beliefrag.errors import SettingsError
    from beliefrag.retrieval import upgrade_index
    from beliefrag.retrieval.indexing import index_paths_to
    from beliefrag.settings import load_settings

    if (out is None) == (to is None):
        raise SettingsError("An index needs one place.", remedy="Give either --out DIR or --to ENGINE:key=value,...")
    if weights and not vectors:
        raise SettingsError("--weights makes no vectors by itself.", remedy="Give --vectors too.")
    if to is not None:
        if vectors:
            raise SettingsError(
                "--vectors is for an index in a folder.",
                remedy="Give hybrid=true with --to milvus:..., in place of it.",
            )
        if upgrade or not paths:
            raise SettingsError("There is nothing to index.", remedy="Name files or folders with documents.")
        engines = load_settings({}).settings.retrievers
        with show_index_progress() as progress:
            report = index_paths_to(paths, to, progress=progress, options=engines, on=on)
        _print_report(report, to, as_json=as_json)
        return
    assert out is not None
    if upgrade:
        if paths or on or vectors:
            raise SettingsError(
                "--upgrade reads no documents, and makes no vectors.",
                remedy="Leave the paths, --on and --vectors out, or leave --upgrade out.",
            )
        changed = upgrade_index(out)
        if as_json:
            typer.echo(json.dumps({"index": str(out), "upgraded": changed}))
        else:
            typer.echo(f"{safe_line(str(out))}: {'upgraded' if changed else 'is up to date already'}")
        return
    if not paths:
        raise SettingsError("There is nothing to index.", remedy="Name files or folders with documents.")
    with show_index_progress() as progress:
        report = make_index(
            paths, out, progress=progress, names=names, vectors=_dense_options(weights) if vectors else None, on=on
        )
    _print_report(report, str(out), as_json=as_json)


def _dense_options(weights: str | None) -> DenseOptions:
    """Gives the embedding model that `--retriever dense` would use, or the one that is named."""
    from beliefrag.retrieval import RETRIEVERS
    from beliefrag.retrieval.dense import DenseOptions
    from beliefrag.settings import load_settings

    if weights is not None:
        return DenseOptions(weights)
    chosen = RETRIEVERS.choose("dense", load_settings({}).settings.retrievers).options
    assert isinstance(chosen, DenseOptions)
    return chosen


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
    """Gives the function to call with each step: a bar on a terminal, elsewhere a line every ten seconds.

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
