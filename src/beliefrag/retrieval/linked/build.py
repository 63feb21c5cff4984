"""Makes the graph of names from the passages of an index, in memory that does not grow with them.

Passages are read in blocks. What grows with their number lies in files: rows that must be sorted wait in sorted runs
(`row_sorter`), and tables that are looked up in are mapped (`ArrayWriter.make_table`), so that the system can drop
their pages from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter
from beliefrag.retrieval.linked.explicit import BlockLinks, FoundLinks, find_links
from beliefrag.retrieval.linked.mentions import BLOCK, CAPITAL, CorpusWords, write_all_mentions
from beliefrag.retrieval.linked.name_index import BlockNames, FoundNames
from beliefrag.retrieval.linked.names import (
    NameHasher,
    NameKind,
    acronym_at,
    further_names,
    has_further_names,
    hash_names,
    long_form_before,
    may_have_terms,
    own_acronym,
    own_acronym_at,
    subject_end,
    terms_in,
)
from beliefrag.retrieval.linked.row_sorter import MOST_ROWS, write_order
from beliefrag.retrieval.linked.tokens import Tokens, split_passages
from beliefrag.retrieval.linked.vocabulary import VocabularyBuilder
from beliefrag.retrieval.store import PassageRow

Integers = NDArray[np.int32]

FORMAT = 4
"""The version of the arrays. A graph of another version is built again."""

MapBlocks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to one block after another, and gives the results in their order, as `map` does."""


def build_graph(
    blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter, map_blocks: MapBlocks = map
) -> dict[str, Any]:
    """Builds the graph of some passages and returns what its header says.

    Args:
        blocks: The passages, some hundred at a time.
        arrays: Where the graph is written.
        map_blocks: Reads the blocks: `map` does it in this process, and another may do it on workers.
    """
    vocabulary = VocabularyBuilder(arrays)
    names, found_links = _read_passages(blocks, arrays, vocabulary, map_blocks)
    links = found_links.resolve()
    names.add_links(links)
    count = len(arrays.read("keys", np.int64))
    letters = vocabulary.finish(count)
    key_order, key_rank = _write_key_order(arrays, count)
    known = names.write(key_order, key_rank, count)
    shared = write_all_mentions(CorpusWords(arrays, letters, count), arrays, links, key_rank)
    return {
        "format": FORMAT,
        "passages": count,
        "names": known,
        "shared_names": shared,
        "links": len(links.passage),
    }


def _read_passages(
    blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter, vocabulary: VocabularyBuilder, map_blocks: MapBlocks
) -> tuple[FoundNames, FoundLinks]:
    names, links = FoundNames(arrays), FoundLinks()
    number = words = 0
    arrays.append("passage_starts", np.zeros(1, np.int64))
    arrays.append("id_starts", np.zeros(1, np.int64))
    id_bytes = 0
    pieces = (block[low : low + BLOCK] for block in blocks for low in range(0, len(block), BLOCK))
    read: ReadBlock
    for read in map_blocks(read_block, pieces):
        arrays.append("words", vocabulary.add(read.tokens))
        arrays.append(CAPITAL, read.tokens.capital)
        arrays.append("passage_starts", read.tokens.passage_starts[1:].astype(np.int64) + words)
        words += len(read.tokens.hashes)
        arrays.append("keys", read.keys)
        arrays.append("ids", np.frombuffer(b"".join(read.ids), np.uint8))
        ends = np.cumsum([len(each) for each in read.ids]) + id_bytes
        arrays.append("id_starts", ends.astype(np.int64))
        id_bytes = int(ends[-1])
        names.add(read.names, number)
        links.add(read.links, number)
        names.add_beginnings(read.links.beginnings)
        number += len(read.keys)
    return names, links


def _write_key_order(arrays: ArrayWriter, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Writes the passages in the order of their keys; gives that order, and the place of each passage in it."""
    write_order(arrays, "keys", np.int64, "key_order")
    order = arrays.read("key_order", np.int32)
    rank = arrays.make_table(count, np.int32)
    for low in range(0, count, MOST_ROWS):
        part = order[low : low + MOST_ROWS]
        rank[part] = np.arange(low, low + len(part), dtype=np.int32)
    return order, rank


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
    title_sizes = np.array([len(row.title) for row in rows], np.int64)
    text_sizes = np.array([len(row.text) for row in rows], np.int64)
    bodies = np.cumsum(title_sizes + text_sizes + 2) - text_sizes - 1
    subject_ends = [subject_end(title, text) for _, _, title, text, *_ in rows]
    titled, defined = np.flatnonzero(title_sizes), np.flatnonzero(subject_ends)
    begins = np.concatenate(((bodies - title_sizes - 1)[titled], bodies[defined]))
    ends = np.concatenate((bodies[titled] - 1, bodies[defined] + np.array(subject_ends, np.int64)[defined]))
    owners = np.concatenate((titled, defined))
    kinds = np.repeat(np.array([NameKind.TITLE, NameKind.SUBJECT], np.uint8), [len(titled), len(defined)])
    others = _find_other_names(rows, _find_owners(tokens.signs, bodies))
    explained = _find_acronyms(rows, subject_ends, _find_owners(tokens.parentheses, bodies), others)
    found, beginnings = NameHasher(tokens).hash_spans(begins.astype(np.int32), ends.astype(np.int32))
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
        np.concatenate((owners, np.array([number for _, number, _ in others], np.int64))).astype(np.int32)[keep],
        np.concatenate((kinds, np.array([kind for *_, kind in others], np.uint8)))[keep],
        (beginnings, other_beginnings),
        table,
    )


def _find_owners(places: Integers, bodies: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Gives for places in the text of a block the passages that they lie in, and where they lie in their texts.

    A place in a title lies behind the text of the passage before it; those in the first title are left out.
    """
    passages = np.searchsorted(bodies, places, side="right") - 1
    known = passages >= 0
    return passages[known].tolist(), (places[known] - bodies[passages[known]]).tolist()


def _find_other_names(
    rows: Sequence[PassageRow], signs: tuple[list[int], list[int]]
) -> list[tuple[str, int, NameKind]]:
    """Gives the further names in titles, and terms, each with its passage and kind.

    Args:
        rows: The passages.
        signs: Passages with signs of terms, and where these are.
    """
    others: list[tuple[str, int, NameKind]] = []
    for number, row in enumerate(rows):
        title = row.title
        if title and has_further_names(title):
            others += [(name, number, kind) for name, kind in further_names(title)]
    for number in dict.fromkeys(signs[0]):
        if may_have_terms(rows[number].text):
            others += [(name, number, kind) for name, kind in terms_in(rows[number].text)]
    return others


def _find_acronyms(
    rows: Sequence[PassageRow],
    subject_ends: Sequence[int],
    parentheses: tuple[list[int], list[int]],
    others: list[tuple[str, int, NameKind]],
) -> list[tuple[str, str, int]]:
    """Gives acronyms that texts explain, each with its long form and its passage.

    Args:
        rows: The passages.
        subject_ends: Where the subject ends that each text begins with, 0 where it has none.
        parentheses: Passages with parentheses that may hold an acronym, and where these are.
        others: Other names, to which the acronyms of what passages are about are added.
    """
    explained: list[tuple[str, str, int]] = []
    asked = -1
    for number, place in zip(*parentheses, strict=True):
        text = rows[number].text
        if number != asked and own_acronym_at(text, place):
            asked = number
            acronym = own_acronym(rows[number].title or text[: subject_ends[number]], text)
            if acronym:
                others.append((acronym, number, NameKind.ACRONYM))
        letters = acronym_at(text, place)
        if letters:
            long_form = long_form_before(text, place, letters)
            if long_form:
                explained.append((letters, long_form, number))
    return explained
