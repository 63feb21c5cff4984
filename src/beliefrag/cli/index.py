"""`beliefrag index`: build or update an index of documents."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import beliefrag
from beliefrag.cli.options import GivenSettings, Json, argument, option, with_settings
from beliefrag.cli.output import print_facts, safe_line, show_index_progress
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.retrieval import IndexReport


@with_settings()
def index(
    paths: Annotated[list[Path] | None, argument("PATH", "Files and folders with documents.")] = None,
    *,
    out: Annotated[Path | None, option("DIR", "The folder of the index.", "--out")] = None,
    to: Annotated[str | None, option("ENGINE", "A search engine: NAME:key=value,...", "--to")] = None,
    on: Annotated[str | None, option("PLACE", "'ray' or 'ray:ADDRESS': read on a Ray cluster.", "--on")] = None,
    as_json: Json = False,
    given: GivenSettings,
) -> None:
    """Build an index of documents so that many questions can use it. Run it again to update the index.

    Example: beliefrag index handbook/ minutes.pdf --out handbook.index
    """
    from beliefrag.retrieval.engines.filling import index_paths_to

    if (out is None) == (to is None):
        raise SettingsError("An index needs one place.", remedy="Give either --out DIR or --to ENGINE:key=value,...")
    if not paths:
        raise SettingsError("There is nothing to index.", remedy="Name files or folders with documents.")
    settings = given.read()
    with show_index_progress() as progress:
        if to is not None:
            report = index_paths_to(
                paths, to, progress=progress, options=settings.retrievers, on=on, reading=settings.reading
            )
        else:
            assert out is not None
            report = beliefrag.index(paths, out, progress=progress, on=on, reading=settings.reading)
    _print_report(report, str(out or to), as_json=as_json)


def _print_report(report: IndexReport, out: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"index": out, **asdict(report)}, default=str))
        return
    changed = f"{report.files_read:,} read, {report.files_unchanged:,} unchanged, {report.files_removed:,} removed"
    passages = f"{report.passages_total:,} ({report.passages_added:,} added, {report.passages_removed:,} removed)"
    facts = [("index", out), ("files", changed), ("passages", passages), ("fingerprint", report.fingerprint)]
    print_facts([*facts, ("seconds", f"{report.seconds:.1f}"), ("skipped", f"{len(report.skipped):,}")])
    for skipped in report.skipped:
        typer.echo(f"  {safe_line(skipped.path)}: {safe_line(skipped.reason)}")
