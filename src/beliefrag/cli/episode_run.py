"""Open what a question needs, and run it: show it, trace it, and close the model at the end, even after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from beliefrag.cli.index import show_index_progress
from beliefrag.cli.output import print_notice, show_status
from beliefrag.cli.trace_file import Trace
from beliefrag.engine import loop
from beliefrag.engine.assembly import Assembly, assemble
from beliefrag.events import Event
from beliefrag.result import Result
from beliefrag.settings import Settings
from beliefrag.types import Question

__all__ = ["Display", "open_assembly", "run_episode"]


def open_assembly(settings: Settings, *, docs: Sequence[Path] | None, index: Path | None) -> Assembly:
    """Open the model, the documents or the index, and warn about documents that could not be read."""
    if docs is None or index is not None:
        with show_status("opening index and model"):
            return assemble(settings, docs=docs, index=index)
    with show_index_progress() as progress:
        assembly = assemble(settings, docs=docs, progress=progress)
    if assembly.report is not None and (skipped := assembly.report.skipped):
        number = f"{len(skipped):,} files were" if len(skipped) > 1 else "1 file was"
        more = " 'beliefrag index' lists all of them." if len(skipped) > 1 else ""
        print_notice(f"warning: {number} left out: {skipped[0].path} {skipped[0].reason}.{more}")
    return assembly


class Display(Protocol):
    """Shows events while it is entered."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Show one event."""
        ...


async def run_episode(
    question: Question,
    assembly: Assembly,
    *,
    display: Display | None,
    trace: Trace | None = None,
    keep_open: bool = False,
) -> Result:
    """Answer a question. Cancelling it, or an error in the display, cancels the running model call.

    Args:
        question: What to answer.
        assembly: The opened model, documents and method.
        display: What shows the events.
        trace: Where they are written.
        keep_open: Leave the model open for the next question.
    """
    seen: list[Event] = []
    stream = loop.run(question, assembly.method, assembly.harness)
    try:
        # The display is left first: the terminal is usable again while the model still ends.
        async with contextlib.aclosing(stream):
            with display or contextlib.nullcontext():
                async for event in stream:
                    seen.append(event)
                    if trace is not None:
                        trace.write(event)
                    if display is not None:
                        display.show(event)
    finally:
        if not keep_open:
            await assembly.aclose()
    return Result.from_events(seen)
