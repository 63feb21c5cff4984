"""Opens what a question needs, and shows how far the reading of documents has come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beliefrag.cli.index import show_index_progress
from beliefrag.cli.output import print_notice, show_status
from beliefrag.engine.assembly import Assembly, assemble
from beliefrag.retrieval import IndexReport
from beliefrag.settings import Settings

__all__ = ["open_assembly"]


def open_assembly(settings: Settings, *, docs: Sequence[Path] | None, index: Path | None) -> Assembly:
    """Opens the model, the documents or the index, and all the rest, as the settings say.

    Warns about documents that could not be read: the reader of an answer should know what it does not rest on.
    """
    if docs is None or index is not None:
        with show_status("opening index and model"):
            return assemble(settings, docs=docs, index=index)
    with show_index_progress() as progress:
        assembly = assemble(settings, docs=docs, progress=progress)
    if assembly.report is not None:
        _warn_of_skipped(assembly.report)
    return assembly


def _warn_of_skipped(report: IndexReport) -> None:
    if report.skipped:
        first = report.skipped[0]
        number = f"{len(report.skipped):,} files were" if len(report.skipped) > 1 else "1 file was"
        more = " 'beliefrag index' lists all of them." if len(report.skipped) > 1 else ""
        print_notice(f"warning: {number} left out: {first.path} {first.reason}.{more}")
