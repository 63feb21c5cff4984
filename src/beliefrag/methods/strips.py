"""Cuts passages into strips (sentences) and keeps those that bear on a question, by their words alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from beliefrag.retrieval.bm25 import query_terms
from beliefrag.retrieval.documents import split_sentences
from beliefrag.types import Passage


def keep_best_strips(question: str, passages: Sequence[Passage], most: int) -> tuple[Passage, ...]:
    """Keep the best strips of the passages, up to a limit over all; a passage without one is left out.

    A strip counts by the words that it shares with the question and with the titles of the other passages, rare words
    more: a question of several steps is answered by sentences that name what another passage is about. The first
    strip of a passage says what it is about, so its title counts as part of it. Of equal strips the earlier one is
    kept. Where there are no more strips than are wanted, the passages stay whole.

    Args:
        question: What is asked.
        passages: The passages to cut.
        most: The most strips.
    """
    cut = [list(split_sentences(passage.text)) or [passage.text] for passage in passages]
    if sum(map(len, cut)) <= most:
        return tuple(passages)
    titles = [set(query_terms(passage.title)) for passage in passages]
    strips = [
        (place, position, set(query_terms(text)) | (titles[place] if position == 0 else set()))
        for place, texts in enumerate(cut)
        for position, text in enumerate(texts)
    ]
    seen_in = Counter(word for _, _, words in strips for word in words)
    asked = set(query_terms(question))

    def weigh(place: int, words: set[str]) -> float:
        others = set().union(*(title for other, title in enumerate(titles) if other != place))
        return sum(math.log(1 + len(strips) / seen_in[word]) for word in words & (asked | (others - titles[place])))

    ranked = sorted(strips, key=lambda strip: (-weigh(strip[0], strip[2]), strip[1], strip[0]))
    kept = {(place, position) for place, position, _ in ranked[:most]}
    shown = (
        replace(passage, text=" ".join(text for position, text in enumerate(texts) if (place, position) in kept))
        for place, (passage, texts) in enumerate(zip(passages, cut, strict=True))
    )
    return tuple(passage for passage in shown if passage.text)
