"""Scores of foreign retrievers: ranks where there are none, and where they lie, as far as anybody can know.

Relevance needs to know which score is a good match (mu_s and tau_s of SPEC 2). Our own index measures that on its
passages. A foreign retriever cannot be asked for its passages, and a cosine of 0.7 is excellent with one embedding and
noise with the next. So unless somebody says or measures it, scores have no say: relevance stays at one half, which is
where it moves the belief in reliability neither up nor down.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import Retriever
from beliefrag.types import Hit, Passage

__all__ = ["UNKNOWN_SCALE", "Scored", "hits_of", "measured_scale"]

UNKNOWN_SCALE = ScoreScale(location=0.0, scale=1e9)
"""So wide that every score of any engine lies in its middle, at one half."""

Scored = tuple[Passage, float | None]
"""A passage with the score that its library gave, if any."""


def hits_of(found: Iterable[Scored], k: int, *, scores_needed: bool) -> list[Hit]:
    """At most k hits, in the order of the library. Where one has no score, all get the reciprocal of their rank.

    Args:
        found: What the library returned, best first.
        k: How many are wanted.
        scores_needed: Somebody said where the scores lie, so ranks cannot stand in for them.

    Raises:
        RetrievalError: A score is missing where it is needed, or is no number.
    """
    first: dict[str, Scored] = {}
    for passage, score in found:
        first.setdefault(passage.id, (passage, score))
    kept = list(first.values())[: max(k, 0)]
    scores = [score for _, score in kept if score is not None]
    if any(not math.isfinite(score) for score in scores):
        raise RetrievalError("The retriever gave a score that is no finite number.", remedy="Mend the retriever.")
    if len(scores) == len(kept):
        return [Hit(passage, score) for (passage, _), score in zip(kept, scores, strict=True)]
    if scores_needed:
        raise RetrievalError(
            "The retriever gave no score for a passage, but a scale for its scores is set.",
            remedy="Leave the scale out, and ranks stand in for scores.",
        )
    return [Hit(passage, 1.0 / rank) for rank, (passage, _) in enumerate(kept, start=1)]


def measured_scale(retriever: Retriever, queries: Sequence[str], *, k: int = 5) -> ScoreScale:
    """Where a retriever's scores lie, measured on questions of the kind that it will be asked; a few dozen will do.

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
