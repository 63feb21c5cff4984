"""Split texts into words with array operations, hash every word, and number the words and stems of a corpus.

No word becomes a Python object. A word is a run of letters and digits, or one character of a script without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.languages import analyse_english

if TYPE_CHECKING:
    from beliefrag.retrieval.linked.graph import Arrays

Integers = NDArray[np.int32]
Long = NDArray[np.int64]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

SENTENCE_END = np.uint64(1)
PASSAGE_END = np.uint64(2)
"""The hashes of the marks after a title or a sentence and after a passage; their word numbers are 0 and 1."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Joins the hashes of the words of a name: `hash(a b) = hash(a) * FACTOR + hash(b)`."""

_TITLE_END, _TEXT_END = "\x1e", "\x1d"
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)

# Classes of characters.
_KNOWN, _WORD, _ALONE, _LOWER, _UPPER, _BEFORE_STOP = 1, 2, 4, 8, 16, 32
_CLOSER, _SPACE, _OPENER, _BEGINS, _STOP, _FULL_STOP, _END = 64, 128, 256, 512, 1024, 2048, 4096

_MASK = (1 << 64) - 1
_BASE = 0xD6E8FEB86659FD93
_LONGEST_SPACE = 64
_PREFIX = 5
_RARE_ENOUGH = 5.0
_FEW_PASSAGES = 3

_class = np.zeros(0x110000, np.uint16)
_value = np.zeros(0x110000, np.uint64)
_powers = _inverse_powers = np.ones(1, np.uint64)


def _mix(number: int) -> int:
    """Spread a small number over 64 bits (SplitMix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


def _learn(codes: NDArray[Any]) -> None:
    """Look characters up in Unicode's tables, each once."""
    for code in codes.tolist():
        letter = chr(code)
        kind = _KNOWN | _END * (letter == _TEXT_END)
        kind |= _STOP * (letter in ".!?") | _FULL_STOP * (letter in f"。！？；{_TITLE_END}")
        kind |= _CLOSER * (letter in ")]\"'”’") | _OPENER * (letter in "[(\"'“‘")
        kind |= _SPACE * (letter.isspace() and letter not in (_TITLE_END, _TEXT_END))
        kind |= _LOWER * letter.islower() | _UPPER * (letter.isupper() or letter.istitle())
        if letter.isalnum():
            kind |= _WORD | _BEFORE_STOP * (not letter.isdecimal()) | _BEGINS * (not "a" <= letter <= "z")
            kind |= _ALONE * bool(_UNSPACED.match(letter))
        _value[code] = _mix(ord(letter.lower()[0]))
        _class[code] = kind


_learn(np.arange(256))


class Tokens(NamedTuple):
    """The words of a text or of passages: title and sentences with a mark after each, and a mark after the passage."""

    text: str
    hashes: Hashes
    starts: Integers
    ends: Integers
    """The bounds of each word in `text`."""
    capital: Flags
    """Whether a word has capitals; numbers and scripts without capitals count as capitals."""
    letter: Flags
    passage_starts: Integers


def split_text(text: str) -> Tokens:
    """Split a short text into words without marks."""
    tokens = _split(_without_marks(text))
    keep = tokens.hashes > PASSAGE_END
    hashes, starts, ends = tokens.hashes[keep], tokens.starts[keep], tokens.ends[keep]
    return Tokens(tokens.text, hashes, starts, ends, tokens.capital[keep], tokens.letter[keep], tokens.passage_starts)


def split_passages(passages: Sequence[tuple[str, str]]) -> Tokens:
    """Split titles and texts into words and sentences."""
    joined = "".join(f"{title}{_TITLE_END}{text}{_TEXT_END}" for title, text in passages)
    if any(joined.count(mark) != len(passages) for mark in (_TITLE_END, _TEXT_END)):
        return split_passages([(_without_marks(title), _without_marks(text)) for title, text in passages])
    return _split(joined)


def _without_marks(text: str) -> str:
    return text.replace(_TITLE_END, " ").replace(_TEXT_END, " ")


def _classify(text: str) -> tuple[Long, NDArray[np.uint16]]:
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
    kinds = _class.take(codes, mode="clip")
    if not kinds.min(initial=_KNOWN):
        _learn(np.unique(codes[kinds == 0]))
        kinds = _class.take(codes, mode="clip")
    return codes, kinds


def _hash_spans(codes: Long, *spans: tuple[NDArray[Any], NDArray[Any]]) -> list[Hashes]:
    """Hash the characters of spans; no hash equals that of a mark."""
    global _powers, _inverse_powers
    count = len(codes)
    if len(_powers) <= count:
        base, inverse = (np.full(2 * count + 2, each, np.uint64) for each in (_BASE, pow(_BASE, -1, 1 << 64)))
        base[0] = inverse[0] = 1
        _powers, _inverse_powers = np.cumprod(base, dtype=np.uint64), np.cumprod(inverse, dtype=np.uint64)
    summed = np.zeros(count + 1, np.uint64)
    values = _value.take(codes, mode="clip")
    values *= _powers[:count]
    np.cumsum(values, out=summed[1:])
    result = []
    for starts, ends in spans:
        hashes = summed.take(ends, mode="clip")
        hashes -= summed.take(starts, mode="clip")
        hashes *= _inverse_powers.take(starts, mode="clip")
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
        hashes |= np.uint64(4)
        result.append(hashes)
    return result


def _split(text: str) -> Tokens:
    """Split a text into words and marks; `flatnonzero` is fast for truth values only."""
    codes, kinds = _classify(text)
    word = (kinds & _WORD) != 0
    joined = word[1:] & word[:-1]
    if np.bitwise_or.reduce(kinds) & _ALONE:
        alone = (kinds & _ALONE) != 0
        joined &= ~(alone[1:] | alone[:-1])
    mark = (kinds & (_FULL_STOP | _END)) != 0
    mark[_find_sentence_ends(kinds)] = True
    begins = word | mark
    finishes = begins.copy()
    np.logical_not(joined, out=joined)
    begins[1:] &= joined
    finishes[:-1] &= joined
    starts, ends = np.flatnonzero(begins), np.flatnonzero(finishes) + 1
    (hashes,) = _hash_spans(codes, (starts, ends))
    first, last = kinds.take(starts, mode="clip"), kinds.take(ends - 1, mode="clip")
    capital = (((first | last) & _LOWER) == 0) | ((first & _UPPER) != 0)
    within = ((kinds & _UPPER) != 0) & ~begins
    capital[np.searchsorted(starts, np.flatnonzero(within), side="right") - 1] = True
    hashes[mark.take(starts, mode="clip")] = SENTENCE_END
    final = np.flatnonzero((first & _END) != 0)
    hashes[final] = PASSAGE_END
    bounds = np.concatenate(([0], final + 1)).astype(np.int32)
    letter = (first & _BEFORE_STOP) != 0
    return Tokens(text, hashes, starts.astype(np.int32), ends.astype(np.int32), capital, letter, bounds)


def _find_sentence_ends(kinds: NDArray[np.uint16]) -> Long:
    """Find the stops that end a sentence: after a word of two letters or more, before a space and a capital letter."""
    stops = np.flatnonzero((kinds & _STOP) != 0)
    stops = stops[stops >= 2]
    before, earlier = kinds[stops - 1], kinds[stops - 2]
    small = ((earlier & _BEFORE_STOP) != 0) & ((earlier & _UPPER) == 0)
    stops = stops[small & ((before & (_WORD | _CLOSER)) != 0)]
    place = stops + 1

    def are(kind: int, places: Long) -> Flags:
        return np.asarray(((kinds.take(places, mode="clip") & kind) != 0) & (places < len(kinds)))

    def skip(kind: int, most: int) -> None:
        moving = np.arange(len(place))
        for _ in range(most):
            moving = moving[are(kind, place[moving])]
            if not len(moving):
                return
            place[moving] += 1

    skip(_CLOSER, 4)
    after_closers = place.copy()
    skip(_SPACE, _LONGEST_SPACE)
    spaced = place > after_closers
    skip(_OPENER, 4)
    ends: Long = stops[spaced & are(_BEGINS, place)]
    return ends


def hash_stems(words: Sequence[str]) -> tuple[Hashes, Hashes]:
    """Hash the stems of words, and their first letters: `director` and `directed` share those."""
    plain = iter(analyse_english("\n".join(word for word in words if word.isascii())))
    # Tantivy may split a word outside ASCII.
    stems = [next(plain) if word.isascii() else _stem(word) for word in words]
    ends = np.cumsum([len(stem) for stem in stems])
    starts = np.concatenate(([0], ends[:-1]))
    codes, _ = _classify("".join(stems))
    whole, prefixes = _hash_spans(codes, (starts, ends), (starts, np.minimum(ends, starts + _PREFIX)))
    return whole, prefixes


def _stem(word: str) -> str:
    stems = analyse_english(word)
    return stems[0] if len(stems) == 1 else word


def find_hashes(rising: NDArray[Any], wanted: NDArray[Any]) -> Long:
    """Return the first index of each wanted hash among rising ones, -1 if it is missing."""
    places = np.full(len(wanted), -1, np.int64)
    if len(rising):
        # A search for rising hashes is several times faster.
        order = np.argsort(wanted)
        places[order] = np.searchsorted(rising, wanted[order])
        places[places == len(rising)] = 0
        places[rising[places] != wanted] = -1
    return places


class _HashNumbers:
    """Number hashes in the order of their arrival, by a hash table with open addressing."""

    def __init__(self, arrays: Arrays, first: Hashes) -> None:
        self._arrays = arrays
        self._keys, self._numbers = np.zeros(1 << 16, np.uint64), np.zeros(1 << 16, np.int32)
        self.count = 0
        self.add(first)

    def find(self, hashes: Hashes) -> Integers:
        """Return the numbers of hashes, -1 for new ones."""
        mask = np.int64(len(self._keys) - 1)
        slots = (hashes >> np.uint64(20)).view(np.int64) & mask
        keys = self._keys.take(slots, mode="clip")
        result = self._numbers.take(slots, mode="clip")
        left = np.flatnonzero(keys != hashes)
        result[left] = -1
        left = left[keys[left] != 0]
        while len(left):
            slots[left] = (slots[left] + 1) & mask
            keys = self._keys[slots[left]]
            hit = keys == hashes[left]
            result[left[hit]] = self._numbers[slots[left[hit]]]
            left = left[~hit & (keys != 0)]
        return result

    def add(self, hashes: Hashes) -> Integers:
        """Assign numbers to distinct new hashes."""
        numbers = np.arange(self.count, self.count + len(hashes), dtype=np.int32)
        self.count += len(hashes)
        if 2 * self.count > len(self._keys):
            keys, held = self._keys, self._numbers
            size = 1 << (3 * self.count).bit_length()
            self._keys = self._arrays.make_table(size, np.uint64)
            self._numbers = self._arrays.make_table(size, np.int32)
            self._insert(keys[keys != 0], held[keys != 0])
        self._insert(hashes, numbers)
        return numbers

    def _insert(self, hashes: Hashes, numbers: Integers) -> None:
        mask = np.int64(len(self._keys) - 1)
        slots = (hashes >> np.uint64(20)).astype(np.int64) & mask
        while len(hashes):
            free = self._keys[slots] == 0
            self._keys[slots[free]] = hashes[free]
            # Of several hashes for one slot the last has won.
            won = self._keys[slots] == hashes
            self._numbers[slots[won]] = numbers[won]
            hashes, numbers, slots = hashes[~won], numbers[~won], (slots[~won] + 1) & mask


class VocabularyBuilder:
    """Number the distinct words of a corpus block by block, and count the passages of each stem."""

    def __init__(self, arrays: Arrays) -> None:
        marks = np.array([SENTENCE_END, PASSAGE_END], np.uint64)
        self._arrays = arrays
        self._words, self._stems = _HashNumbers(arrays, marks), _HashNumbers(arrays, marks)
        self._word_stems, self._frequency = np.arange(2, dtype=np.int32), np.zeros(2, np.int64)
        arrays.append("stem_met", marks)
        arrays.append("word_hash", marks)
        arrays.append("word_prefix", np.zeros(2, np.uint32))
        arrays.append("word_letter", np.zeros(2, bool))

    def add(self, tokens: Tokens) -> Integers:
        """Return the numbers of the words of some passages."""
        numbers = self._words.find(tokens.hashes)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            fresh, first = np.unique(tokens.hashes[new], return_index=True)
            self._add_words(fresh, new[first], tokens)
            numbers[new] = self._words.find(tokens.hashes[new])
        self._count_stems(self._word_stems.take(numbers, mode="clip"), tokens.passage_starts)
        return numbers

    def _add_words(self, hashes: Hashes, places: Long, tokens: Tokens) -> None:
        spans = zip(tokens.starts[places].tolist(), tokens.ends[places].tolist(), strict=True)
        stems, prefixes = hash_stems([tokens.text[start:end] for start, end in spans])
        new = np.unique(stems[self._stems.find(stems) < 0])
        self._stems.add(new)
        self._frequency = _grow(self._frequency, self._stems.count)
        numbers = self._words.add(hashes)
        self._word_stems = _grow(self._word_stems, self._words.count)
        self._word_stems[numbers] = self._stems.find(stems)
        self._arrays.append("stem_met", new)
        self._arrays.append("word_hash", hashes)
        self._arrays.append("word_letter", tokens.letter[places])
        self._arrays.append("word_prefix", (prefixes >> np.uint64(32)).astype(np.uint32))

    def _count_stems(self, stems: Integers, passage_starts: Integers) -> None:
        bits = self._stems.count.bit_length()
        passages = len(passage_starts) - 1
        # Small numbers are sorted faster.
        kind: type[np.unsignedinteger[Any]] = np.uint32 if passages << bits < 1 << 32 else np.uint64
        pairs = np.repeat((np.arange(passages) << bits).astype(kind), np.diff(passage_starts))
        pairs |= stems.astype(kind)
        pairs.sort()
        once = np.ones(len(pairs), bool)
        np.not_equal(pairs[1:], pairs[:-1], out=once[1:])
        np.add.at(self._frequency, pairs[once] & kind((1 << bits) - 1), 1)

    def finish(self, passages: int) -> None:
        """Write stems, in the order of their hashes, and rarities."""
        order = np.argsort(self._arrays.read("stem_met", np.uint64))
        rarity = inverse_frequency(self._frequency[: self._stems.count], passages)
        rarity[:2] = 0
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        words = self._word_stems[: self._words.count]
        self._arrays.append("stem_hash", self._arrays.read("stem_met", np.uint64)[order])
        self._arrays.append("stem_rarity", rarity[order])
        self._arrays.append("word_stem", place[words])
        self._arrays.append("word_rarity", rarity[words])
        self._arrays.remove("stem_met")


def _grow(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with room for `size` values, at least doubled if it was too short."""
    if len(array) >= size:
        return array
    return np.concatenate((array, np.zeros(max(size, 2 * len(array)) - len(array), array.dtype)))


def inverse_frequency(frequency: Long, passages: int) -> Floats:
    """Return BM25's inverse document frequency."""
    return np.asarray(np.log(1 + (passages - frequency + 0.5) / (frequency + 0.5)), np.float32)


def rarity_needed(passages: int) -> float:
    """Return the least rarity of a name's words together; in a small corpus a word of three passages is enough."""
    return min(_RARE_ENOUGH, float(inverse_frequency(np.array([_FEW_PASSAGES]), passages)[0]))
