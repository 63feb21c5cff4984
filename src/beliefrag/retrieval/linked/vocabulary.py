"""The distinct words of a corpus: numbers, stems, and how rare each is."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
import tantivy
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter
from beliefrag.retrieval.linked.row_sorter import write_order
from beliefrag.retrieval.linked.tokens import (
    PASSAGE_END,
    SENTENCE_END,
    Tokens,
    hash_lines,
    hash_text,
    split_text,
)

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int32]

_ENGLISH = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.lowercase())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


_PREFIX = 5
_RARE_ENOUGH = 5.0
_FEW_PASSAGES = 3
_PART = 1 << 18
"""Words that are worked on at once where all of them are gone through."""
_Array = TypeVar("_Array", bound=NDArray[Any])


def hash_stems(words: list[str]) -> tuple[Hashes, Hashes]:
    """Gives the hashes of the stems of words, and of their first letters: `director` and `directed` share those."""
    joined = "\n".join(words)
    plain = _ENGLISH.analyze(joined) if joined.isascii() else []
    if words and len(plain) == len(words):
        return hash_lines("\n".join(plain), _PREFIX)
    # Outside ASCII some letters are part of a word for us and not for tantivy, so each word is stemmed by itself.
    stems = [_stem(word) for word in words]
    both = _hash_each(stems + [stem[:_PREFIX] for stem in stems])
    return both[: len(stems)], both[len(stems) :]


def _stem(word: str) -> str:
    stems = _ENGLISH.analyze(word)
    return stems[0] if len(stems) == 1 else word


def _hash_each(words: list[str]) -> Hashes:
    text = "\n".join(words)
    tokens = split_text(text)
    if len(tokens.hashes) == len(words):
        return tokens.hashes
    # Some word holds a character that is no word by itself, and is looked at alone.
    begins = np.cumsum([0, *(len(word) + 1 for word in words)])
    first = np.searchsorted(tokens.starts, begins)
    hashes = (
        tokens.hashes[np.minimum(first[:-1], len(tokens.hashes) - 1)]
        if len(tokens.hashes)
        else np.zeros(len(words), np.uint64)
    )
    for place in np.flatnonzero(np.diff(first) != 1).tolist():
        hashes[place] = hash_text(words[place])
    return hashes


class HashNumbers:
    """Numbers for 64-bit hashes in the order in which they come: a hash table that arrays are looked up in.

    Args:
        arrays: Gives memory for the table, which may lie in a file.
    """

    def __init__(self, arrays: ArrayWriter) -> None:
        self._arrays = arrays
        self._keys: Hashes = arrays.make_table(1 << 16, np.uint64)
        self._numbers: Integers = arrays.make_table(1 << 16, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, hashes: Hashes) -> Integers:
        """Gives the numbers of hashes, -1 for those that have none."""
        mask = np.uint64(len(self._keys) - 1)
        slots = ((hashes >> np.uint64(20)) & mask).view(np.int64)
        keys = self._keys.take(slots, mode="clip")
        result = self._numbers.take(slots, mode="clip")
        left = np.flatnonzero(keys != hashes)
        result[left] = -1
        left = left[keys[left] != 0]
        last = np.int64(mask)
        while len(left):
            slots[left] = (slots[left] + 1) & last
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
            old, held = self._keys, self._numbers
            size = 1 << (3 * self._count).bit_length()
            self._keys, self._numbers = (
                self._arrays.make_table(size, np.uint64),
                self._arrays.make_table(size, np.int32),
            )
            for low in range(0, len(old), _PART):
                filled = np.flatnonzero(old[low : low + _PART] != 0) + low
                self._insert(old[filled], held[filled])
        self._insert(hashes, numbers)
        return numbers

    def _insert(self, hashes: Hashes, numbers: Integers) -> None:
        mask = np.int64(len(self._keys) - 1)
        slots = (hashes >> np.uint64(20)).astype(np.int64) & mask
        while len(hashes):
            free = self._keys[slots] == 0
            self._keys[slots[free]] = hashes[free]
            # Of several that wanted one place the last has it; the others go on.
            won = self._keys[slots] == hashes
            self._numbers[slots[won]] = numbers[won]
            left = np.flatnonzero(~won)
            hashes, numbers, slots = hashes[left], numbers[left], (slots[left] + 1) & mask


class VocabularyBuilder:
    """Gathers the distinct words of a corpus block by block.

    Args:
        arrays: Where the words are written, and where tables lie that outgrow the memory.
    """

    def __init__(self, arrays: ArrayWriter) -> None:
        self._arrays = arrays
        self._words = HashNumbers(arrays)
        self._stems = HashNumbers(arrays)
        marks = np.array([SENTENCE_END, PASSAGE_END], np.uint64)
        self._words.add(marks)
        self._stems.add(marks)
        arrays.append("word_hash", marks)
        arrays.append("word_prefix", np.zeros(2, np.uint32))
        arrays.append("stem_hash", marks)
        self._word_stems = np.arange(2, dtype=np.int32)
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
        self._count_stems(numbers, tokens.passage_starts)
        return numbers

    def _count_stems(self, numbers: Integers, passage_starts: Integers) -> None:
        bits = len(self._stems).bit_length()
        passages = len(passage_starts) - 1
        # Pairs of a passage and a stem; small numbers are sorted faster.
        kind: type[np.unsignedinteger[Any]] = np.uint32 if passages << bits < 1 << 32 else np.uint64
        owners: NDArray[Any] = (np.arange(passages) << bits).astype(kind)
        pairs = np.repeat(owners, np.diff(passage_starts))
        pairs |= self._word_stems.take(numbers, mode="clip").astype(kind)
        pairs.sort()
        once = np.ones(len(pairs), bool)
        np.not_equal(pairs[1:], pairs[:-1], out=once[1:])
        self._frequency = self._with_room(self._frequency, len(self._stems))
        np.add.at(self._frequency, pairs[once] & kind((1 << bits) - 1), 1)

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
        missing = np.flatnonzero(known < 0)
        if len(missing):
            wanted = stems[missing]
            order = np.argsort(wanted)
            rising = wanted[order]
            is_first = np.ones(len(rising), bool)
            np.not_equal(rising[1:], rising[:-1], out=is_first[1:])
            new = rising[is_first]
            self._arrays.append("stem_hash", new)
            known[missing[order]] = self._stems.add(new)[np.cumsum(is_first) - 1]
        numbers = self._words.add(hashes)
        self._arrays.append("word_hash", hashes)
        self._arrays.append("word_prefix", (prefixes >> np.uint64(32)).astype(np.uint32))
        self._word_stems = self._with_room(self._word_stems, len(self._words))
        self._word_stems[numbers] = known
        self._letters = self._with_room(self._letters, len(self._words))
        self._letters[numbers] = tokens.letter[places]

    def finish(self, passages: int) -> NDArray[np.bool_]:
        """Writes stems, rarities and orders, and says which words begin with a letter.

        The marks at the ends of sentences and passages have no rarity.

        Args:
            passages: How many passages there are.
        """
        self._frequency = self._with_room(self._frequency, len(self._stems))
        for low in range(0, len(self._stems), _PART):
            frequency = self._frequency[low : min(low + _PART, len(self._stems))]
            rarity = inverse_frequency(frequency, passages)
            if low == 0:
                rarity[:2] = 0
            self._arrays.append("stem_rarity", rarity)
        stem_rarity = self._arrays.read("stem_rarity", np.float32)
        for low in range(0, len(self._words), _PART):
            stems = self._word_stems[low : min(low + _PART, len(self._words))]
            self._arrays.append("word_stem", stems)
            self._arrays.append("word_rarity", stem_rarity[stems])
        for name in ("word", "stem"):
            write_order(self._arrays, f"{name}_hash", np.uint64, f"{name}_order")
        return self._letters[: len(self._words)]

    def _with_room(self, array: _Array, size: int) -> _Array:
        """Gives the array with room for `size` values, at least doubled when it was too short."""
        if len(array) >= size:
            return array
        larger = self._arrays.make_table(max(size, 2 * len(array)), array.dtype)
        larger[: len(array)] = array
        return cast("_Array", larger)


def inverse_frequency(frequency: NDArray[np.int64], passages: int) -> NDArray[np.float32]:
    """BM25's inverse document frequency."""
    rarity: NDArray[np.float32] = np.log(1 + (passages - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
    return rarity


def rarity_needed(passages: int) -> float:
    """How rare the words of a name must be together, as a sum of inverse document frequencies, for it to say something.

    In a corpus of a few hundred passages no single word is that rare: there a word of three passages is enough.
    """
    return min(_RARE_ENOUGH, float(inverse_frequency(np.array([_FEW_PASSAGES]), passages)[0]))
