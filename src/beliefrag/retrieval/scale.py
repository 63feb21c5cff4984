"""Where a corpus's BM25 scores lie, measured on the corpus itself (mu_s and tau_s of SPEC 2).

Raw scores grow with the corpus and the query, so the same number is a good match in one place and a poor one in
another. Nobody has labelled questions for their own documents; what there is are the passages. A dozen words drawn
from a passage make a query about as long as a question, and the scores of the *other* passages for it show how high
unrelated text of this corpus scores. On the six question sets of our data these scales lie near those of the real
questions (docs/architecture.md).
"""

from __future__ import annotations

import random
import statistics

from beliefrag.policy import ScoreScale
from beliefrag.retrieval.engine import Bm25Index

__all__ = ["score_scale"]

_PASSAGES = 100
_WORDS = 12
_NEIGHBOURS = 5


def score_scale(index: Bm25Index) -> ScoreScale:
    """The location and scale of an index's scores. The same for the same corpus, always."""
    scores: list[float] = []
    for passage in index.first(_PASSAGES):
        words = passage.text.split()
        # Seeded by the passage, so that neither the order of the corpus nor the run plays a part.
        query = " ".join(random.Random(passage.id).sample(words, min(_WORDS, len(words))))  # noqa: S311
        hits = index.search(query, _NEIGHBOURS + 1)
        scores += [hit.score for hit in hits if hit.passage.id != passage.id][:_NEIGHBOURS]
    if len(scores) < 2:
        return ScoreScale(location=1.0, scale=1.0)
    return ScoreScale(statistics.fmean(scores), max(statistics.pstdev(scores), 0.1))
