"""An episode as plain lines: one per event that matters, without control codes. For pipes, files and logs."""

from __future__ import annotations

from typing import TextIO

from beliefrag import events
from beliefrag.cli.safe import shown
from beliefrag.cli.wording import Row, belief_items, effect, summary

__all__ = ["LineDisplay"]


class LineDisplay:
    """Writes each event as it happens.

    Args:
        stream: Where to.
        calibration: Which calibration makes the probabilities, in words.
        threshold: The answerability from which an answer is given.
    """

    def __init__(self, stream: TextIO, *, calibration: str, threshold: float) -> None:
        self._stream = stream
        self._calibration = calibration
        self._threshold = threshold
        self._titles: dict[str, str] = {}
        self._seen: list[events.Event] = []

    def __enter__(self) -> LineDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, event: events.Event) -> None:
        """Writes the event, if it matters to a reader."""
        self._seen.append(event)
        match event:
            case events.Started():
                self._line("question", event.question.text)
                self._line("model", event.model)
                self._line("calibration", self._calibration)
            case events.Decided():
                self._decided(event)
            case events.Finished():
                for row in summary(event.outcome, self._seen):
                    for value in row.values:
                        self._line(row.heading.removesuffix("s") if len(row.values) > 1 else row.heading, value)
            case events.Retrieved() | events.Rewritten() | events.Pruned():
                if isinstance(event, events.Retrieved):
                    self._titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
                self._line(f"step {event.step + 1}", _joined(effect(event, self._titles)))

    def _decided(self, event: events.Decided) -> None:
        numbers = [f"{name} {value:.2f}" for name, value in belief_items(event.belief)] if event.belief else []
        if event.answerability is not None:
            numbers.append(f"answerability {event.answerability:.2f} (answers from {self._threshold:.2f})")
        numbers.append(f"{event.tokens:,} tokens")
        self._line(f"step {event.step + 1}", f"{event.decision.action}: {event.decision.reason}; {', '.join(numbers)}")

    def _line(self, heading: str, value: str) -> None:
        self._stream.write(f"{heading}: {shown(value)}\n")
        self._stream.flush()


def _joined(rows: list[Row]) -> str:
    return "; ".join(f"{row.heading} {', '.join(row.values)}" for row in rows)
