"""Cuts texts into words by array operations, and gives every word a 64-bit hash.

All characters of a block of passages stand in one array. Words, sentence ends and hashes come from a few passes of
numpy over it; no word becomes a Python object. That is what makes the graph of names cost about as much as
tantivy's own indexing instead of ten times as much.

A word is a run of letters and digits, or one character of a script that puts no space between words. Option names such
as `--dry-run` or `max_size` are runs of words like other names, so they need no rule of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int32]
Hashes = NDArray[np.uint64]

SENTENCE_END = np.uint64(1)
"""The hash of what ends a title or a sentence."""
PASSAGE_END = np.uint64(2)
"""The hash of what ends a passage."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Joins the hashes of the words of a name: `hash(a b) = hash(a) * FACTOR + hash(b)`."""

_TITLE_END, _TEXT_END = "\x1e", "\x1d"
_MARKS = (ord(_TITLE_END), ord(_TEXT_END))
_CONTROLS = str.maketrans({_TITLE_END: " ", _TEXT_END: " "})
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)

# What a character is, as bits.
_KNOWN, _WORD, _ALONE, _LOWER, _UPPER = 1, 2, 4, 8, 16
_BEFORE_STOP, _CLOSER, _SPACE, _OPENER, _BEGINS, _STOP, _FULL_STOP = 32, 64, 128, 256, 512, 1024, 2048
_END, _TITLE, _PARENTHESIS, _SIGN = 4096, 8192, 16384, 32768

_MASK = (1 << 64) - 1
_BASE = 0xD6E8FEB86659FD93
_INVERSE = pow(_BASE, -1, 1 << 64)
_LONGEST_SPACE = 64
_NEW_LINE, _HYPHEN = ord("\n"), ord("-")
_CODES = 0x110000
_PIECE = 100_000
"""Characters that are cut into words at once."""

_class = np.zeros(_CODES, np.uint16)
_value = np.zeros(_CODES, np.uint64)
"""A random number for each character in lower case."""


def _mix(number: int) -> int:
    """Spreads a small number over 64 bits (SplitMix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


def _learn(codes: NDArray[Any]) -> None:
    """Looks characters up in Unicode's tables, each once."""
    for code in codes.tolist():
        letter = chr(code)
        kind = _KNOWN
        if letter == _TEXT_END:
            kind |= _END
        if letter == _TITLE_END:
            kind |= _FULL_STOP | _TITLE
        is_word = letter.isalnum()
        if is_word:
            kind |= _WORD | _BEFORE_STOP * (not letter.isdecimal())
            kind |= _ALONE * bool(_UNSPACED.match(letter))
            kind |= _BEGINS * (not "a" <= letter <= "z")
        if letter.islower():
            kind |= _LOWER
        if letter.isupper() or letter.istitle():
            kind |= _UPPER
        kind |= (
            _CLOSER * (letter in ")]\"'”’")
            | _OPENER * (letter in "[(\"'“‘")
            | _SPACE * (letter.isspace() and code not in _MARKS)
        )
        kind |= _STOP * (letter in ".!?") | _FULL_STOP * (letter in "。！？；")
        kind |= _PARENTHESIS * (letter == "(") | _SIGN * (letter in "\n-_=")
        _value[code] = _mix(ord(letter.lower()[0]))
        _class[code] = kind


_learn(np.arange(256))

_powers = np.ones(1, np.uint64)
_inverse_powers = np.ones(1, np.uint64)


def _grow_powers(size: int) -> tuple[Hashes, Hashes]:
    global _powers, _inverse_powers
    if len(_powers) < size:
        base, inverse = np.full(2 * size, _BASE, np.uint64), np.full(2 * size, _INVERSE, np.uint64)
        base[0] = inverse[0] = 1
        inverse_powers = np.cumprod(inverse, dtype=np.uint64)
        _powers, _inverse_powers = np.cumprod(base, dtype=np.uint64), inverse_powers
        return _powers, inverse_powers
    return _powers, _inverse_powers


@dataclass(frozen=True, slots=True)
class TextTokens:
    """The words of one text: hashes, where each lies in the text, and which are written with a capital letter."""

    hashes: Hashes
    starts: Integers
    ends: Integers
    capital: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of some passages one after another.

    Each passage is its title, then its sentences; a mark ends each of them, and another mark ends the passage.
    """

    hashes: Hashes
    capital: NDArray[np.bool_]
    """Whether a word is not in small letters; numbers and scripts without capitals count as capitals."""
    letter: NDArray[np.bool_]
    """Whether a word begins with a letter."""
    passage_starts: Integers
    """Where each passage begins among the words, and at last where they end."""
    text: str
    """What the tokens were cut from."""
    starts: Integers
    """Where each word begins in `text`."""
    ends: Integers
    parentheses: Integers
    """Where a parenthesis opens in `text` that may hold an acronym or the section of a manual page, and ..."""
    signs: Integers
    """... where a sign stands that options and parameters are written with: a new line, `--`, `_` or `=`."""


def split_text(text: str) -> TextTokens:
    """Cuts a short text, such as a question, into words; sentence ends are left out."""
    hashes, starts, ends, capital, *_ = _split(text.translate(_CONTROLS))
    keep = hashes > PASSAGE_END
    return TextTokens(hashes[keep], starts[keep], ends[keep], capital[keep])


def split_passages(passages: Sequence[tuple[str, str]]) -> Tokens:
    """Cuts titles and texts into words and sentences."""
    pieces = list(_cut_pieces([f"{title}{_TITLE_END}{text}{_TEXT_END}" for title, text in passages]))
    columns = [_split(piece) for piece in pieces]
    ended = sum(len(column.final) for column in columns)
    titled = sum(np.count_nonzero(column.first & _TITLE) for column in columns)
    if ended != len(passages) or titled != len(passages):
        return split_passages([(title.translate(_CONTROLS), text.translate(_CONTROLS)) for title, text in passages])
    characters = words = 0
    bounds = [np.zeros(1, np.int32)]
    for piece, column in zip(pieces, columns, strict=True):
        for places in (column.starts, column.ends, column.parentheses, column.signs):
            np.add(places, characters, out=places)
        bounds.append((column.final + (words + 1)).astype(np.int32))
        characters += len(piece)
        words += len(column.hashes)
    joined = _Split(
        *(np.concatenate(column) if len(pieces) > 1 else column[0] for column in zip(*columns, strict=True))
    )
    return Tokens(
        joined.hashes,
        joined.capital,
        (joined.first & _BEFORE_STOP) != 0,
        np.concatenate(bounds),
        "".join(pieces),
        joined.starts,
        joined.ends,
        joined.parentheses,
        joined.signs,
    )


def _cut_pieces(passages: Sequence[str]) -> Iterator[str]:
    """Joins passages to texts of some hundred passages each, at least one of them.

    The arrays of a longer text would not fit into the processor's cache, and the system would have to find memory for
    each of them anew, which takes as long as the work itself.
    """
    first = size = 0
    for place, passage in enumerate(passages):
        if size and size + len(passage) > _PIECE:
            yield "".join(passages[first:place])
            first, size = place, 0
        size += len(passage)
    yield "".join(passages[first:])


def hash_text(text: str) -> int:
    """Gives the hash of a text that is one name: its words joined in order, 0 when it has none."""
    return int(hash_runs(split_text(text).hashes))


def hash_runs(words: Hashes) -> np.uint64:
    """Joins the hashes of the words of a name."""
    value = 0
    for word in words.tolist():
        value = (value * int(FACTOR) + word) & _MASK
    return np.uint64(value)


class _Split(NamedTuple):
    """The tokens of a text: what each is, and where some characters stand."""

    hashes: Hashes
    starts: Integers
    ends: Integers
    capital: NDArray[np.bool_]
    first: NDArray[np.uint16]
    """What the first character of each token is."""
    final: NDArray[np.int64]
    """Which tokens end a passage."""
    parentheses: Integers
    signs: Integers


def _split(text: str) -> _Split:
    """Cuts a text into tokens.

    These few passes over all characters are a good part of what a graph costs, so they avoid what numpy is slow at:
    `flatnonzero` of anything but truth values, and a binary search for each of many places.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
    kinds = _class.take(codes, mode="clip")
    if not kinds.min(initial=_KNOWN):
        _learn(np.unique(codes[kinds == 0]))
        kinds = _class.take(codes, mode="clip")
    count = len(codes)
    word = (kinds & _WORD) != 0
    # A word goes on where the character before belongs to it; one of a script without spaces is a word by itself.
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
    powers, inverse = _grow_powers(count + 1)
    summed = np.zeros(count + 1, np.uint64)
    values = _value.take(codes, mode="clip")
    values *= powers[:count]
    np.cumsum(values, out=summed[1:])
    hashes = summed.take(ends, mode="clip")
    hashes -= summed.take(starts, mode="clip")
    hashes *= inverse.take(starts, mode="clip")
    _spread(hashes)
    first, last = kinds.take(starts, mode="clip"), kinds.take(ends - 1, mode="clip")
    capital = (((first | last) & _LOWER) == 0) | ((first & _UPPER) != 0)
    within = ((kinds & _UPPER) != 0) & ~begins
    capital[np.searchsorted(starts, np.flatnonzero(within), side="right") - 1] = True
    hashes[mark.take(starts, mode="clip")] = SENTENCE_END
    final = np.flatnonzero((first & _END) != 0)
    hashes[final] = PASSAGE_END
    parentheses, signs = _find_signs(codes, kinds)
    return _Split(hashes, starts.astype(np.int32), ends.astype(np.int32), capital, first, final, parentheses, signs)


def _find_signs(codes: NDArray[np.int64], kinds: NDArray[np.uint16]) -> tuple[Integers, Integers]:
    """Gives the places of parentheses that may hold an acronym or the section of a manual page, and those of signs.

    Behind such a parenthesis stands a space, a quote, a capital letter without a small one, or a single digit.
    """
    places = np.flatnonzero((kinds & (_PARENTHESIS | _SIGN)) != 0)
    opens = places[(kinds[places] & _PARENTHESIS) != 0]
    after, second = (kinds.take(opens + step, mode="clip") for step in (1, 2))
    likely = (after & (_SPACE | _OPENER)) != 0
    likely |= ((after & _UPPER) != 0) & ((second & _LOWER) == 0)
    likely |= ((after & (_WORD | _BEFORE_STOP)) == _WORD) & ((second & (_LOWER | _CLOSER)) != 0)
    signs = places[(kinds[places] & _SIGN) != 0]
    # A hyphen is a sign together with another one.
    signs = signs[(codes[signs] != _HYPHEN) | (codes.take(signs + 1, mode="clip") == _HYPHEN)]
    return opens[likely].astype(np.int32), signs.astype(np.int32)


def _spread(hashes: Hashes) -> None:
    """Spreads sums of characters over 64 bits, in place; the result is never one of the marks."""
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(32)
    hashes |= np.uint64(4)


def hash_lines(words: str, most: int) -> tuple[Hashes, Hashes]:
    """Gives the hash of each line of ASCII, which must be one word, and that of so many of its first letters."""
    codes = np.frombuffer(words.encode("ascii"), np.uint8)
    ends = np.append(np.flatnonzero(codes == _NEW_LINE), len(codes))
    starts = np.concatenate(([0], ends[:-1] + 1))
    powers, inverse = _grow_powers(len(codes) + 1)
    summed = np.zeros(len(codes) + 1, np.uint64)
    values = _value.take(codes.astype(np.int64), mode="clip")
    values *= powers[: len(codes)]
    np.cumsum(values, out=summed[1:])
    before, factor = summed[starts], inverse[starts]
    hashes, prefixes = ((summed[each] - before) * factor for each in (ends, np.minimum(ends, starts + most)))
    _spread(hashes)
    _spread(prefixes)
    return hashes, prefixes


def _find_sentence_ends(kinds: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Gives the stops that end a sentence: after a word of two letters or more, before a space and a capital letter."""
    stops = np.flatnonzero((kinds & _STOP) != 0)
    stops = stops[stops >= 2]
    before, earlier = kinds[stops - 1], kinds[stops - 2]
    small = ((earlier & _BEFORE_STOP) != 0) & ((earlier & _UPPER) == 0)
    stops = stops[small & ((before & (_WORD | _CLOSER)) != 0)]
    last = len(kinds)
    place = stops + 1

    def are(kind: int, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(((kinds.take(places, mode="clip") & kind) != 0) & (places < last))

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
    ends: NDArray[np.int64] = stops[spaced & are(_BEGINS, place)]
    return ends
