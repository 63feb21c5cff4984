"""Opens everything that a question needs, showing how far the reading of documents has come."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from beliefrag.cli.index_progress import watching
from beliefrag.cli.notices import say
from beliefrag.cli.terminal import is_screen, open_console
from beliefrag.engine.assembly import Assembly, assemble
from beliefrag.retrieval import IndexReport
from beliefrag.settings import Settings

__all__ = ["busy", "open_for_question"]


def open_for_question(settings: Settings, *, docs: Sequence[Path] | None, index: Path | None) -> Assembly:
    """Opens model, documents or index, and all the rest, as the settings say.

    Documents that could not be read are told of: whoever reads the answer should know what it does not rest on.
    """
    if docs is None or index is not None:
        with busy("opening index and model"):
            return assemble(settings, docs=docs, index=index)
    with watching() as progress:
        assembly = assemble(settings, docs=docs, progress=progress)
    if assembly.report is not None:
        _tell(assembly.report)
    return assembly


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Says on a terminal that something takes a while."""
    if not is_screen(sys.stderr):
        yield
        return
    with open_console(sys.stderr).status(what):
        yield


def _tell(report: IndexReport) -> None:
    if report.skipped:
        first = report.skipped[0]
        number = f"{len(report.skipped):,} files were" if len(report.skipped) > 1 else "1 file was"
        more = " 'beliefrag index' lists all of them." if len(report.skipped) > 1 else ""
        say(f"warning: {number} left out: {first.path} {first.reason}.{more}")
