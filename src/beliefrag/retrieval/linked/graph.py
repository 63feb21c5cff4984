"""The graph of names: which passage has which name, and which passage mentions it, as arrays.

It is kept beside the index; `build` makes it. A mention is a place in a passage's words; a link is a mention together
with a passage that has the name. Names that no passage is about join the passages that mention them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import Arrays
from beliefrag.retrieval.linked.names import LONGEST_NAME, SURENESS, NameKind
from beliefrag.retrieval.linked.tokens import FACTOR

Integers = NDArray[np.int32]


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

    @cached_property
    def has_headings(self) -> bool:
        """Whether any passage stands below a heading or is the target of an explicit link."""
        return bool((self._own_kind >= NameKind.HEADING).any())

    def is_below_heading(self, passage: int) -> bool:
        """Says whether a passage stands below a heading or is the target of an explicit link."""
        here = self._own_kind[self._own_bounds[passage] : self._own_bounds[passage + 1]]
        return bool((here >= NameKind.HEADING).any())

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
