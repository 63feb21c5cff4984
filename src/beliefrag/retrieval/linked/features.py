"""What the ranker sees of a candidate: arithmetic on arrays, for all candidates of a question at once.

Two matrices carry everything. `exact` says which word of a passage is which word of the question (by stem); `soft`
also counts words that begin alike, so that "director" finds "directed". Maxima over windows, sentences and
passages, weighed by how rare the question's words are, give coverage; what one passage covers beyond another gives
novelty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.candidates import SHARED_KIND, Candidates, Links, QuestionName
from beliefrag.retrieval.linked.graph import NameGraph, PassageWords
from beliefrag.retrieval.linked.words import Tokens, hash_stems

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]

_EMPTY_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "between", "by", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "how", "in", "is", "it", "its", "of", "on", "or", "she", "that", "the",
    "their", "they", "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose", "why",
    "will", "with", "s", "both", "also", "than",
))  # fmt: skip
_COMPARISON = frozenset((
    "or", "both", "same", "either", "first", "earlier", "later", "older", "younger", "longer", "more", "common",
    "before", "larger", "bigger", "smaller", "taller",
))  # fmt: skip
_ASKS = {"who": 1, "whom": 1, "whose": 1, "when": 2, "where": 3, "how": 4, "which": 5, "what": 6}
WINDOW = 10
"""How many words on either side of a mention are looked at."""
_ALIKE = np.float32(0.6)
"""What a word that only begins like a word of the question counts."""
_NOT_FOUND = 200
"""The rank of a candidate that the search did not return."""


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """A question read into arrays: its words once each, and how much each weighs."""

    tokens: Tokens
    token_rarity: Floats
    """How rare each word of the question is, in its order."""
    stems: Integers
    prefixes: NDArray[np.uint32]
    rarity: Floats
    weights: Floats
    """How rare each distinct word is, 0 for words that say nothing; they sum to 1."""
    length: int
    is_comparison: bool
    asks: int
    """Which question word it has: 1 who, 2 when, 3 where, 4 how, 5 which, 6 what, 0 none."""


def read_question(text: str, tokens: Tokens, graph: NameGraph) -> QuestionWords:
    """Reads a question into arrays."""
    bounds = zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    words = [text[start:end].lower() for start, end in bounds] or ["?"]
    hashes, prefixes = hash_stems(words) if len(tokens.hashes) else (np.zeros(1, np.uint64), np.zeros(1, np.uint64))
    stems = graph.find_stems(hashes)
    rarest = np.float32(np.log(1 + (len(graph) + 0.5) / 0.5))
    rarity = np.where(stems >= 0, graph.stem_rarity[np.maximum(stems, 0)], rarest).astype(np.float32)
    # A word that no passage has gets a number of its own, which matches nothing.
    _, first = np.unique(hashes, return_index=True)
    first.sort()
    weights = rarity[first].copy()
    weights[[words[place] in _EMPTY_WORDS for place in first]] = 0
    total = float(weights.sum())
    return QuestionWords(
        tokens,
        rarity[: len(tokens.hashes)],
        np.where(stems[first] >= 0, stems[first], -2).astype(np.int32),
        (prefixes[first] >> np.uint64(32)).astype(np.uint32),
        rarity[first],
        (weights / total if total else weights + 1 / len(weights)).astype(np.float32),
        len(words),
        not _COMPARISON.isdisjoint(words),
        next((_ASKS[word] for word in words if word in _ASKS), 0),
    )


@dataclass(frozen=True, slots=True)
class Matches:
    """Where the words of a question stand in the candidates: by word, by sentence and by passage."""

    word_exact: Floats
    word_soft: Floats
    sentence_exact: Floats
    sentence_soft: Floats
    passage_exact: Floats
    passage_soft: Floats
    titles: NDArray[np.int64]
    """A number for the title of each candidate: equal titles have equal numbers, and no title is like no other."""


def _match_words(question: QuestionWords, passages: PassageWords, graph: NameGraph) -> Matches:
    unique, place = np.unique(passages.words, return_inverse=True)
    exact = (graph.word_stem[unique][:, None] == question.stems[None, :]).astype(np.float32)
    alike = graph.word_prefix[unique][:, None] == question.prefixes[None, :]
    soft = np.maximum(exact, alike * _ALIKE)
    word_exact, word_soft = exact[place], soft[place]
    sentence_exact = np.maximum.reduceat(word_exact, passages.sentence_starts, axis=0)
    sentence_soft = np.maximum.reduceat(word_soft, passages.sentence_starts, axis=0)
    first = passages.passage_sentences[:-1]
    return Matches(
        word_exact,
        word_soft,
        sentence_exact,
        sentence_soft,
        np.maximum.reduceat(sentence_exact, first, axis=0),
        np.maximum.reduceat(sentence_soft, first, axis=0),
        _number_titles(passages),
    )


def _number_titles(passages: PassageWords) -> NDArray[np.int64]:
    known: dict[bytes, int] = {}
    result = np.empty(len(passages), np.int64)
    for at, first in enumerate(passages.passage_sentences[:-1].tolist()):
        begin, end = passages.sentence_starts[first : first + 2].tolist()
        # A title without words is its mark alone.
        words = passages.words[begin : end - 1].tobytes()
        result[at] = known.setdefault(words, at) if words else at
    return result


_LINK_COLUMNS = (
    "has", "count", "relative", "rank", "named", "window", "window_soft", "sentence", "sentence_soft", "gain",
    "gain_soft", "both", "rarity", "homes", "kind", "in_question", "place", "title_gain",
)  # fmt: skip
_SIDES = ("in", "out", "with")
FEATURES = (
    "bm25", "bm25_of_best", "bm25_rank", "search_rank", "covered", "covered_softly", "title_covers",
    "title_covers_softly", "sentence_covers", "sentence_covers_softly", "rarest_covered", "title_in_question",
    "title_weight", "adjacent_words", "named", "named_homes", "named_kind", "length", "beyond_top", "beyond_named",
    "question_length", "question_names", "comparison", "asks", "best_bm25", "top_leaves", "named_leave", "candidates",
    *(f"{side}_{column}" for side in _SIDES for column in _LINK_COLUMNS),
)  # fmt: skip
"""The columns of the ranker's input, in order."""


def candidate_features(  # noqa: PLR0917 - all of them are needed
    question: QuestionWords,
    candidates: Candidates,
    hits: list[int],
    names: list[QuestionName],
    links: Links,
    graph: NameGraph,
) -> tuple[Floats, Matches]:
    """Gives one row of features for each candidate, in the order of `candidates.found`."""
    numbers = list(candidates.found)
    passages = graph.read_words(np.array(numbers, np.int32))
    n, w = len(passages), question.weights
    starts, sentence_starts = passages.passage_starts, passages.sentence_starts
    matches = _match_words(question, passages, graph)
    exact = matches.word_exact
    first_sentence = passages.passage_sentences[:-1]
    lengths = np.diff(starts).astype(np.float32)
    ranks = {passage: rank for rank, passage in enumerate(hits)}
    search_rank = np.array([ranks.get(passage, _NOT_FOUND) for passage in numbers], np.float32)
    nothing = (0.0, 0, -1)
    named, named_homes, named_kind = np.array(
        [candidates.named.get(passage, nothing) for passage in numbers], np.float32
    ).T
    # BM25 as the search has it, for candidates that no search returned too.
    frequency = np.add.reduceat(exact, starts[:-1], axis=0)
    saturated = frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * lengths / graph.average_length)[:, None])
    bm25 = saturated @ question.rarity
    best = max(float(bm25.max()), 1e-6)
    title_exact, title_soft = matches.sentence_exact[first_sentence], matches.sentence_soft[first_sentence]
    owner = np.repeat(np.arange(n), np.diff(passages.passage_sentences))
    with_title_exact = np.maximum(matches.sentence_exact, title_exact[owner]) @ w
    with_title_soft = np.maximum(matches.sentence_soft, title_soft[owner]) @ w
    # How much of the title the question has.
    rarity = graph.word_rarity[passages.words]
    title_end = sentence_starts[np.minimum(first_sentence + 1, len(sentence_starts) - 1)]
    summed = np.concatenate(([0], np.cumsum(rarity, dtype=np.float64)))
    summed_in = np.concatenate(([0], np.cumsum(rarity * (exact.max(1) > 0), dtype=np.float64)))
    title_weight = summed[title_end] - summed[starts[:-1]]
    title_in = (summed_in[title_end] - summed_in[starts[:-1]]) / np.maximum(title_weight, 1e-6)
    rank_bm25 = np.empty(n, np.float32)
    rank_bm25[np.argsort(-bm25, kind="stable")] = np.arange(n)
    # What the best passage of the search and the passages named in the question leave uncovered.
    anchors = np.flatnonzero(named > 0)
    covered_named = matches.passage_exact[anchors].max(0) if len(anchors) else np.zeros_like(w)
    rest_top = (1 - matches.passage_exact[int(np.argmax(bm25))]) * w
    rest_named = (1 - covered_named) * w
    columns: dict[str, NDArray[np.floating] | float] = {
        "bm25": bm25,
        "bm25_of_best": bm25 / best,
        "bm25_rank": np.log1p(rank_bm25),
        "search_rank": np.log1p(search_rank),
        "covered": matches.passage_exact @ w,
        "covered_softly": matches.passage_soft @ w,
        "title_covers": title_exact @ w,
        "title_covers_softly": title_soft @ w,
        "sentence_covers": np.maximum.reduceat(with_title_exact, first_sentence),
        "sentence_covers_softly": np.maximum.reduceat(with_title_soft, first_sentence),
        "rarest_covered": (matches.passage_exact * question.rarity).max(1),
        "title_in_question": title_in,
        "title_weight": title_weight,
        "adjacent_words": _adjacent_words(exact, w, starts),
        "named": named,
        "named_homes": np.log1p(named_homes),
        "named_kind": named_kind,
        "length": np.log(lengths),
        "beyond_top": matches.passage_soft @ rest_top,
        "beyond_named": matches.passage_soft @ rest_named,
        "question_length": question.length,
        "question_names": len(names),
        "comparison": question.is_comparison,
        "asks": question.asks,
        "best_bm25": best,
        "top_leaves": float(rest_top.sum()),
        "named_leave": float(rest_named.sum()),
        "candidates": float(np.log(n)),
    }
    columns |= _link_features(question, passages, links, matches, bm25 / best, rank_bm25, named)
    result = np.empty((n, len(FEATURES)), np.float32)
    for at, name in enumerate(FEATURES):
        result[:, at] = columns[name]
    return result, matches


def _adjacent_words(exact: Floats, weights: Floats, starts: Integers) -> Floats:
    """Says how many adjacent words of the question are adjacent in each passage as well."""
    if exact.shape[1] < 2 or len(exact) < 2:
        return np.zeros(len(starts) - 1, np.float32)
    pairs = np.zeros((len(exact), exact.shape[1] - 1), np.float32)
    np.multiply(exact[:-1, :-1], exact[1:, 1:], out=pairs[:-1])
    result: Floats = (np.maximum.reduceat(pairs, starts[:-1], axis=0) @ ((weights[:-1] + weights[1:]) / 2)).astype(
        np.float32
    )
    return result


def _link_features(  # noqa: PLR0917 - a part of the function above
    question: QuestionWords,
    passages: PassageWords,
    links: Links,
    matches: Matches,
    relative: NDArray[np.floating],
    rank: Floats,
    named: Floats,
) -> dict[str, NDArray[np.floating] | float]:
    """Features of the best link into each candidate, of the best link out of it, and of the best shared name."""
    n, w = len(passages), question.weights
    out = {f"{side}_{column}": np.zeros(n, np.float32) for side in _SIDES for column in _LINK_COLUMNS}
    for side in _SIDES:
        out[f"{side}_rank"] += 7
    if not len(links.source):
        return dict(out)
    # Many links begin at one mention: what depends on the mention alone is computed once.
    keys = links.source.astype(np.int64) << 40 | links.start.astype(np.int64) << 20 | links.end
    _, once, back = np.unique(keys, return_index=True, return_inverse=True)
    source = links.source[once]
    begin = passages.passage_starts[source]
    place, last = begin + links.start[once], begin + links.end[once]
    sentence = np.searchsorted(passages.sentence_starts, place, side="right") - 1
    low = np.maximum(np.maximum(place - WINDOW, begin), passages.sentence_starts[sentence])
    high = np.minimum(last + WINDOW, passages.passage_starts[source + 1])
    values: dict[str, NDArray[Any]] = {
        "window": (around_maximum(matches.word_exact, low, place, last, high) @ w)[back],
        "window_soft": (around_maximum(matches.word_soft, low, place, last, high) @ w)[back],
        "sentence": (matches.sentence_exact[sentence] @ w)[back],
        "sentence_soft": (matches.sentence_soft[sentence] @ w)[back],
        "rarity": links.rarity,
        "homes": np.log1p(links.homes),
        "kind": links.kind,
        "in_question": links.in_question,
        "place": np.log1p(sentence - passages.passage_sentences[source])[back],
    }
    covered, covered_soft = matches.passage_exact, matches.passage_soft
    titles = matches.sentence_exact[passages.passage_sentences[:-1]]
    about = links.kind < SHARED_KIND
    for side, of_side, all_here, all_there in (
        ("in", about, links.target, links.source),
        ("out", about, links.source, links.target),
        ("with", ~about, links.source, links.target),
    ):
        used = np.flatnonzero(of_side)
        if not len(used):
            continue
        here, there = all_here[used], all_there[used]
        both = np.maximum(covered[here], covered[there]) @ w
        order = (
            relative[there] + values["window_soft"][used] + 0.3 * (named[there] > 0) + 0.02 * links.rarity[used] + both
        )
        best = np.lexsort((-order, here))
        chosen = best[np.concatenate(([True], here[best][1:] != here[best][:-1]))]
        at, to = here[chosen], there[chosen]
        out[f"{side}_has"][at] = 1
        out[f"{side}_count"] += np.log1p(np.bincount(here, minlength=n)).astype(np.float32)
        out[f"{side}_relative"][at] = relative[to]
        out[f"{side}_rank"][at] = np.log1p(rank[to])
        out[f"{side}_named"][at] = named[to]
        out[f"{side}_gain"][at] = np.maximum(covered[at] - covered[to], 0) @ w
        out[f"{side}_gain_soft"][at] = np.maximum(covered_soft[at] - covered_soft[to], 0) @ w
        out[f"{side}_both"][at] = both[chosen]
        out[f"{side}_title_gain"][at] = np.maximum(titles[at] - covered[to], 0) @ w
        for name, value in values.items():
            out[f"{side}_{name}"][at] = value[used][chosen]
    return dict(out)


def around_maximum(rows: Floats, low: Integers, place: Integers, last: Integers, high: Integers) -> Floats:
    """Gives the maxima of rows from `low` to `place` and from `last` to `high`, for each range."""
    padded = np.concatenate((rows, np.zeros((1, rows.shape[1]), np.float32)))
    steps = np.arange(WINDOW)
    before, after = low[:, None] + steps, last[:, None] + steps
    # Places outside a range lead to the row of zeros at the end.
    before = np.where(before < place[:, None], before, len(rows))
    after = np.where(after < high[:, None], after, len(rows))
    result: Floats = padded[np.concatenate((before, after), axis=1)].max(1)
    return result
