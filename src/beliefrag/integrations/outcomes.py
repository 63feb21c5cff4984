"""How an episode ends for a caller who expects a value or an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beliefrag.errors import BeliefRAGError
from beliefrag.events import Decided, Event, Retrieved
from beliefrag.outcome import Failed
from beliefrag.result import Result

__all__ = ["EpisodeFailed", "best_scores", "checked", "step_of"]


class EpisodeFailed(BeliefRAGError):
    """An episode broke off. It is neither an answer nor an abstention, so chains must not take it for one.

    Args:
        outcome: How it ended, with what had been paid by then.
    """

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.error, remedy=outcome.remedy)
        self.outcome = outcome
        self.cause = outcome.cause


def checked(result: Result) -> Result:
    """The result, unless it is a failure.

    Raises:
        EpisodeFailed: The episode failed.
    """
    if isinstance(result.outcome, Failed):
        raise EpisodeFailed(result.outcome)
    return result


def best_scores(result: Result) -> Mapping[str, float]:
    """The best score at which each passage was found, by id."""
    scores: dict[str, float] = {}
    for event in result.events:
        if isinstance(event, Retrieved):
            for hit in event.hits:
                scores[hit.passage.id] = max(hit.score, scores.get(hit.passage.id, hit.score))
    return scores


def step_of(event: Event) -> dict[str, Any] | None:
    """One line about a decision, for whoever watches; None for other events."""
    if not isinstance(event, Decided):
        return None
    return {
        "step": event.step,
        "action": event.decision.action.value,
        "reason": event.decision.reason,
        "answerability": event.answerability,
        "tokens": event.tokens,
    }
