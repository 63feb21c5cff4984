"""The graph of names: which passage has which name, and which passage mentions it, as arrays.

It is made from the passages of an index in blocks, so that memory does not grow with the texts, and kept beside the
index. A mention is a place in a passage's words; a link is a mention together with a passage that has the name. Names
that no passage is about join the passages that mention them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import Arrays, ArrayWriter
from beliefrag.retrieval.linked.names import (
    LONGEST_NAME,
    SURENESS,
    NameFinder,
    NameKind,
    hash_names,
    keep_longest,
    names_of,
)
from beliefrag.retrieval.linked.tokens import FACTOR, split_passages
from beliefrag.retrieval.linked.vocabulary import VocabularyBuilder

__all__ = ["FORMAT", "Mentions", "NameGraph", "PassageRow", "PassageWords", "build_graph"]

FORMAT = 1
"""The version of the arrays. A graph of another version is built again."""

PassageRow = tuple[int, str, str, str]
"""Key, id, title and text of a passage."""
Integers = NDArray[np.int32]

_RAREST_NEEDED = 5.0
"""A name whose words are together more common than this (sum of inverse document frequencies) says too little."""
_RARE_WORD = 3.0
_LONGEST_SHARED = 5
_MOST_SHARING = 20
_MOST_MENTIONS = 40
"""How many names of one passage count at most: the rarest."""
_BLOCK = 500


def build_graph(blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter) -> dict[str, Any]:
    """Builds the graph of some passages and returns what its header says.

    Args:
        blocks: The passages, some hundred at a time.
        arrays: Where the graph is written.
    """
    vocabulary = VocabularyBuilder()
    names = _read_passages(blocks, arrays, vocabulary)
    count = len(arrays.read("keys", np.int64))
    rarity = vocabulary.stem_rarity(count)
    stems, word_hashes, stem_hashes = vocabulary.word_stems, vocabulary.word_hashes(), vocabulary.stem_hashes()
    word_rarity = rarity[stems]
    for name, values in (
        ("word_hash", word_hashes),
        ("word_order", np.argsort(word_hashes).astype(np.int32)),
        ("word_stem", stems),
        ("word_rarity", word_rarity),
        ("word_prefix", vocabulary.word_prefixes),
        ("stem_order", np.argsort(stem_hashes).astype(np.int32)),
        ("stem_hash", stem_hashes),
        ("stem_rarity", rarity),
    ):
        arrays.append(name, values)
    keys = arrays.read("keys", np.int64)
    key_order = np.argsort(keys, kind="stable").astype(np.int32)
    key_rank = np.empty(count, np.int32)
    key_rank[key_order] = np.arange(count, dtype=np.int32)
    arrays.append("key_order", key_order)
    reading = _Corpus(arrays, word_hashes, word_rarity, vocabulary.letters, count)
    known = _write_names(names, arrays, key_rank, count)
    finder = NameFinder(known, names.beginnings())
    _write_mentions(reading, finder, arrays, "named", len(known), key_rank, arrays.read("name_is_term", np.bool_))
    shared, beginnings = _find_shared_names(reading, known)
    finder = NameFinder(shared, beginnings)
    _write_mentions(reading, finder, arrays, "shared", len(shared), key_rank, np.zeros(len(shared), bool))
    arrays.remove("capital")
    return {"format": FORMAT, "passages": count, "names": len(known), "shared_names": len(shared)}


class _FoundNames:
    """The names of all passages, as they are found."""

    def __init__(self) -> None:
        self.hashes: list[NDArray[np.uint64]] = []
        self.passages: list[Integers] = []
        self.kinds: list[NDArray[np.uint8]] = []
        self._beginnings: list[NDArray[np.uint64]] = []

    def add(self, rows: Sequence[PassageRow], first: int) -> None:
        """Adds the names of some passages, the first of which has the number `first`."""
        texts: list[str] = []
        passages: list[int] = []
        kinds: list[int] = []
        for number, (_, _, title, text) in enumerate(rows, first):
            for name, kind in names_of(title, text):
                texts.append(name)
                passages.append(number)
                kinds.append(kind)
        hashes, beginnings = hash_names(texts)
        keep = hashes != 0
        self.hashes.append(hashes[keep])
        self.passages.append(np.array(passages, np.int32)[keep])
        self.kinds.append(np.array(kinds, np.uint8)[keep])
        self._beginnings.append(np.unique(beginnings))

    def beginnings(self) -> NDArray[np.uint64]:
        """Gives the hashes of all beginnings of names."""
        return np.concatenate([np.zeros(0, np.uint64), *self._beginnings])


def _read_passages(
    blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter, vocabulary: VocabularyBuilder
) -> _FoundNames:
    names = _FoundNames()
    number = words = 0
    arrays.append("passage_starts", np.zeros(1, np.int64))
    arrays.append("id_starts", np.zeros(1, np.int64))
    id_bytes = 0
    for block in blocks:
        for low in range(0, len(block), _BLOCK):
            rows = block[low : low + _BLOCK]
            tokens = split_passages([(title, text) for _, _, title, text in rows])
            arrays.append("words", vocabulary.add(tokens))
            arrays.append("capital", tokens.capital)
            arrays.append("passage_starts", tokens.passage_starts[1:].astype(np.int64) + words)
            words += len(tokens.hashes)
            arrays.append("keys", np.array([key for key, *_ in rows], np.int64))
            ids = [passage_id.encode() for _, passage_id, _, _ in rows]
            arrays.append("ids", np.frombuffer(b"".join(ids), np.uint8))
            ends = np.cumsum([len(each) for each in ids]) + id_bytes
            arrays.append("id_starts", ends.astype(np.int64))
            id_bytes = int(ends[-1])
            names.add(rows, number)
            number += len(rows)
    return names


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The words of all passages while the graph is built."""

    arrays: Arrays
    word_hashes: NDArray[np.uint64]
    word_rarity: NDArray[np.float32]
    letters: NDArray[np.bool_]
    count: int

    def blocks(self) -> Iterable[tuple[int, int, Integers, NDArray[np.bool_], NDArray[np.int64]]]:
        """Gives the first passage, the first word, words, capitals and passage bounds of each block."""
        starts = self.arrays.read("passage_starts", np.int64)
        words = self.arrays.read("words", np.int32)
        capital = self.arrays.read("capital", np.bool_)
        for low in range(0, self.count, _BLOCK):
            bounds = starts[low : low + _BLOCK + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            yield low, begin, words[begin:end], capital[begin:end], bounds - begin


def _write_names(found: _FoundNames, arrays: ArrayWriter, key_rank: Integers, count: int) -> NDArray[np.uint64]:
    """Writes the table of names: for each name the passages that have it, in the order of their keys."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *found.hashes])
    passages = np.concatenate([np.zeros(0, np.int32), *found.passages])
    kinds = np.concatenate([np.zeros(0, np.uint8), *found.kinds])
    # A passage that has a name twice keeps the surest kind.
    order = np.lexsort((kinds, key_rank[passages], hashes))
    hashes, passages, kinds = hashes[order], passages[order], kinds[order]
    keep = np.ones(len(hashes), bool)
    keep[1:] = (hashes[1:] != hashes[:-1]) | (passages[1:] != passages[:-1])
    hashes, passages, kinds = hashes[keep], passages[keep], kinds[keep]
    unique, first = np.unique(hashes, return_index=True)
    bounds = np.append(first, len(hashes)).astype(np.int32)
    is_term = np.zeros(len(unique), bool)
    is_term[np.searchsorted(bounds, np.flatnonzero(kinds == NameKind.TERM), side="right") - 1] = True
    by_passage = np.argsort(passages, kind="stable")
    name_of = np.repeat(np.arange(len(unique), dtype=np.int32), np.diff(bounds))
    for name, values in (
        ("name_hash", unique),
        ("name_bounds", bounds),
        ("name_is_term", is_term),
        ("home_passage", passages),
        ("home_kind", kinds),
        ("own_name", name_of[by_passage]),
        ("own_kind", kinds[by_passage]),
        ("own_bounds", np.searchsorted(passages[by_passage], np.arange(count + 1)).astype(np.int32)),
    ):
        arrays.append(name, values)
    return unique


def _write_mentions(  # noqa: PLR0917 - a step of one function
    corpus: _Corpus,
    finder: NameFinder,
    arrays: ArrayWriter,
    prefix: str,
    names: int,
    key_rank: Integers,
    is_term: NDArray[np.bool_],
) -> None:
    """Finds all mentions of names in the passages."""
    arrays.append(f"{prefix}_bounds", np.zeros(1, np.int32))
    total = 0
    for low, _, words, capital, bounds in corpus.blocks():
        starts, lengths, found = finder.find(corpus.word_hashes[words])
        summed = np.concatenate(([0], np.cumsum(corpus.word_rarity[words], dtype=np.float64)))
        rarity = (summed[starts + lengths] - summed[starts]).astype(np.float32)
        owner = np.searchsorted(bounds, starts, side="right") - 1
        title_ends = _title_ends(words, bounds)
        # A single word in small letters is a word and no name; a title does not mention itself. The entries of a
        # manual are written in small letters and are names all the same.
        written_as_name = (lengths > 1) | capital[starts] | is_term[found]
        keep = (starts > title_ends[owner]) & written_as_name & (rarity >= _RAREST_NEEDED)
        starts, lengths, found, owner, rarity = (each[keep] for each in (starts, lengths, found, owner, rarity))
        keep = keep_longest(starts, lengths, len(words))
        keep = keep[_are_rarest(owner[keep], rarity[keep])]
        starts, lengths, found, owner, rarity = (each[keep] for each in (starts, lengths, found, owner, rarity))
        begin = (starts - bounds[owner]).astype(np.int32)
        arrays.append(f"{prefix}_start", begin)
        arrays.append(f"{prefix}_end", begin + lengths.astype(np.int32))
        arrays.append(f"{prefix}_name", found.astype(np.int32))
        arrays.append(f"{prefix}_passage", (owner + low).astype(np.int32))
        arrays.append(f"{prefix}_rarity", rarity)
        ends = np.searchsorted(owner, np.arange(1, len(bounds))) + total
        arrays.append(f"{prefix}_bounds", ends.astype(np.int32))
        total += len(found)
    name = arrays.read(f"{prefix}_name", np.int32)
    passage = arrays.read(f"{prefix}_passage", np.int32)
    by_name = np.argsort(name.astype(np.int64) << 32 | key_rank[passage], kind="stable").astype(np.int32)
    arrays.append(f"{prefix}_by_name", by_name)
    arrays.append(f"{prefix}_name_bounds", np.searchsorted(name[by_name], np.arange(names + 1)).astype(np.int32))


def _title_ends(words: Integers, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Gives where the title of each passage ends: at its first mark."""
    marks = np.flatnonzero(words <= 1)
    return marks[np.searchsorted(marks, bounds[:-1])]


def _are_rarest(owner: NDArray[np.int64], rarity: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Says which mentions are among the rarest of their passage; of equally rare ones the first."""
    if not len(owner) or int(np.bincount(owner).max()) <= _MOST_MENTIONS:
        return np.ones(len(owner), bool)
    order = np.lexsort((-rarity, owner))
    first = np.searchsorted(owner[order], owner[order], side="left")
    keep = np.zeros(len(owner), bool)
    keep[order] = np.arange(len(owner)) - first < _MOST_MENTIONS
    return keep


def _find_shared_names(corpus: _Corpus, known: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Finds names that several passages mention though none is about them: runs of words with capital letters.

    A run of two to five such words that stands in at least two passages and in few is taken for a name.

    Returns:
        The names, rising, and the beginnings of all of them.
    """
    found, homes = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    for steps, passages_here in _capital_runs(corpus):
        found.append(steps[:, -1])
        homes.append(passages_here)
    runs, passages = np.concatenate(found), np.concatenate(homes)
    del found, homes
    order = np.lexsort((passages, runs))
    runs, passages = runs[order], passages[order]
    once = np.ones(len(runs), bool)
    once[1:] = (runs[1:] != runs[:-1]) | (passages[1:] != passages[:-1])
    names, counts = np.unique(runs[once], return_counts=True)
    names = names[(counts >= 2) & (counts <= _MOST_SHARING)]
    names = names[~np.isin(names, known)]
    # The beginnings of all runs would take much memory, so the runs are looked at again for those of the names.
    beginnings = [np.zeros(0, np.uint64)]
    for steps, _ in _capital_runs(corpus):
        places = np.minimum(np.searchsorted(names, steps[:, -1]), max(len(names) - 1, 0))
        if len(names):
            beginnings.append(np.unique(steps[names[places] == steps[:, -1]]))
    return names, np.unique(np.concatenate(beginnings))


def _capital_runs(corpus: _Corpus) -> Iterator[tuple[NDArray[np.uint64], Integers]]:
    """Gives the runs of words with capital letters, block by block: hashes of their beginnings, and their passages.

    The last column is the hash of the whole run.
    """
    for low, _, words, all_capital, bounds in corpus.blocks():
        capital = all_capital & corpus.letters[words]
        rare = corpus.word_rarity[words] >= _RARE_WORD
        hashes = corpus.word_hashes[words]
        # A run begins at a rare word with a capital letter after anything else, and goes on to the next small letter.
        named = capital & rare
        starts = np.flatnonzero(named & ~np.concatenate(([False], named[:-1])))
        stops = np.append(np.flatnonzero(~capital), len(words))
        lengths = stops[np.searchsorted(stops, starts)] - starts
        fits = (lengths >= 2) & (lengths <= _LONGEST_SHARED)
        starts, lengths = starts[fits], lengths[fits]
        steps = np.zeros((len(starts), _LONGEST_SHARED), np.uint64)
        run = np.zeros(len(starts), np.uint64)
        for step in range(_LONGEST_SHARED):
            here = lengths > step
            run[here] = run[here] * FACTOR + hashes[starts[here] + step]
            steps[:, step] = run
        yield steps, (np.searchsorted(bounds, starts, side="right") - 1 + low).astype(np.int32)


@dataclass(frozen=True, slots=True)
class PassageWords:
    """The words of some passages one after another: each its title, then its sentences, each with a mark at its end."""

    words: Integers
    sentence_starts: Integers
    """Where each sentence begins among the words; a title is a sentence too."""
    passage_starts: Integers
    """Where each passage begins among the words, and at last where they end."""
    passage_sentences: Integers
    """Where each passage begins among the sentences, and at last where they end."""

    def __len__(self) -> int:
        return len(self.passage_starts) - 1


@dataclass(frozen=True, slots=True)
class Mentions:
    """Where the passages mention names: by passage, and by name."""

    start: Integers
    """Where each mention begins among the words of its passage."""
    end: Integers
    name: Integers
    passage: Integers
    rarity: NDArray[np.float32]
    """The sum of the rarities of the mention's words."""
    bounds: Integers
    """Where the mentions of each passage begin."""
    by_name: Integers
    name_bounds: Integers

    def of_passage(self, passage: int) -> slice:
        """Gives where the mentions of a passage lie."""
        return slice(int(self.bounds[passage]), int(self.bounds[passage + 1]))

    def passages_with(self, name: int) -> Integers:
        """Gives the passages that mention a name, one for each mention."""
        return self.passage[self.by_name[self.name_bounds[name] : self.name_bounds[name + 1]]]


class NameGraph:
    """A graph of names that is opened for search."""

    def __init__(self, arrays: Arrays) -> None:
        def read(name: str, kind: type[np.generic]) -> NDArray[Any]:
            return arrays.read(name, kind)

        self._words: Integers = read("words", np.int32)
        self._passage_starts: NDArray[np.int64] = read("passage_starts", np.int64)
        self.keys: NDArray[np.int64] = read("keys", np.int64)
        self._key_order: Integers = read("key_order", np.int32)
        self._ids: NDArray[np.uint8] = read("ids", np.uint8)
        self._id_starts: NDArray[np.int64] = read("id_starts", np.int64)
        self.word_hash: NDArray[np.uint64] = read("word_hash", np.uint64)
        self._word_order: Integers = read("word_order", np.int32)
        self.word_stem: Integers = read("word_stem", np.int32)
        self.word_rarity: NDArray[np.float32] = read("word_rarity", np.float32)
        self.word_prefix: NDArray[np.uint32] = read("word_prefix", np.uint32)
        self._stem_hash: NDArray[np.uint64] = read("stem_hash", np.uint64)
        self._stem_order: Integers = read("stem_order", np.int32)
        self.stem_rarity: NDArray[np.float32] = read("stem_rarity", np.float32)
        self._name_hash: NDArray[np.uint64] = read("name_hash", np.uint64)
        self.name_bounds: Integers = read("name_bounds", np.int32)
        self.name_is_term: NDArray[np.bool_] = read("name_is_term", np.bool_)
        self.home_passage: Integers = read("home_passage", np.int32)
        self.home_kind: NDArray[np.uint8] = read("home_kind", np.uint8)
        self._own_name: Integers = read("own_name", np.int32)
        self._own_kind: NDArray[np.uint8] = read("own_kind", np.uint8)
        self._own_bounds: Integers = read("own_bounds", np.int32)
        self.named, self.shared = (
            Mentions(
                start=read(f"{prefix}_start", np.int32),
                end=read(f"{prefix}_end", np.int32),
                name=read(f"{prefix}_name", np.int32),
                passage=read(f"{prefix}_passage", np.int32),
                rarity=read(f"{prefix}_rarity", np.float32),
                bounds=read(f"{prefix}_bounds", np.int32),
                by_name=read(f"{prefix}_by_name", np.int32),
                name_bounds=read(f"{prefix}_name_bounds", np.int32),
            )
            for prefix in ("named", "shared")
        )

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def average_length(self) -> float:
        """Words of a passage on average, marks included."""
        return len(self._words) / max(len(self), 1)

    @cached_property
    def _sorted_keys(self) -> NDArray[np.int64]:
        return self.keys[self._key_order]

    @cached_property
    def _sorted_words(self) -> NDArray[np.uint64]:
        return self.word_hash[self._word_order]

    @cached_property
    def _sorted_stems(self) -> NDArray[np.uint64]:
        return self._stem_hash[self._stem_order]

    def numbers(self, keys: NDArray[np.int64]) -> Integers:
        """Gives the numbers of passages from their keys; -1 for a passage that the graph does not know."""
        return _look_up(self._sorted_keys, self._key_order, keys)

    def passage_id(self, passage: int) -> str:
        """Gives the id of a passage."""
        return self._ids[self._id_starts[passage] : self._id_starts[passage + 1]].tobytes().decode()

    def find_words(self, hashes: NDArray[np.uint64]) -> Integers:
        """Gives the numbers of words, -1 for unknown ones."""
        return _look_up(self._sorted_words, self._word_order, hashes)

    def find_stems(self, hashes: NDArray[np.uint64]) -> Integers:
        """Gives the numbers of stems, -1 for unknown ones."""
        return _look_up(self._sorted_stems, self._stem_order, hashes)

    def find_names(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Gives the names in a short text, which may overlap: starts, lengths and names."""
        found: list[tuple[int, int, int]] = []
        runs = np.zeros(len(words), np.uint64)
        for length in range(1, min(LONGEST_NAME, len(words)) + 1):
            runs = runs[: len(words) - length + 1] * FACTOR + words[length - 1 :]
            places = np.searchsorted(self._name_hash, runs)
            for start, place in enumerate(places.tolist()):
                if place < len(self._name_hash) and self._name_hash[place] == runs[start]:
                    found.append((start, length, place))
        starts, lengths, names = np.array(found, np.int64).reshape(-1, 3).T
        return starts, lengths, names

    def homes(self, name: int) -> slice:
        """Gives where a name's passages and kinds lie in `home_passage` and `home_kind`."""
        return slice(int(self.name_bounds[name]), int(self.name_bounds[name + 1]))

    def own_names(self, passage: int) -> Integers:
        """Gives the names of a passage that are sure: its title, with and without parentheses, and its subject."""
        here = slice(int(self._own_bounds[passage]), int(self._own_bounds[passage + 1]))
        return self._own_name[here][SURENESS[self._own_kind[here]] <= NameKind.SUBJECT]

    def read_words(self, passages: Integers) -> PassageWords:
        """Gives the words of some passages, in the order given."""
        begin = self._passage_starts[passages]
        lengths = self._passage_starts[passages + 1] - begin
        starts = np.zeros(len(passages) + 1, np.int32)
        np.cumsum(lengths, out=starts[1:])
        words = self._words[np.arange(starts[-1]) + np.repeat(begin - starts[:-1], lengths)]
        marks = np.flatnonzero(words <= 1)
        last = np.flatnonzero(words[marks] == 1)
        return PassageWords(
            words,
            np.concatenate(([0], marks[:-1] + 1)).astype(np.int32),
            starts,
            np.concatenate(([0], last + 1)).astype(np.int32),
        )


def _look_up(rising: NDArray[Any], order: Integers, wanted: NDArray[Any]) -> Integers:
    if not len(rising):
        return np.full(len(wanted), -1, np.int32)
    places = np.minimum(np.searchsorted(rising, wanted), len(rising) - 1)
    return np.where(rising[places] == wanted, order[places], np.int32(-1)).astype(np.int32)
