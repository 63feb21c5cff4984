"""Reads a block of passages for the graph of names: their words, names and links, whatever the other blocks hold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.explicit import BlockLinks, find_links
from beliefrag.retrieval.linked.names import (
    TERM_SIGNS,
    NameHasher,
    NameKind,
    further_names,
    has_further_names,
    hash_names,
    long_form_before,
    may_have_terms,
    own_acronym,
    possible_acronyms,
    subject_end,
    terms_in,
)
from beliefrag.retrieval.linked.tokens import Tokens, split_passages
from beliefrag.retrieval.passage_store import PassageRow

__all__ = ["BlockNames", "ReadBlock", "read_block"]

Integers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BlockNames:
    """The names of a block of passages, which are counted from its first one."""

    hashes: NDArray[np.uint64]
    passages: Integers
    kinds: NDArray[np.uint8]
    beginnings: tuple[NDArray[np.uint32], ...]
    """The upper halves of the hashes of all beginnings of names."""
    acronyms: NDArray[np.uint64] | None
    """Rows of an acronym, its long form, and the passage that explains it."""


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """What a block of passages gives by itself, whatever came before it."""

    keys: NDArray[np.int64]
    ids: tuple[bytes, ...]
    tokens: Tokens
    names: BlockNames
    links: BlockLinks


def read_block(rows: Sequence[PassageRow]) -> ReadBlock:
    """Splits passages into words and finds their names. It runs on workers, too."""
    tokens = split_passages([(row.title, row.text) for row in rows])
    return ReadBlock(
        np.array([row.key for row in rows], np.int64),
        tuple(row.id.encode() for row in rows),
        tokens,
        _find_names(rows, tokens),
        find_links(rows, tokens),
    )


def _find_names(rows: Sequence[PassageRow], tokens: Tokens) -> BlockNames:
    # Titles and subjects, which are nearly all names, stand in the words of the block; others are cut into words.
    begins: list[int] = []
    ends: list[int] = []
    owners: list[int] = []
    kinds: list[int] = []
    others: list[tuple[str, int, NameKind]] = []
    bodies: list[int] = []
    place = 0
    for number, (_, _, title, text, *_) in enumerate(rows):
        body = place + len(title) + 1
        bodies.append(body)
        if title:
            begins.append(place)
            ends.append(body - 1)
            owners.append(number)
            kinds.append(NameKind.TITLE)
            if has_further_names(title):
                others += [(name, number, kind) for name, kind in further_names(title)]
        end = subject_end(title, text)
        if end:
            begins.append(body)
            ends.append(body + end)
            owners.append(number)
            kinds.append(NameKind.SUBJECT)
        acronym = own_acronym(title or text[:end], text)
        if acronym:
            others.append((acronym, number, NameKind.ACRONYM))
        place = body + len(text) + 1
    for number in _possible_manual_entries(tokens.text, bodies):
        if may_have_terms(rows[number].text):
            others += [(name, number, kind) for name, kind in terms_in(rows[number].text)]
    explained: list[tuple[str, str, int]] = []
    for at, letters in possible_acronyms(tokens.text):
        number = bisect_right(bodies, at) - 1
        # What stands behind the text of a passage is the title of the next one.
        if number >= 0 and at - bodies[number] < len(rows[number].text):
            long_form = long_form_before(rows[number].text, at - bodies[number], letters)
            if long_form:
                explained.append((letters, long_form, number))
    found, beginnings = NameHasher(tokens).hash_spans(np.array(begins, np.int32), np.array(ends, np.int32))
    # One call for all: each has its price.
    other, other_beginnings = hash_names(
        [*(name for name, _, _ in others), *(each for row in explained for each in row[:2])]
    )
    table = None
    if explained:
        acronyms, long_forms = other[len(others) :: 2], other[len(others) + 1 :: 2]
        numbers = np.array([number for _, _, number in explained], np.uint64)
        table = np.stack((acronyms, long_forms, numbers), 1)[(acronyms != 0) & (long_forms != 0)]
    hashes = np.concatenate((found, other[: len(others)]))
    keep = hashes != 0
    return BlockNames(
        hashes[keep],
        np.array(owners + [number for _, number, _ in others], np.int32)[keep],
        np.array(kinds + [kind for *_, kind in others], np.uint8)[keep],
        (beginnings, other_beginnings),
        table,
    )


def _possible_manual_entries(whole: str, bodies: Sequence[int]) -> list[int]:
    """Gives the passages in which a sign of terms may stand: one look at all texts instead of one at each of them.

    A sign in a title is taken for one in the text before it.
    """
    found: set[int] = set()
    for sign in TERM_SIGNS:
        at = whole.find(sign)
        while at >= 0:
            number = bisect_right(bodies, at) - 1
            found.add(max(number, 0))
            at = whole.find(sign, max(at + 1, bodies[number + 1])) if number + 1 < len(bodies) else -1
    return sorted(found)
