"""What the bridges share: passages and scores of other libraries, and how an episode ends for a caller there.

Relevance needs to know which score is a good match. Our own index measures that on its passages; the scores of a
foreign retriever mean nothing until their scale is given or measured. Without one, relevance stays at one half.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.explanation import describe_reason
from beliefrag.policy import ScoreScale
from beliefrag.record import Episode, Outcome, Step
from beliefrag.retrieval import Retriever
from beliefrag.retrieval.documents import clean_line, make_storable
from beliefrag.types import Hit, Passage

ScoredPassage = tuple[Passage, float | None]
"""A passage with the score that its library gave, if any."""
_SOURCE_KEYS = ("source", "url", "file_path")


class EpisodeFailed(BeliefRAGError):
    """An episode failed. That is neither an answer nor an abstention, so a chain must not take it for one."""

    def __init__(self, episode: Episode) -> None:
        assert episode.error is not None
        super().__init__(episode.error.message, remedy=episode.error.remedy)
        self.episode = episode
        """With what it had cost by then."""
        self.cause = episode.error.cause


def describe_answer(episode: Episode) -> dict[str, Any]:
    """Return how an episode ended as plain data."""
    if episode.error is not None:
        raise EpisodeFailed(episode)
    citations = [asdict(citation) for citation in episode.citations]
    declined = episode.outcome is Outcome.ABSTAINED
    last = episode.steps[-1]
    return {
        "outcome": str(episode.outcome),
        "answerability": episode.answerability,
        "reason": describe_reason(last.reason, last.comparisons),
        "best_guess": episode.best_guess,
        "citations": [] if declined else citations,
        "nearest": citations if declined else [],
        "usage": {"tokens": episode.usage.tokens} | asdict(episode.usage),
        "steps": [describe_step(step) for step in episode.steps],
    }


def describe_step(step: Step) -> dict[str, Any]:
    """Return one decision as plain data."""
    return {
        "step": step.number,
        "action": step.action.value,
        "reason": describe_reason(step.reason, step.comparisons),
        "answerability": step.answerability,
        "tokens": step.tokens,
    }


def scored_sources(episode: Episode) -> list[ScoredPassage]:
    """Return the passages that were read, each with the best score at which it was found."""
    scores: dict[str, float] = {}
    for step in episode.steps:
        for identifier, score in step.search.hits if step.search else ():
            scores[identifier] = max(score, scores.get(identifier, score))
    return [(passage, scores.get(passage.id)) for passage in episode.read_passages]


def foreign_passage(
    text: str, metadata: Mapping[str, Any], identifier: str | None, title_keys: Sequence[str]
) -> Passage:
    """Return a passage made from another library's document, with the first title and source that its metadata has.

    Ids decide which passages are retained and which were dropped for good. A text without one gets the hash of its
    content, which is the same in every search.
    """
    title = clean_line(_first_text(metadata, title_keys))
    body = make_storable(text)
    if not identifier:
        identifier = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:32]
    return Passage(make_storable(identifier), title, body, clean_line(_first_text(metadata, _SOURCE_KEYS)))


def passage_metadata(passage: Passage, score: float | None = None) -> dict[str, Any]:
    """Return the metadata that another library's document carries beside the text."""
    metadata: dict[str, Any] = {"id": passage.id, "title": passage.title, "source": passage.source}
    if passage.place:
        metadata["place"] = passage.place
    return metadata if score is None else metadata | {"score": score}


class ForeignRetriever(ABC):
    """A retriever of another library as one of ours."""

    library: ClassVar[str]

    def __init__(self, source: object, scale: ScoreScale | None, identity: str | None) -> None:
        self._name = type(source).__name__
        self.score_scale = scale
        self.identity = identity

    @abstractmethod
    def _find(self, query: str, k: int) -> Iterable[ScoredPassage]: ...

    def _remedy(self, error: Exception) -> str:
        return "Check the retriever."

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k passages, in the library's order."""
        try:
            return to_hits(self._find(query, k), k, scores_needed=self.score_scale is not None)
        except BeliefRAGError:
            raise
        except Exception as error:
            raise RetrievalError(
                f"The search with {self.library}'s {self._name} failed, {type(error).__name__}: {error}.",
                remedy=self._remedy(error),
            ) from error


def to_hits(found: Iterable[ScoredPassage], k: int, *, scores_needed: bool) -> list[Hit]:
    """Return at most k hits, in the library's order. If a score is missing, all get the reciprocal of their rank."""
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
            remedy="Leave the scale out so that ranks are used instead of scores.",
        )
    return [Hit(passage, 1.0 / rank) for rank, (passage, _) in enumerate(kept, start=1)]


def measured_scale(retriever: Retriever, queries: Sequence[str], *, k: int = 5) -> ScoreScale:
    """Measure the scale of a retriever's scores on questions like those that it will get; a few dozen are enough."""
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
