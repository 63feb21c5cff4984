"""What BeliefRAG gives a LangChain chain: a mapping, whole or in pieces that add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from langchain_core.documents import Document
from langchain_core.runnables.utils import AddableDict

from beliefrag.events import Event
from beliefrag.integrations.langchain.documents import document_of
from beliefrag.integrations.outcomes import best_scores, checked, step_of
from beliefrag.result import Result

__all__ = ["Answer", "answer_of", "last_piece", "piece_of"]


class Answer(TypedDict):
    """What the runnable gives."""

    question: str
    outcome: str
    """answered, stopped (the best answer from what there is) or abstained."""
    answer: str | None
    """None exactly when it abstained."""
    answerability: float | None
    """The calibrated probability that the answer is right."""
    reason: str
    sources: list[Document]
    usage: dict[str, Any]
    """Model calls, tokens and searches."""
    steps: list[dict[str, Any]]
    """Each action with its reason."""


def answer_of(result: Result) -> Answer:
    """The whole answer.

    Raises:
        EpisodeFailed: The episode failed.
    """
    scores = best_scores(checked(result))
    return Answer(
        question=result.question.text,
        outcome=result.outcome.name,
        answer=result.answer,
        answerability=result.answerability,
        reason=result.reason,
        sources=[document_of(passage, scores.get(passage.id)) for passage in result.sources],
        usage=result.record()["usage"],
        steps=[step for event in result.events if (step := step_of(event))],
    )


def piece_of(event: Event) -> Answer | None:
    """The part of the answer that is known with this event, if any: a step that was taken."""
    step = step_of(event)
    return _piece(steps=[step]) if step else None


def last_piece(stream: Sequence[Event]) -> Answer:
    """What is known only at the end: everything but the steps.

    Raises:
        EpisodeFailed: The episode failed.
    """
    answer = answer_of(Result.of(stream))
    return _piece(**{key: value for key, value in answer.items() if key != "steps"})


def _piece(**entries: Any) -> Answer:
    # LangChain adds pieces up with +, which plain dictionaries do not have.
    return cast("Answer", AddableDict(entries))
