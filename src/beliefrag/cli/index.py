"""`beliefrag index`: build or update an index of documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import beliefrag
from beliefrag.cli.options import GivenSettings, Json, argument, flag, option, with_settings
from beliefrag.cli.output import print_facts, print_notice, safe_line, show_index_progress
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
    watch: Annotated[bool, flag("--watch", "Keep the index up to date until Ctrl-C.")] = False,
    as_json: Json = False,
    given: GivenSettings,
) -> None:
    """Build an index of documents so that many questions can use it. Run it again to update the index.

    Example: beliefrag index handbook/ minutes.pdf --out handbook.index
    """
    from beliefrag.retrieval.engines.filling import index_paths_to

    if (out is None) == (to is None):
        raise SettingsError(
            "An index needs one destination.", remedy="Give either --out DIR or --to ENGINE:key=value,..."
        )
    if not paths:
        raise SettingsError("No documents to index.", remedy="Name files or folders with documents.")
    settings, documents = given.read(), paths

    def update() -> IndexReport:
        with show_index_progress() as progress:
            if to is not None:
                kept = settings.retrievers
                return index_paths_to(documents, to, progress=progress, options=kept, on=on, reading=settings.reading)
            assert out is not None
            return beliefrag.index(documents, out, progress=progress, on=on, reading=settings.reading)

    _print_report(update(), str(out or to), as_json=as_json)
    if watch:
        _keep_updated(paths, update, str(out or to), as_json=as_json)


def _keep_updated(paths: list[Path], update: Callable[[], IndexReport], out: str, *, as_json: bool) -> None:
    """Update the index whenever the documents change, and report each change."""
    from beliefrag.errors import CorpusError
    from beliefrag.retrieval.watching import watch_paths

    for _ in watch_paths(paths):
        try:
            report = update()
        except CorpusError as error:
            print_notice(f"warning: {error.message} {error.remedy}")
            continue
        if report.passages_added or report.passages_removed:
            _print_report(report, out, as_json=as_json)


def _print_report(report: IndexReport, out: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"index": out, **asdict(report)}, default=str))
        return
    changed = f"{report.files_read:,} read, {report.files_unchanged:,} unchanged, {report.files_removed:,} removed"
    passages = f"{report.passages_total:,} ({report.passages_added:,} added, {report.passages_removed:,} removed)"
    languages = ", ".join(f"{name} {count:,}" for name, count in sorted(report.languages.items()))
    facts = [
        ("index", out),
        ("files", changed),
        ("passages", passages),
        ("languages", languages),
        ("fingerprint", report.fingerprint),
    ]
    print_facts([*facts, ("seconds", f"{report.seconds:.1f}"), ("skipped", f"{len(report.skipped):,}")])
    for skipped in report.skipped:
        typer.echo(f"  {safe_line(skipped.path)}: {safe_line(skipped.reason)}")
