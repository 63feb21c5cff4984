"""Score candidates: features of all candidates of a question at once, a fitted ranker, and a boost of links.

`exact` matrices say which word of a passage has the stem of which word of the question; `soft` ones also count words
with the same beginning. The ranker, a linear first cut and boosted trees, looks twice: the second look also sees how
likely the other candidates and the other ends of links are after the first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beliefrag.errors import SettingsError
from beliefrag.retrieval.linked.graph import SHARED_KIND, Candidates, Links, NameGraph, PassageWords
from beliefrag.retrieval.linked.words import Floats, Integers, Long, Tokens, find_hashes, hash_stems, split_text

Doubles = NDArray[np.float64]
Rescore = Callable[[Long, Doubles], Floats]

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
_WINDOW = 10
"""The words on either side of a mention that count."""
_ALIKE = np.float32(0.6)
"""The match of a word that only begins like a word of the question."""
_NOT_FOUND = 200

_SIDES = ("in", "out", "with")
_LINK_COLUMNS = (
    "has", "count", "relative", "rank", "named", "window", "window_soft", "sentence", "sentence_soft", "gain",
    "gain_soft", "both", "rarity", "homes", "kind", "in_question", "place", "title_gain",
)  # fmt: skip
FEATURES = (
    "bm25", "bm25_of_best", "bm25_rank", "search_rank", "covered", "covered_softly", "title_covers",
    "title_covers_softly", "sentence_covers", "sentence_covers_softly", "rarest_covered", "title_in_question",
    "title_weight", "adjacent_words", "named", "named_homes", "named_kind", "length", "beyond_top", "beyond_named",
    "question_length", "question_names", "comparison", "asks", "best_bm25", "top_leaves", "named_leave", "candidates",
    *(f"{side}_{column}" for side in _SIDES for column in _LINK_COLUMNS),
)  # fmt: skip

_BEST = 4
_RERANK_LINK_COLUMNS = ("likely", "chain", "gain", "both", "rarity", "homes", "rivals", "sum")
RERANK_FEATURES = (
    "logit", "place", "of_best", "likely_sum", "second_likely", "third_likely", "fourth_likely",
    *(f"beyond_{count}" for count in range(1, _BEST + 1)),
    *(f"left_by_{count}" for count in range(1, _BEST + 1)),
    "like_better", "same_title_better",
    *(f"{side}_{column}" for side in _SIDES for column in _RERANK_LINK_COLUMNS),
)  # fmt: skip

_PASSED_ON_SHARE = 0.2
"""The part of its probability that a passage hands on over its links."""
_SOURCES, _MOST_TARGETS_OF_NAME, _SUREST = 8, 8, 1
"""Only the likeliest passages hand on, by names that few passages have: titles, headings, entries, explicit links."""
_WINDOW_WEIGHT, _GAIN_WEIGHT, _RARITY_WEIGHT, _RAREST = 10.0, 10.0, 0.3, 12.0

Columns = Mapping[str, NDArray[Any] | float]


class QuestionWords(NamedTuple):
    """The distinct words of a question as arrays."""

    tokens: Tokens
    token_rarity: Floats
    """The rarity of each word, repeated ones included."""
    stems: Integers
    prefixes: NDArray[np.uint32]
    rarity: Floats
    weights: Floats
    """Rarities that sum to 1, with 0 for function words."""
    length: int
    is_comparison: bool
    asks: int


def read_question(text: str, graph: NameGraph) -> QuestionWords:
    """Read a question into arrays."""
    tokens = split_text(text)
    bounds = zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    words = [text[start:end].lower() for start, end in bounds] or ["?"]
    hashes, prefixes = hash_stems(words) if len(tokens.hashes) else (np.zeros(1, np.uint64), np.zeros(1, np.uint64))
    stems = find_hashes(graph.stem_hash, hashes)
    rarest = np.float32(np.log(1 + (len(graph) + 0.5) / 0.5))
    rarity = np.where(stems >= 0, graph.stem_rarity[np.maximum(stems, 0)], rarest).astype(np.float32)
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


class Matches(NamedTuple):
    """The matches of question words in the candidates: by word, by sentence and by passage."""

    weights: Floats
    passages: PassageWords
    word_exact: Floats
    word_soft: Floats
    sentence_exact: Floats
    sentence_soft: Floats
    passage_exact: Floats
    passage_soft: Floats


def _match_words(question: QuestionWords, passages: PassageWords, graph: NameGraph) -> Matches:
    unique, place = np.unique(passages.words, return_inverse=True)
    exact = (graph.word_stem[unique][:, None] == question.stems[None, :]).astype(np.float32)
    alike = graph.word_prefix[unique][:, None] == question.prefixes[None, :]
    words = exact[place], np.maximum(exact, alike * _ALIKE)[place]
    sentences = [np.maximum.reduceat(rows, passages.sentence_starts, axis=0) for rows in words]
    wholes = [np.maximum.reduceat(rows, passages.passage_sentences[:-1], axis=0) for rows in sentences]
    return Matches(question.weights, passages, *words, *sentences, *wholes)


def number_titles(passages: PassageWords) -> Long:
    """Return a number for the title of each passage, the same for equal titles; an empty title equals no other."""
    known: dict[bytes, int] = {}
    result = np.empty(len(passages.passage_starts) - 1, np.int64)
    for at, first in enumerate(passages.passage_sentences[:-1].tolist()):
        begin, end = passages.sentence_starts[first : first + 2].tolist()
        words = passages.words[begin : end - 1].tobytes()
        result[at] = known.setdefault(words, at) if words else at
    return result


def _stack(columns: Columns, names: tuple[str, ...], rows: int) -> Floats:
    result = np.empty((rows, len(names)), np.float32)
    for at, name in enumerate(names):
        result[:, at] = columns[name]
    return result


def candidate_features(  # noqa: PLR0917 - all of them are needed
    question: QuestionWords, candidates: Candidates, hits: list[int], names: int, links: Links, graph: NameGraph
) -> tuple[Floats, Matches]:
    """Return a row of features for each candidate, in the order of `candidates.found`."""
    numbers = list(candidates.found)
    passages = graph.read_words(np.array(numbers, np.int32))
    n, w = len(numbers), question.weights
    starts, sentence_starts = passages.passage_starts, passages.sentence_starts
    matches = _match_words(question, passages, graph)
    exact = matches.word_exact
    first_sentence = passages.passage_sentences[:-1]
    lengths = np.diff(starts).astype(np.float32)
    ranks = {passage: rank for rank, passage in enumerate(hits)}
    search_rank = np.array([ranks.get(passage, _NOT_FOUND) for passage in numbers], np.float32)
    named_rows = [candidates.named.get(passage, (0.0, 0, -1)) for passage in numbers]
    named, named_homes, named_kind = np.array(named_rows, np.float32).T
    # BM25 for all candidates, whether a search found them or not.
    frequency = np.add.reduceat(exact, starts[:-1], axis=0)
    saturated = frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * lengths / graph.average_length)[:, None])
    bm25 = saturated @ question.rarity
    best = max(float(bm25.max()), 1e-6)
    title_exact, title_soft = matches.sentence_exact[first_sentence], matches.sentence_soft[first_sentence]
    owner = np.repeat(np.arange(n), np.diff(passages.passage_sentences))
    with_title_exact = np.maximum(matches.sentence_exact, title_exact[owner]) @ w
    with_title_soft = np.maximum(matches.sentence_soft, title_soft[owner]) @ w
    rarity = graph.word_rarity[passages.words]
    title_end = sentence_starts[np.minimum(first_sentence + 1, len(sentence_starts) - 1)]
    summed = np.concatenate(([0], np.cumsum(rarity, dtype=np.float64)))
    summed_in = np.concatenate(([0], np.cumsum(rarity * (exact.max(1) > 0), dtype=np.float64)))
    title_weight = summed[title_end] - summed[starts[:-1]]
    title_in = (summed_in[title_end] - summed_in[starts[:-1]]) / np.maximum(title_weight, 1e-6)
    rank_bm25 = np.empty(n, np.float32)
    rank_bm25[np.argsort(-bm25, kind="stable")] = np.arange(n)
    # The words that the best passage of the search and the passages named in the question leave uncovered.
    anchors = np.flatnonzero(named > 0)
    covered_named = matches.passage_exact[anchors].max(0) if len(anchors) else np.zeros_like(w)
    rest_top = (1 - matches.passage_exact[int(np.argmax(bm25))]) * w
    rest_named = (1 - covered_named) * w
    columns: Columns = {
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
        "question_names": names,
        "comparison": question.is_comparison,
        "asks": question.asks,
        "best_bm25": best,
        "top_leaves": float(rest_top.sum()),
        "named_leave": float(rest_named.sum()),
        "candidates": float(np.log(n)),
        **_link_features(matches, links, bm25 / best, rank_bm25, named),
    }
    return _stack(columns, FEATURES, n), matches


def _adjacent_words(exact: Floats, weights: Floats, starts: Integers) -> Floats:
    """Return how many adjacent words of the question are adjacent in each passage."""
    pairs = np.zeros((len(exact), exact.shape[1] - 1), np.float32)
    np.multiply(exact[:-1, :-1], exact[1:, 1:], out=pairs[:-1])
    found = np.maximum.reduceat(pairs, starts[:-1], axis=0) @ ((weights[:-1] + weights[1:]) / 2)
    return np.asarray(found, np.float32)


def _first_of_groups(order: Long, *keys: NDArray[Any]) -> Long:
    """Return the first row of each group of equal keys, in an order that keeps groups together."""
    new = np.zeros(len(order), bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    return order[new]


def _sides(links: Links, source: NDArray[Any], target: NDArray[Any]) -> Iterator[tuple[str, Long, Long, Long]]:
    """Yield the links into candidates, out of them, and of shared names: rows, this end, and the other end.

    Links with an end below 0 are left out.
    """
    about, inside = links.kind < SHARED_KIND, (source >= 0) & (target >= 0)
    sides = (("in", about, target, source), ("out", about, source, target), ("with", ~about, source, target))
    for side, of_side, here, there in sides:
        used = np.flatnonzero(of_side & inside)
        if len(used):
            yield side, used, here[used], there[used]


def _link_features(
    matches: Matches, links: Links, relative: NDArray[np.floating], rank: Floats, named: Floats
) -> dict[str, Floats]:
    """Return features of the best link into each candidate, of the best link out of it, and of the best shared name."""
    passages = matches.passages
    n, w = len(relative), matches.weights
    out = {
        f"{side}_{column}": np.full(n, 7 if column == "rank" else 0, np.float32)
        for side in _SIDES
        for column in _LINK_COLUMNS
    }
    # Many links share a mention, whose features are computed once.
    keys = links.source.astype(np.int64) << 40 | links.start.astype(np.int64) << 20 | links.end
    _, once, back = np.unique(keys, return_index=True, return_inverse=True)
    source = links.source[once]
    sentence, around = _find_windows(passages, source, links.start[once], links.end[once])
    values: dict[str, NDArray[Any]] = {
        "window": (_window_maximum(matches.word_exact, around) @ w)[back],
        "window_soft": (_window_maximum(matches.word_soft, around) @ w)[back],
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
    for side, used, here, there in _sides(links, links.source, links.target):
        both = np.maximum(covered[here], covered[there]) @ w
        order = (
            relative[there] + values["window_soft"][used] + 0.3 * (named[there] > 0) + 0.02 * links.rarity[used] + both
        )
        chosen = _first_of_groups(np.lexsort((-order, here)), here)
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
    return out


def _find_windows(passages: PassageWords, source: Integers, start: Integers, end: Integers) -> tuple[Long, Long]:
    """Return the sentence of each mention, and the places of the words around it, -1 for missing ones."""
    begin = passages.passage_starts[source]
    place, last = begin + start, begin + end
    sentence = np.searchsorted(passages.sentence_starts, place, side="right") - 1
    low = np.maximum(np.maximum(place - _WINDOW, begin), passages.sentence_starts[sentence])
    high = np.minimum(last + _WINDOW, passages.passage_starts[source + 1])
    before, after = low[:, None] + np.arange(_WINDOW), last[:, None] + np.arange(_WINDOW)
    before, after = np.where(before < place[:, None], before, -1), np.where(after < high[:, None], after, -1)
    return sentence, np.concatenate((before, after), axis=1)


def _window_maximum(rows: Floats, around: Long) -> Floats:
    """Return the maxima of rows over windows."""
    padded = np.concatenate((rows, np.zeros((1, rows.shape[1]), np.float32)))
    result: Floats = padded[around].max(1)
    return result


@dataclass(frozen=True, slots=True)
class Rerank:
    """The facts on all candidates of a question that the second look needs."""

    weights: Floats
    covered: Floats
    titles: Long
    links: Links

    def features(self, kept: Long, logits: Doubles) -> Floats:
        """Return a row for each candidate that the first look kept, from their logits."""
        n, w = len(kept), self.weights
        likely = (1 / (1 + np.exp(-logits))).astype(np.float32)
        best_first = np.argsort(-logits, kind="stable")
        place = np.empty(n, np.int64)
        place[best_first] = np.arange(n)
        covered = self.covered[kept]
        sorted_likely = np.zeros(max(n, _BEST), np.float32)
        sorted_likely[:n] = likely[best_first]
        columns: dict[str, NDArray[Any] | float] = {
            "logit": logits.astype(np.float32),
            "place": np.log1p(place).astype(np.float32),
            "of_best": likely / max(float(likely.max()), 1e-6),
            "likely_sum": float(likely.sum()),
            "second_likely": float(sorted_likely[1]),
            "third_likely": float(sorted_likely[2]),
            "fourth_likely": float(sorted_likely[3]),
        }
        # The words that the best other candidates leave uncovered, and those of them that a candidate covers.
        for count in range(1, _BEST + 1):
            first = best_first[: count + 1].tolist()
            held = np.tile(covered[first[:count]].max(0), (n, 1))
            for at in first[:count]:
                rest = [each for each in first if each != at]
                held[at] = covered[rest].max(0) if rest else 0
            columns[f"beyond_{count}"] = np.maximum(covered - held, 0) @ w
            columns[f"left_by_{count}"] = 1 - held @ w
        better = place[:, None] > place[None, :]
        # The largest part of a candidate's words that one better candidate covers.
        shared = np.minimum(covered[:, None, :], covered[None, :, :]) @ w
        columns["like_better"] = (shared * better).max(1) / np.maximum(covered @ w, 1e-6)
        same_title = self.titles[kept][:, None] == self.titles[kept][None, :]
        columns["same_title_better"] = (same_title & better).sum(1).astype(np.float32)
        columns |= self._link_features(kept, likely, covered)
        return _stack(columns, RERANK_FEATURES, n)

    def _link_features(self, kept: Long, likely: Floats, covered: Floats) -> dict[str, Floats]:
        """Return features of the links into each candidate, out of it, and of shared names, by the other end."""
        n, w, links = len(kept), self.weights, self.links
        out = {f"{side}_{column}": np.zeros(n, np.float32) for side in _SIDES for column in _RERANK_LINK_COLUMNS}
        at_kept = np.full(len(self.covered), -1)
        at_kept[kept] = np.arange(n)
        source, target = at_kept[links.source], at_kept[links.target]
        for side, used, here, there in _sides(links, source, target):
            gain = np.maximum(covered[here] - covered[there], 0) @ w
            both = np.maximum(covered[here], covered[there]) @ w
            chosen = _first_of_groups(np.lexsort((-both, -likely[there], here)), here)
            at = here[chosen]
            out[f"{side}_likely"][at] = likely[there[chosen]]
            out[f"{side}_gain"][at] = gain[chosen]
            out[f"{side}_both"][at] = both[chosen]
            out[f"{side}_rarity"][at] = links.rarity[used][chosen]
            out[f"{side}_homes"][at] = np.log1p(links.homes[used][chosen])
            pairs = np.unique(here.astype(np.int64) * n + there)
            out[f"{side}_sum"] = np.bincount(pairs // n, weights=likely[pairs % n], minlength=n).astype(np.float32)
            out[f"{side}_rivals"] = _rivals(here if side == "in" else there, links.name[used], likely, here)
        for side, _, here, there in _sides(links, source, target):
            if side != "with":
                np.maximum.at(out[f"{side}_chain"], here, likely[there] * out["in_likely"][there])
        return out


def _rivals(ends: Long, names: Integers, likely: Floats, here: Long) -> Floats:
    """Return for each candidate the probability of the best other passage of its linked names."""
    result = np.zeros(len(likely), np.float32)
    first = _first_of_groups(np.lexsort((-likely[ends], names)), names)
    best = ends[first][np.searchsorted(names[first], names)]
    other = best != here
    np.maximum.at(result, here[other], likely[best[other]])
    return result


class BoostedTrees(NamedTuple):
    """The sum of many small trees, as a logit, in arrays of trees by nodes.

    A leaf leads to itself, so every walk takes `depth` steps.
    """

    feature: NDArray[np.int16]
    threshold: Floats
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    value: Floats
    start: float
    depth: int

    def logits(self, rows: Floats) -> Doubles:
        """Return the logit of each row."""
        trees, nodes = self.feature.shape
        base = (np.arange(trees) * nodes)[:, None]
        at = np.broadcast_to(base, (trees, len(rows)))
        feature, threshold = self.feature.ravel(), self.threshold.ravel()
        children = (np.stack((self.right, self.left), -1).astype(np.int64) + base[:, :, None]).ravel()
        columns = np.ascontiguousarray(rows.T).ravel()
        across = np.arange(len(rows))[None, :]
        for _ in range(self.depth):
            goes_left = columns[feature[at].astype(np.int64) * len(rows) + across] <= threshold[at]
            at = children[2 * at + goes_left]
        result: Doubles = self.value.ravel()[at].sum(0, dtype=np.float64) + self.start
        return result


@dataclass(frozen=True, slots=True)
class Ranker:
    """Estimate the probability that a candidate is needed to answer the question."""

    name: str
    """A short name and eight digits of the file's hash."""
    weights: Floats
    """The linear first cut: its best `kept` candidates reach the trees."""
    intercept: float
    kept: int
    trees: BoostedTrees
    second: BoostedTrees
    about: dict[str, Any]

    def rank(self, rows: Floats, look_again: Rescore) -> tuple[Long, Doubles]:
        """Return the places of the kept candidates, best first, with their probabilities.

        `look_again` computes the further features of the second look from the kept places and their logits.
        """
        kept, again = self.look_twice(rows, look_again)
        logits = self.second.logits(again)
        order = np.argsort(-logits, kind="stable")
        return kept[order], 1 / (1 + np.exp(-logits[order]))

    def look_once(self, rows: Floats) -> tuple[Long, Floats]:
        """Return the places of the candidates that the linear cut keeps, and the rows of the first trees."""
        linear = (rows @ self.weights + np.float32(self.intercept)).astype(np.float32)
        kept = np.sort(np.argsort(-linear, kind="stable")[: self.kept])
        return kept, np.concatenate((rows[kept], linear[kept, None]), axis=1)

    def look_twice(self, rows: Floats, look_again: Rescore) -> tuple[Long, Floats]:
        """Return the places of the kept candidates, and the rows of the second trees."""
        kept, first = self.look_once(rows)
        return kept, np.concatenate((first, look_again(kept, self.trees.logits(first))), axis=1)

    def save(self, path: Path) -> None:
        """Write the ranker to an `.npz` file without pickled objects."""
        held: dict[str, Any] = {"weights": self.weights, "intercept": self.intercept, "kept": self.kept}
        for look, trees in (("first", self.trees), ("second", self.second)):
            held |= {f"{look}_{name}": values for name, values in trees._asdict().items()}
        about = json.dumps({**self.about, "features": [*FEATURES, *RERANK_FEATURES]}, sort_keys=True)
        np.savez_compressed(path, **held, about=about)


def load_ranker(path: Path | None = None) -> Ranker:
    """Load the shipped ranker, or one from a file."""
    try:
        data = (files("beliefrag.retrieval.linked") / "ranker.npz" if path is None else path).read_bytes()
        with np.load(BytesIO(data), allow_pickle=False) as held:
            about = json.loads(str(held["about"]))
            if about.pop("features") != [*FEATURES, *RERANK_FEATURES]:
                raise SettingsError(
                    f"The ranker {path or 'of this package'} was fitted on other features than this version computes.",
                    remedy="Fit it again.",
                )
            first, second = (
                BoostedTrees(*(held[f"{look}_{name}"] for name in BoostedTrees._fields)) for look in ("first", "second")
            )
            rest = held["weights"], float(held["intercept"]), int(held["kept"])
    except (OSError, ValueError, KeyError) as problem:
        raise SettingsError(
            f"The ranker {path} cannot be read: {problem}.",
            remedy="Name a file that `Ranker.save` wrote, or leave out the option.",
        ) from problem
    name = f"{about.get('name', 'ranker')}-{hashlib.sha256(data).hexdigest()[:8]}"
    return Ranker(name, *rest, first, second, about)


def boost_linked(  # noqa: PLR0917 - all of them are needed
    places: Long, probabilities: Doubles, passages: list[int], links: Links, matches: Matches, graph: NameGraph
) -> tuple[Long, Doubles]:
    """Raise the probabilities of what likely passages lead to, in documents with headings and links.

    The ranker was fitted on an encyclopedia, where a passage needed as the second step shares words with the question.
    In a manual it often shares none. So each likely passage hands on a part of its probability over its links, most of
    it over links whose surroundings match the question, and to passages that cover more of it.
    """
    if not graph.has_headings or not len(links.source):
        return places, probabilities
    used = np.isin(links.source, places[:_SOURCES]) & (links.kind <= _SUREST) & (links.homes <= _MOST_TARGETS_OF_NAME)
    below = np.array([graph.is_below_heading(passage) for passage in passages], bool)
    at = np.flatnonzero(used & below[links.target])
    if not len(at):
        return places, probabilities
    source, target = links.source[at].astype(np.int64), links.target[at].astype(np.int64)
    covered = matches.passage_soft
    gain = np.maximum(covered[target] - covered[source], 0) @ matches.weights
    _, around = _find_windows(matches.passages, links.source[at], links.start[at], links.end[at])
    worth = _WINDOW_WEIGHT * (_window_maximum(matches.word_soft, around) @ matches.weights) + _GAIN_WEIGHT * gain
    worth += _RARITY_WEIGHT * np.minimum(links.rarity[at], _RAREST)
    weights = np.exp(worth) / np.maximum(links.homes[at], 1)
    best = _first_of_groups(np.lexsort((-weights, target, source)), source, target)
    source, target, weights = source[best], target[best], weights[best]
    before = np.zeros(len(passages))
    before[places] = probabilities
    shares = weights / np.bincount(source, weights=weights, minlength=len(passages))[source]
    missed = np.ones(len(passages))
    np.multiply.at(missed, target, 1 - _PASSED_ON_SHARE * before[source] * shares)
    after = 1 - (1 - before) * missed
    known = np.concatenate((places, np.setdiff1d(target, places)))
    order = known[np.argsort(-after[known], kind="stable")]
    return order, after[order]
