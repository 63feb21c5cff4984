"""Opens everything that a question needs, showing how far the reading of documents has come."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from beliefrag.assembly import Assembly, assemble
from beliefrag.cli.index_progress import watching
from beliefrag.cli.notices import say
from beliefrag.cli.terminal import is_screen, open_console
from beliefrag.paths import cache_dir
from beliefrag.retrieval import IndexReport, docs_index
from beliefrag.settings import Settings
from beliefrag.types import Hit

__all__ = ["busy", "open_for_question"]


def open_for_question(settings: Settings, *, docs: Sequence[Path] | None, index: Path | None) -> Assembly:
    """Opens model, documents or index, and all the rest, as the settings say.

    Documents that could not be read are told of: whoever reads the answer should know what it does not rest on.
    """
    if docs is None or index is not None:
        with busy("opening index and model"):
            return assemble(settings, docs=docs, index=index)
    with busy("opening the model"):
        # Once without the documents: a wrong setting is told before they are read, which may take a while.
        asyncio.run(assemble(settings, retriever=_Nothing()).model.aclose())
    with watching() as progress:
        found, report = docs_index(docs, cache_dir(), progress=progress)
    _tell(report)
    return assemble(settings, retriever=found)


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


class _Nothing:
    """Documents that hold nothing."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        return ()
