"""The result of a question: its outcome, and the events that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from beliefrag import events
from beliefrag.events import Event
from beliefrag.outcome import Abstained, Answered, Failed, Outcome, Stopped
from beliefrag.types import Belief, Citation, Passage, Question, Usage

__all__ = ["Result", "step_outlines", "step_records"]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one question with its events."""

    question: Question
    outcome: Outcome
    events: tuple[Event, ...]

    @classmethod
    def from_events(cls, stream: Sequence[Event]) -> Result:
        """Builds the result from a complete stream."""
        first, last = stream[0], stream[-1]
        if not (isinstance(first, events.Started) and isinstance(last, events.Finished)):
            raise ValueError("a complete stream runs from Started to Finished")
        return cls(first.question, last.outcome, tuple(stream))

    @property
    def answer(self) -> str | None:
        """The answer; None when the system declined or failed."""
        return self.outcome.answer if isinstance(self.outcome, Answered | Stopped) else None

    @property
    def answerability(self) -> float | None:
        """The calibrated probability that the answer is right."""
        return self.outcome.answerability

    @property
    def belief(self) -> Belief | None:
        """The six beliefs at the end."""
        return self.outcome.belief

    @property
    def reason(self) -> str:
        """Why it ended as it did."""
        return self.outcome.reason

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sentences that the answer rests on, in the order of the argument."""
        return self.outcome.citations

    @property
    def nearest(self) -> tuple[Citation, ...]:
        """Where it declined: the sentences that came nearest to an answer."""
        return self.outcome.nearest if isinstance(self.outcome, Abstained) else ()

    @property
    def best_guess(self) -> str | None:
        """Where it declined: what the answer would have been, if that is known."""
        return self.outcome.best_guess if isinstance(self.outcome, Abstained) else None

    @property
    def sources(self) -> tuple[Passage, ...]:
        """The passages that were read for the answer; `citations` has the sentences that it rests on."""
        return self.outcome.sources

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return self.outcome.usage

    def __str__(self) -> str:
        """Gives the answer, how likely it is right, and why it ended so."""
        sure = "" if self.answerability is None else f", answerability {self.answerability:.2f}"
        return f"{self.answer or '(no answer)'} ({self.outcome.name}{sure}: {self.reason})"

    def record(self) -> dict[str, Any]:
        """Gives the result as plain data: what `beliefrag ask --json` prints."""
        outcome = self.outcome
        cited = {citation.passage_id for citation in outcome.citations}
        record: dict[str, Any] = {
            "question": self.question.text,
            "outcome": outcome.name,
            "answer": self.answer,
            "answerability": outcome.answerability,
            "belief": asdict(outcome.belief) if outcome.belief else None,
            "reason": outcome.reason,
            "citations": [asdict(citation) for citation in outcome.citations],
            "sources": [asdict(passage) | {"cited": passage.id in cited} for passage in outcome.sources],
            "steps": step_records(self.events),
            "usage": events.usage_record(outcome.usage),
            "made_with": self._collect_made_with(),
        }
        if isinstance(outcome, Abstained):
            record["best_guess"] = outcome.best_guess
            record["nearest"] = [asdict(citation) for citation in outcome.nearest]
        if isinstance(outcome, Failed):
            record["error"] = {"cause": outcome.cause, "message": outcome.error, "remedy": outcome.remedy}
        return record

    def _collect_made_with(self) -> dict[str, str]:
        started = self.events[0]
        assert isinstance(started, events.Started)
        return {"model": started.model, "method": started.method, "verifier": started.verifier, **started.made_with}


def step_records(stream: Sequence[Event]) -> list[dict[str, Any]]:
    """Gives one record per action: what was decided on which numbers, and what it changed."""
    steps: list[dict[str, Any]] = []
    for event in stream:
        if isinstance(event, events.Decided):
            plain = events.as_record(event)
            decision = plain["decision"]
            steps.append(
                {
                    "step": event.step,
                    "action": decision["action"],
                    "branch": decision["branch"],
                    "reason": decision["reason"],
                    "comparisons": decision["comparisons"],
                    "legal": decision["legal"],
                    "diagnostics": plain["diagnostics"],
                    "belief": plain["belief"],
                    "answerability": event.answerability,
                    "retrieval_value": event.retrieval_value,
                    "tokens": event.tokens,
                    "flagged": list(event.observation.unhelpful) if event.observation else [],
                    "attempt": plain["attempt"],
                }
            )
        elif isinstance(event, events.Retrieved):
            steps[-1] |= {"query": event.query, "added": list(event.added), "known": list(event.known)}
            steps[-1] |= {"refused": list(event.refused), "evidence": list(event.evidence)}
        elif isinstance(event, events.Pruned):
            dropped = [mutation.passage_id for mutation in event.mutations]
            steps[-1] |= {"dropped": dropped, "evidence": list(event.evidence)}
        else:
            _note_change(steps, event)
    return steps


def step_outlines(stream: Sequence[Event]) -> list[dict[str, Any]]:
    """Gives one short record per action, without the numbers: a server makes them for each answer."""
    steps: list[dict[str, Any]] = []
    for event in stream:
        if isinstance(event, events.Decided):
            decision = event.decision
            steps.append(
                {
                    "step": event.step,
                    "action": decision.action.value,
                    "branch": decision.branch,
                    "reason": decision.reason,
                    "answerability": event.answerability,
                    "query": None,
                }
            )
        elif isinstance(event, events.Retrieved):
            steps[-1] |= {"query": event.query, "evidence": list(event.evidence)}
        elif isinstance(event, events.Pruned):
            steps[-1]["evidence"] = list(event.evidence)
        else:
            _note_change(steps, event)
    return steps


def _note_change(steps: list[dict[str, Any]], event: Event) -> None:
    """Notes in the last step what a new query or the end of the episode has changed."""
    if isinstance(event, events.Rewritten):
        steps[-1] |= {"query": event.after, "evidence": list(event.evidence)}
    elif isinstance(event, events.Finished) and steps:
        steps[-1].setdefault("evidence", [passage.id for passage in event.outcome.sources])
