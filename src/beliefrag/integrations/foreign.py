"""What the bridges share: passages and scores of other libraries, and how an episode ends for a caller there.

Relevance needs to know which score is a good match (location mu_s and scale tau_s). Our own index measures that on its
passages. A foreign retriever cannot be asked for its passages, and a cosine of 0.7 is excellent with one embedding and
meaningless with another. So unless the scale of the scores is given or measured, scores do not count: relevance stays
at one half, where it moves the belief in reliability neither up nor down.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.events import Decided, Event, Retrieved
from beliefrag.outcome import Failed
from beliefrag.policy import ScoreScale
from beliefrag.result import Result
from beliefrag.retrieval import Retriever
from beliefrag.retrieval.documents import clean_line, make_storable
from beliefrag.types import Hit, Passage

__all__ = [
    "EpisodeFailed",
    "ScoredPassage",
    "best_scores",
    "foreign_passage",
    "measured_scale",
    "passage_metadata",
    "raise_if_failed",
    "step_summaries",
    "step_summary",
    "to_hits",
]

ScoredPassage = tuple[Passage, float | None]
"""A passage with the score that its library gave, if any."""


class EpisodeFailed(BeliefRAGError):
    """An episode failed. That is neither an answer nor an abstention, so a chain must not take it for one.

    Args:
        outcome: How it ended, with what it had cost by then.
    """

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.error, remedy=outcome.remedy)
        self.outcome = outcome
        self.cause = outcome.cause


def raise_if_failed(result: Result) -> Result:
    """Gives the result back, unless it is a failure.

    Raises:
        EpisodeFailed: The episode failed.
    """
    if isinstance(result.outcome, Failed):
        raise EpisodeFailed(result.outcome)
    return result


def best_scores(result: Result) -> Mapping[str, float]:
    """Gives the best score at which each passage was found, by id."""
    scores: dict[str, float] = {}
    for event in result.events:
        if isinstance(event, Retrieved):
            for hit in event.hits:
                scores[hit.passage.id] = max(hit.score, scores.get(hit.passage.id, hit.score))
    return scores


def step_summary(event: Event) -> dict[str, Any] | None:
    """Gives one decision as plain data; None for other events."""
    if not isinstance(event, Decided):
        return None
    return {
        "step": event.step,
        "action": event.decision.action.value,
        "reason": event.decision.reason,
        "answerability": event.answerability,
        "tokens": event.tokens,
    }


def step_summaries(result: Result) -> list[dict[str, Any]]:
    """Gives all decisions of an episode as plain data."""
    return [step for event in result.events if (step := step_summary(event))]


def foreign_passage(
    text: str,
    metadata: Mapping[str, Any],
    *,
    identifier: str | None,
    title_keys: Sequence[str],
    source_keys: Sequence[str],
) -> Passage:
    """Makes a passage from another library's document.

    Ids decide which passages are retained already and which were dropped for good. A text without an id therefore gets
    the hash of its content, so that it has the same id in every search.

    Args:
        text: What it says.
        metadata: What else its library keeps; only title and source are used.
        identifier: Its id, where it has one.
        title_keys: The metadata entries that may hold a title, the best first.
        source_keys: The metadata entries that may hold the source, the best first.
    """
    title = clean_line(_first_text(metadata, title_keys))
    body = make_storable(text)
    if not identifier:
        identifier = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:32]
    return Passage(make_storable(identifier), title, body, clean_line(_first_text(metadata, source_keys)))


def passage_metadata(passage: Passage, score: float | None = None) -> dict[str, Any]:
    """Gives the metadata that another library's document carries beside the text."""
    metadata: dict[str, Any] = {"id": passage.id, "title": passage.title, "source": passage.source}
    if passage.place:
        metadata["place"] = passage.place
    return metadata if score is None else metadata | {"score": score}


def to_hits(found: Iterable[ScoredPassage], k: int, *, scores_needed: bool) -> list[Hit]:
    """Gives at most k hits, in the library's order. If a score is missing, all get the reciprocal of their rank.

    Args:
        found: What the library returned, best first.
        k: How many are wanted.
        scores_needed: Whether a scale for the scores was given, so that ranks cannot replace them.

    Raises:
        RetrievalError: A score is missing where it is needed, or is not a finite number.
    """
    first: dict[str, ScoredPassage] = {}
    for passage, score in found:
        first.setdefault(passage.id, (passage, score))
    kept = list(first.values())[: max(k, 0)]
    scores = [score for _, score in kept if score is not None]
    if any(not math.isfinite(score) for score in scores):
        raise RetrievalError("The retriever gave a score that is not a finite number.", remedy="Correct the retriever.")
    if len(scores) == len(kept):
        return [Hit(passage, score) for (passage, _), score in zip(kept, scores, strict=True)]
    if scores_needed:
        raise RetrievalError(
            "The retriever gave no score for a passage, but a scale for its scores is set.",
            remedy="Leave the scale out, so that ranks are used instead of scores.",
        )
    return [Hit(passage, 1.0 / rank) for rank, (passage, _) in enumerate(kept, start=1)]


def measured_scale(retriever: Retriever, queries: Sequence[str], *, k: int = 5) -> ScoreScale:
    """Measures the scale of a retriever's scores on questions like those that it will get; a few dozen are enough.

    Args:
        retriever: Any retriever that gives scores.
        queries: The questions; no answers are needed.
        k: How many passages of each to look at, as many as an episode takes per search.

    Raises:
        SettingsError: There is too little to measure, or all scores are the same.
        RetrievalError: A search failed.
    """
    scores = [hit.score for query in queries for hit in retriever.search(query, k)]
    spread = statistics.pstdev(scores) if len(scores) > 1 else 0.0
    if spread == 0.0:
        raise SettingsError(
            f"{len(queries)} queries gave {len(scores)} scores with no spread, which makes no scale.",
            remedy="Give more queries, or leave the scale out.",
        )
    return ScoreScale(statistics.fmean(scores), spread)


def _first_text(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((value for key in keys if isinstance(value := metadata.get(key), str) and value.strip()), "")
