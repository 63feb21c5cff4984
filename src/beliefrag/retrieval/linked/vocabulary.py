"""The distinct words of a corpus: numbers, stems, and how rare each is."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
import tantivy
from numpy.typing import NDArray

from beliefrag.retrieval.linked.tokens import PASSAGE_END, SENTENCE_END, Tokens, hash_text, split_passages

__all__ = ["HashNumbers", "VocabularyBuilder", "hash_stems", "inverse_frequency"]

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int32]

_ENGLISH = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.lowercase())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


_PREFIX = 5


def hash_stems(words: list[str]) -> tuple[Hashes, Hashes]:
    """Gives the hashes of the stems of words, and of their first letters: `director` and `directed` share those."""
    plain = _ENGLISH.analyze("\n".join(words)) if "".join(words).isascii() else []
    # Outside ASCII some letters are part of a word for us and not for tantivy, so each word is stemmed by itself.
    stems = plain if len(plain) == len(words) else [_stem(word) for word in words]
    return _hash_each(stems), _hash_each([stem[:_PREFIX] for stem in stems])


def _stem(word: str) -> str:
    stems = _ENGLISH.analyze(word)
    return stems[0] if len(stems) == 1 else word


def _hash_each(words: list[str]) -> Hashes:
    tokens = split_passages([("", "\n".join(words))])
    hashes = tokens.hashes[tokens.hashes > PASSAGE_END]
    if len(hashes) == len(words):
        return hashes
    # Some word holds a character that is no word by itself, so each is looked at alone.
    tokens = split_passages([("", word) for word in words])
    ends = np.flatnonzero(tokens.hashes == PASSAGE_END)
    hashes = tokens.hashes[ends - 1]
    for place in np.flatnonzero(np.diff(ends, prepend=-1) != 3).tolist():
        hashes[place] = hash_text(words[place])
    return hashes


class HashNumbers:
    """Numbers for 64-bit hashes in the order in which they come: a hash table that arrays are looked up in."""

    def __init__(self) -> None:
        self._keys = np.zeros(1 << 16, np.uint64)
        self._numbers = np.zeros(1 << 16, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, hashes: Hashes) -> Integers:
        """Gives the numbers of hashes, -1 for those that have none."""
        result = np.full(len(hashes), -1, np.int32)
        mask = np.int64(len(self._keys) - 1)
        slots = (hashes >> np.uint64(20)).astype(np.int64) & mask
        keys = self._keys[slots]
        hit = keys == hashes
        result[hit] = self._numbers[slots[hit]]
        left = np.flatnonzero(~hit & (keys != 0))
        while len(left):
            slots[left] = (slots[left] + 1) & mask
            keys = self._keys[slots[left]]
            hit = keys == hashes[left]
            result[left[hit]] = self._numbers[slots[left[hit]]]
            left = left[~hit & (keys != 0)]
        return result

    def add(self, hashes: Hashes) -> Integers:
        """Numbers new hashes, each given once, and returns their numbers."""
        numbers = np.arange(self._count, self._count + len(hashes), dtype=np.int32)
        self._count += len(hashes)
        if 2 * self._count > len(self._keys):
            filled = self._keys != 0
            keys, held = self._keys[filled], self._numbers[filled]
            size = 1 << (3 * self._count).bit_length()
            self._keys, self._numbers = np.zeros(size, np.uint64), np.zeros(size, np.int32)
            self._insert(keys, held)
        self._insert(hashes, numbers)
        return numbers

    def _insert(self, hashes: Hashes, numbers: Integers) -> None:
        mask = np.int64(len(self._keys) - 1)
        slots = (hashes >> np.uint64(20)).astype(np.int64) & mask
        left = np.arange(len(hashes))
        while len(left):
            free = self._keys[slots[left]] == 0
            self._keys[slots[left[free]]] = hashes[left[free]]
            # Of several that wanted one place the last has it; the others go on.
            won = self._keys[slots[left]] == hashes[left]
            self._numbers[slots[left[won]]] = numbers[left[won]]
            left = left[~won]
            slots[left] = (slots[left] + 1) & mask


class VocabularyBuilder:
    """Gathers the distinct words of a corpus block by block."""

    def __init__(self) -> None:
        self._words = HashNumbers()
        self._stems = HashNumbers()
        self._words.add(np.array([SENTENCE_END, PASSAGE_END], np.uint64))
        self._stems.add(np.array([SENTENCE_END, PASSAGE_END], np.uint64))
        self._word_hashes = [np.array([SENTENCE_END, PASSAGE_END], np.uint64)]
        self._stem_hashes = [self._word_hashes[0]]
        self._word_stems = np.arange(2, dtype=np.int32)
        self._prefixes = np.zeros(2, np.uint32)
        self._letters = np.zeros(2, bool)
        self._frequency = np.zeros(2, np.int64)

    def add(self, tokens: Tokens) -> Integers:
        """Gives the numbers of the words of some passages, and counts in how many passages each stem stands."""
        numbers = self._words.find(tokens.hashes)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            fresh, first = np.unique(tokens.hashes[new], return_index=True)
            self._add_words(fresh, new[first], tokens)
            numbers[new] = self._words.find(tokens.hashes[new])
        stems = self._word_stems[numbers].astype(np.int64)
        owner = np.repeat(np.arange(len(tokens.passage_starts) - 1), np.diff(tokens.passage_starts))
        pairs = np.sort(owner << 32 | stems)
        once = np.ones(len(pairs), bool)
        once[1:] = pairs[1:] != pairs[:-1]
        held, counts = np.unique(pairs[once] & 0xFFFFFFFF, return_counts=True)
        self._frequency = _with_room(self._frequency, len(self._stems))
        self._frequency[held] += counts
        return numbers

    def _add_words(self, hashes: Hashes, places: NDArray[np.int64], tokens: Tokens) -> None:
        text, starts, ends = tokens.text, tokens.starts[places].tolist(), tokens.ends[places].tolist()
        words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        plain_words = np.array([word.isascii() for word in words], bool)
        ascii_from = len(words) - int(plain_words.sum())
        order = np.argsort(plain_words, kind="stable")
        hashes, places = hashes[order], places[order]
        words = [words[place] for place in order.tolist()]
        (other, other_prefixes), (plain, plain_prefixes) = (
            hash_stems(words[:ascii_from]),
            hash_stems(words[ascii_from:]),
        )
        stems, prefixes = np.concatenate((other, plain)), np.concatenate((other_prefixes, plain_prefixes))
        known = self._stems.find(stems)
        new = np.unique(stems[known < 0])
        if len(new):
            self._stems.add(new)
            self._stem_hashes.append(new)
            known = self._stems.find(stems)
        numbers = self._words.add(hashes)
        self._word_hashes.append(hashes)
        self._word_stems = _with_room(self._word_stems, len(self._words))
        self._word_stems[numbers] = known
        self._prefixes = _with_room(self._prefixes, len(self._words))
        self._prefixes[numbers] = (prefixes >> np.uint64(32)).astype(np.uint32)
        self._letters = _with_room(self._letters, len(self._words))
        self._letters[numbers] = tokens.letter[places]

    def word_hashes(self) -> Hashes:
        """Gives the hash of each word, by number."""
        return np.concatenate(self._word_hashes)

    def stem_hashes(self) -> Hashes:
        """Gives the hash of each stem, by number."""
        return np.concatenate(self._stem_hashes)

    @property
    def word_stems(self) -> Integers:
        """The stem of each word, by number."""
        return self._word_stems[: len(self._words)]

    @property
    def word_prefixes(self) -> NDArray[np.uint32]:
        """A hash of the first letters of each word's stem, by number."""
        return self._prefixes[: len(self._words)]

    @property
    def letters(self) -> NDArray[np.bool_]:
        """Which words begin with a letter, by number."""
        return self._letters[: len(self._words)]

    def stem_rarity(self, passages: int) -> NDArray[np.float32]:
        """Says how rare each stem is; nothing for the marks at the ends of sentences and passages."""
        self._frequency = _with_room(self._frequency, len(self._stems))
        rarity = inverse_frequency(self._frequency[: len(self._stems)], passages)
        rarity[:2] = 0
        return rarity


def inverse_frequency(frequency: NDArray[np.int64], passages: int) -> NDArray[np.float32]:
    """BM25's inverse document frequency."""
    rarity: NDArray[np.float32] = np.log(1 + (passages - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
    return rarity


_Array = TypeVar("_Array", bound=NDArray[Any])


def _with_room(array: _Array, size: int) -> _Array:
    """Gives the array with room for `size` values, at least doubled when it was too short."""
    if len(array) >= size:
        return array
    larger = np.zeros(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return cast("_Array", larger)
