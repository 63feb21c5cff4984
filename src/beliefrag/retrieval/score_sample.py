"""Where the scores of a retriever lie, measured on the passages themselves.

Raw scores grow with the corpus and the query, so the same number is a good match in one corpus and a poor one in
another. A user has no questions for their own documents, but has the passages: ten words of one sentence ask for it
about as a question does, and the scores of such a search, the passage itself included, lie where those of a real search
lie. docs/results/score_scale.md compares the two. The same corpus always gives the same scale.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from beliefrag.policy import ScoreScale
from beliefrag.retrieval.chunk import split_sentences
from beliefrag.types import Hit, Passage

__all__ = ["SAMPLE_PASSAGES", "MeasuresScores", "make_question", "measure_score_scale"]

SAMPLE_PASSAGES = 100
"""How many passages are asked for."""
_WORDS = 10
_SENTENCE = 5
"""Words that a sentence must have to be asked for."""
_HITS = 5


@runtime_checkable
class MeasuresScores(Protocol):
    """A retriever whose scores depend on corpus and query, so that real questions tell where they lie."""

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measures where the first scores of searches with these questions lie."""
        ...


def measure_score_scale(search: Callable[[str, int], Sequence[Hit]], questions: Iterable[str]) -> ScoreScale:
    """Measures where the first scores of searches with these questions lie."""
    scores = [hit.score for question in questions for hit in search(question, _HITS)]
    if len(scores) < 2:
        return ScoreScale(location=1.0, scale=1.0)
    return ScoreScale(statistics.fmean(scores), max(statistics.pstdev(scores), 0.1))


def make_question(passage: Passage) -> str:
    """Gives ten words of one sentence of the passage, in order; the passage is the seed, so the run plays no part."""
    draw = random.Random(passage.id)  # noqa: S311
    sentences = [sentence.split() for sentence in split_sentences(passage.text)]
    words = draw.choice([each for each in sentences if len(each) >= _SENTENCE] or [passage.text.split()])
    kept = sorted(draw.sample(range(len(words)), min(_WORDS, len(words))))
    return " ".join(words[place] for place in kept)
