"""Makes the graph of names from the passages of an index, in memory that does not grow with them.

Passages are read in blocks. What grows with their number lies in files: rows that must be sorted wait in sorted runs
(`row_sorter`), and tables that are looked up in are mapped (`ArrayWriter.make_table`), so that the system can drop
their pages from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter
from beliefrag.retrieval.linked.block import ReadBlock, read_block
from beliefrag.retrieval.linked.explicit import FoundLinks
from beliefrag.retrieval.linked.homes import FoundNames
from beliefrag.retrieval.linked.mentions import BLOCK, CAPITAL, CorpusWords, write_all_mentions
from beliefrag.retrieval.linked.row_sorter import MOST_ROWS, write_order
from beliefrag.retrieval.linked.vocabulary import VocabularyBuilder
from beliefrag.retrieval.passage_store import PassageRow

__all__ = ["FORMAT", "MapBlocks", "PassageRow", "build_graph"]

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
