"""What the bridges share: passages of other libraries, and how an episode ends for a caller there."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from beliefrag.errors import BeliefRAGError, RetrievalError
from beliefrag.explanation import ask_back, describe_reason
from beliefrag.record import Episode, Outcome
from beliefrag.retrieval import IGNORE_SCORES
from beliefrag.retrieval.documents import clean_line, make_storable
from beliefrag.types import Hit, Passage

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
        "standalone": episode.standalone,
        "asks": ask_back(episode),
        "sentences": [sentence.model_dump(mode="json") for sentence in episode.sentences],
        "left_out": episode.left_out,
        "answerability": episode.answerability,
        "calibrated": episode.calibrated,
        "reason": describe_reason(last.reason, last.comparisons),
        "best_guess": episode.best_guess,
        "citations": [] if declined else citations,
        "nearest": citations if declined else [],
        "usage": {"tokens": episode.usage.tokens} | asdict(episode.usage),
        "steps": [
            {
                "step": step.number,
                "action": step.action.value,
                "reason": describe_reason(step.reason, step.comparisons),
                "answerability": step.answerability,
                "tokens": step.tokens,
            }
            for step in episode.steps
        ],
    }


def scored_sources(episode: Episode) -> list[tuple[Passage, float | None]]:
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
    """A retriever of another library as one of ours. Its scores are ignored: their scale is unknown."""

    library: ClassVar[str]
    score_scale = IGNORE_SCORES

    def __init__(self, source: object, identity: str | None) -> None:
        self._name = type(source).__name__
        self.identity = identity

    @abstractmethod
    def _find(self, query: str, k: int) -> list[Passage]: ...

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k passages in the library's order, each with the reciprocal of its rank."""
        found: dict[str, Passage] = {}
        try:
            for passage in self._find(query, k):
                found.setdefault(passage.id, passage)
        except Exception as error:
            raise RetrievalError(
                f"The search with {self.library}'s {self._name} failed, {type(error).__name__}: {error}.",
                remedy="Check the retriever.",
            ) from error
        kept = list(found.values())[: max(k, 0)]
        return [Hit(passage, 1.0 / rank) for rank, passage in enumerate(kept, start=1)]


def _first_text(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((value for key in keys if isinstance(value := metadata.get(key), str) and value.strip()), "")
