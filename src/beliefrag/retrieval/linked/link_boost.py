"""Raises what likely passages lead to, in documents with headings and links.

The ranker was fitted on an encyclopedia, where a passage that is needed as the second step shares words with the
question. In a manual it often shares none: the question asks for the default of a setting that only the first passage
names. So each likely passage hands a part of its probability on to where its links lead: most of it along links whose
surroundings say what the question says, and to passages that add to what is said. Passages without headings and links,
such as rows of a table of texts, are never raised: their ranking is the ranker's alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.candidates import Links
from beliefrag.retrieval.linked.features import WINDOW, Matches, QuestionWords, around_maximum
from beliefrag.retrieval.linked.graph import NameGraph

_HANDED_ON = 0.2
"""The part of its probability that a passage hands on, over all its links."""
_SOURCES = 8
"""How many of the most likely passages hand on."""
_MOST_HOMES = 8
"""A name that more passages have hands nothing on."""
_SUREST = 1
"""Kinds of names up to this sureness count: titles, headings, entries, and explicit links."""
_WINDOW_WEIGHT = 10.0
_GAIN_WEIGHT = 10.0
_RARITY_WEIGHT = 0.3
_RAREST = 12.0


def boost_linked(  # noqa: PLR0917 - all of them are needed
    passages: list[int],
    places: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    links: Links,
    question: QuestionWords,
    matches: Matches,
    graph: NameGraph,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Gives the order of the candidates and their probabilities, with what likely ones lead to raised.

    Args:
        passages: The numbers of all candidates.
        places: Places of ranked candidates in that list, best first.
        probabilities: Their probabilities.
        links: Links among the candidates.
        question: The question.
        matches: Where its words stand in the candidates.
        graph: The names of the corpus.
    """
    if not graph.has_headings or not len(links.source):
        return places, probabilities
    used = np.isin(links.source, places[:_SOURCES]) & (links.kind <= _SUREST) & (links.homes <= _MOST_HOMES)
    below = np.array([graph.is_below_heading(passage) for passage in passages], bool)
    at = np.flatnonzero(used & below[links.target])
    if not len(at):
        return places, probabilities
    source, target = links.source[at].astype(np.int64), links.target[at].astype(np.int64)
    covered = matches.passage_soft
    gain = np.maximum(covered[target] - covered[source], 0) @ question.weights
    worth = _WINDOW_WEIGHT * _match_around(passages, links, at, question, matches, graph) + _GAIN_WEIGHT * gain
    worth += _RARITY_WEIGHT * np.minimum(links.rarity[at], _RAREST)
    weights = np.exp(worth) / np.maximum(links.homes[at], 1)
    # Several mentions may lead from one passage to another: the best of them counts.
    best = np.lexsort((-weights, target, source))
    pairs = source[best] * len(passages) + target[best]
    best = best[np.concatenate(([True], pairs[1:] != pairs[:-1]))]
    source, target, weights = source[best], target[best], weights[best]
    before = np.zeros(len(passages))
    before[places] = probabilities
    shares = weights / np.bincount(source, weights=weights, minlength=len(passages))[source]
    missed = np.ones(len(passages))
    np.multiply.at(missed, target, 1 - _HANDED_ON * before[source] * shares)
    after = 1 - (1 - before) * missed
    known = np.concatenate((places, np.setdiff1d(target, places)))
    order = known[np.argsort(-after[known], kind="stable")]
    return order, after[order]


def _match_around(  # noqa: PLR0917 - a part of the function above
    passages: list[int],
    links: Links,
    at: NDArray[np.int64],
    question: QuestionWords,
    matches: Matches,
    graph: NameGraph,
) -> NDArray[np.float32]:
    """Says how much of the question stands around each of these links, in their sentences."""
    words = graph.read_words(np.array(passages, np.int32))
    source = links.source[at]
    begin = words.passage_starts[source]
    place, last = begin + links.start[at], begin + links.end[at]
    sentence = np.searchsorted(words.sentence_starts, place, side="right") - 1
    low = np.maximum(np.maximum(place - WINDOW, begin), words.sentence_starts[sentence])
    high = np.minimum(last + WINDOW, words.passage_starts[source + 1])
    around: NDArray[np.float32] = around_maximum(matches.word_soft, low, place, last, high) @ question.weights
    return around
