"""Runs one question for a command: shows it, traces it, and closes the model at the end, also after an error."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from beliefrag.cli.trace_file import Trace
from beliefrag.engine import loop
from beliefrag.engine.assembly import Assembly
from beliefrag.events import Event, Finished
from beliefrag.result import Result
from beliefrag.types import Question

if TYPE_CHECKING:
    from beliefrag.integrations.otel import EpisodeSpans

__all__ = ["Display", "run_episode"]


class Display(Protocol):
    """Shows events while it is entered."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Takes in one event."""
        ...


async def run_episode(
    question: Question,
    assembly: Assembly,
    *,
    display: Display | None,
    trace: Trace | None,
    spans: EpisodeSpans | None = None,
    keep_open: bool = False,
) -> Result:
    """Answers a question. Cancelling it, or an error in the display, cancels the model call that is under way.

    Args:
        question: What to answer.
        assembly: The opened model, documents and method.
        display: What shows the events.
        trace: Where they are written.
        spans: What makes OpenTelemetry spans of them.
        keep_open: Leave the model open for the next question.
    """
    seen: list[Event] = []
    began = time.perf_counter()
    stream = loop.run(question, assembly.method, assembly.harness)
    try:
        # The display is left first: the terminal is usable again while the model is still winding down.
        async with contextlib.aclosing(stream):
            with display or contextlib.nullcontext():
                async for event in stream:
                    seen.append(event)
                    if spans is not None:
                        spans.on_event(event)
                    if trace is not None:
                        trace.write(event)
                    if display is not None:
                        display.show(event)
    finally:
        if spans is not None:
            last = seen[-1] if seen else None
            how = last.outcome.name if isinstance(last, Finished) else "cancelled"
            spans.on_end(how, time.perf_counter() - began)
        if not keep_open:
            await assembly.aclose()
    return Result.from_events(seen)
