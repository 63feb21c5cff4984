"""`beliefrag index`: makes an index of documents, or brings one up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options

if TYPE_CHECKING:
    from beliefrag.retrieval import IndexReport

__all__ = ["index"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


def index(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files and folders with documents.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The index, made or brought up to date.")],
    debug: options.Debug = False,
) -> None:
    """Make an index of documents, for many questions to the same ones. Run it again to take in what changed.

    Reads text, Markdown, HTML, PDF, DOCX, JSON Lines and CSV, and says which files it could not read.

    Example: beliefrag index handbook/ minutes.pdf --out handbook.index
    """
    from beliefrag.cli.index_progress import watching
    from beliefrag.retrieval import index_paths

    with watching() as progress:
        report = index_paths(paths, out, progress=progress)
    _print(report, out)


def _print(report: IndexReport, out: Path) -> None:
    from beliefrag.cli.safe import shown

    changed = f"{report.files_read:,} read, {report.files_unchanged:,} unchanged, {report.files_removed:,} removed"
    passages = f"{report.passages_total:,} ({report.passages_added:,} added, {report.passages_removed:,} removed)"
    rows = [("index", str(out)), ("files", changed), ("passages", passages), ("fingerprint", report.fingerprint)]
    rows += [("seconds", f"{report.seconds:.1f}"), ("skipped", f"{len(report.skipped):,}")]
    for heading, value in rows:
        typer.echo(f"{heading:<12} {shown(value)}")
    for skipped in report.skipped:
        typer.echo(f"  {shown(skipped.path)}: {shown(skipped.reason)}")
