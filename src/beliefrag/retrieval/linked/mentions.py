"""Finds where passages mention names, and names that passages share though none is about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter
from beliefrag.retrieval.linked.explicit import ResolvedLinks
from beliefrag.retrieval.linked.name_index import BEGINNINGS, OwnNames
from beliefrag.retrieval.linked.names import NameTable, Runs, find_runs, keep_longest, look_up_names
from beliefrag.retrieval.linked.row_sorter import MOST_ROWS, BoundsWriter, RowSorter
from beliefrag.retrieval.linked.tokens import FACTOR
from beliefrag.retrieval.linked.vocabulary import rarity_needed

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int32]
Long = NDArray[np.int64]

BLOCK = 1000
"""Passages that are worked on at once."""
CAPITAL = "capital"
"""The array that says which words are written with a capital letter, which is needed on the way only."""
_SHARED_HASH = "shared_hash"
_SHARED_AT = "shared_at"

_RARE_WORD = 3.0
_LONGEST_SHARED = 5
_MOST_SHARING = 20
_MOST_MENTIONS = 40
"""How many names of one passage count at most: the rarest."""


@dataclass(frozen=True, slots=True)
class WordBlock:
    """The words of some passages one after another."""

    low: int
    """The number of the first passage."""
    begin: int
    """The number of the first word among all words of the corpus."""
    words: Integers
    capital: NDArray[np.bool_]
    bounds: Long
    """Where each passage begins among the words, and at last where they end."""


class CorpusWords:
    """The words of all passages while the graph is built.

    Args:
        arrays: Where the words and what is known about them lie.
        letters: Which words begin with a letter, by number.
        count: How many passages there are.
    """

    def __init__(self, arrays: ArrayWriter, letters: NDArray[np.bool_], count: int) -> None:
        self._arrays = arrays
        self.hashes: Hashes = arrays.read("word_hash", np.uint64)
        self.rarity: NDArray[np.float32] = arrays.read("word_rarity", np.float32)
        self.letters = letters
        self.count = count

    def read_blocks(self) -> Iterator[WordBlock]:
        """Gives the words block by block."""
        starts = self._arrays.read("passage_starts", np.int64)
        for low in range(0, self.count, BLOCK):
            bounds = starts[low : low + BLOCK + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            # Read, not mapped: what is mapped counts as memory of the process.
            words = self._arrays.read_part("words", np.int32, begin, end)
            capital = self._arrays.read_part(CAPITAL, np.bool_, begin, end)
            yield WordBlock(low, begin, words, capital, bounds - begin)


def write_all_mentions(corpus: CorpusWords, arrays: ArrayWriter, links: ResolvedLinks, key_rank: Integers) -> int:
    """Writes all mentions of the names that passages have, and of those that they only share.

    Both kinds of names are looked for in one pass over the words.

    Args:
        corpus: The words of the passages.
        arrays: Where the names lie, and where mentions are written.
        links: Explicit links, which are mentions too.
        key_rank: The place of each passage in the order of their keys.

    Returns:
        How many names passages only share.
    """
    known: Hashes = arrays.read("name_hash", np.uint64)
    beginnings = arrays.read(BEGINNINGS, np.uint32)
    _write_shared_names(corpus, arrays, known)
    shared: Hashes = arrays.read(_SHARED_HASH, np.uint64)
    table = NameTable(len(beginnings) + 2 * len(shared), arrays)
    for low in range(0, len(beginnings), MOST_ROWS):
        table.mark_halves(beginnings[low : low + MOST_ROWS], NameTable.BEGINS)
    is_term: NDArray[np.bool_] = arrays.read("name_is_term", np.bool_)
    for low in range(0, len(known), MOST_ROWS):
        part = known[low : low + MOST_ROWS]
        table.mark(part, NameTable.NAMED)
        table.mark(part[is_term[low : low + MOST_ROWS]], NameTable.TERM)
    _mark_shared_names(corpus, arrays, shared, table)
    word_marks = arrays.make_table(len(corpus.hashes), np.uint8)
    for low in range(0, len(corpus.hashes), MOST_ROWS):
        word_marks[low : low + MOST_ROWS] = table.look_up(corpus.hashes[low : low + MOST_ROWS])
    named_writer = _MentionWriter(arrays, "named", key_rank)
    shared_writer = _MentionWriter(arrays, "shared", key_rank)
    own, explicit = OwnNames(arrays), _ExplicitMentions(links, known)
    for block in corpus.read_blocks():
        runs = find_runs(block.words, corpus.hashes, word_marks, table)
        ground = _BlockGround(block, corpus)
        mentions = ground.find_mentions(runs, NameTable.NAMED, known, is_term, own)
        if explicit.are_any(block.low, block.low + len(block.bounds) - 1):
            mentions = ground.with_rarity(*explicit.join(block, mentions))
        named_writer.add(block, mentions)
        shared_writer.add(block, ground.find_mentions(runs, NameTable.SHARED, shared, None, None))
    named_writer.finish(len(known))
    shared_writer.finish(len(shared))
    names = len(shared)
    for name in (CAPITAL, BEGINNINGS, _SHARED_HASH, _SHARED_AT):
        arrays.remove(name)
    return names


@dataclass(frozen=True, slots=True)
class _Mentions:
    """Mentions in a block of passages, by where they begin."""

    starts: Long
    lengths: Long
    names: Long
    owner: Long
    """The passage of each, counted from the block's first."""
    rarity: NDArray[np.float32]

    def choose(self, keep: NDArray[np.int64] | NDArray[np.bool_]) -> _Mentions:
        return _Mentions(self.starts[keep], self.lengths[keep], self.names[keep], self.owner[keep], self.rarity[keep])


class _BlockGround:
    """What both kinds of names need to know about a block."""

    def __init__(self, block: WordBlock, corpus: CorpusWords) -> None:
        self._block = block
        self._rarity_needed = rarity_needed(corpus.count)
        self._rarity = corpus.rarity
        # A title ends at the first mark of its passage.
        marks = np.flatnonzero(block.words <= 1)
        self._title_ends = marks[np.searchsorted(marks, block.bounds[:-1])]

    def with_rarity(self, starts: Long, lengths: Long, names: Long, owner: Long) -> _Mentions:
        """Adds to mentions the sum of the rarities of their words."""
        rarity = np.zeros(len(starts), np.float64)
        here = np.arange(len(starts))
        for step in range(int(lengths.max(initial=0))):
            here = here[lengths[here] > step]
            rarity[here] += self._rarity[self._block.words[starts[here] + step]]
        return _Mentions(starts, lengths, names, owner, rarity.astype(np.float32))

    def find_mentions(
        self, runs: Runs, kind: int, names: Hashes, is_term: NDArray[np.bool_] | None, own: OwnNames | None
    ) -> _Mentions:
        """Gives the runs that count as mentions.

        Args:
            runs: Runs of words.
            kind: The mark of the names that are meant.
            names: The hashes of these names, rising.
            is_term: Which names are entries of manuals, by number, where there are any.
            own: Which names each passage has; its own are no mentions.
        """
        block = self._block
        # A single word in small letters is a word and no name; a title does not mention itself. The entries of a
        # manual are written in small letters and are names all the same.
        written_as_name = (runs.lengths > 1) | block.capital[runs.starts]
        likely = written_as_name | ((runs.marks & NameTable.TERM) != 0)
        here = np.flatnonzero(((runs.marks & kind) != 0) & likely)
        starts = runs.starts[here]
        owner = np.searchsorted(block.bounds, starts, side="right") - 1
        mentions = self.with_rarity(starts, runs.lengths[here], here, owner)
        mentions = mentions.choose((starts > self._title_ends[owner]) & (mentions.rarity >= self._rarity_needed))
        # Only what passed all this is looked up: marks of other runs may have let some through that are no names.
        here = mentions.names
        found = look_up_names(names, runs.hashes[here])
        keep = found >= 0
        if is_term is None:
            keep &= written_as_name[here]
        else:
            keep &= written_as_name[here] | is_term[found]
        mentions = replace(mentions, names=found).choose(keep)
        # What a passage says of itself leads nowhere, and must not hide a shorter name within.
        if own is not None:
            mentions = mentions.choose(~own.has(mentions.owner + block.low, mentions.names))
        longest = keep_longest(mentions.starts, mentions.lengths, len(block.words))
        return mentions.choose(longest[_are_rarest(mentions.owner[longest], mentions.rarity[longest])])


class _MentionWriter:
    """Writes mentions by passage, and in which order they come by name."""

    def __init__(self, arrays: ArrayWriter, prefix: str, key_rank: Integers) -> None:
        self._arrays = arrays
        self._prefix = prefix
        self._key_rank = key_rank
        self._by_name = RowSorter(arrays, f"sorting-{prefix}", (np.uint64, np.int32), 1)
        self._total = 0
        arrays.append(f"{prefix}_bounds", np.zeros(1, np.int32))

    def add(self, block: WordBlock, mentions: _Mentions) -> None:
        """Adds the mentions of a block."""
        begin = (mentions.starts - block.bounds[mentions.owner]).astype(np.int32)
        passage = (mentions.owner + block.low).astype(np.int32)
        ends = np.searchsorted(mentions.owner, np.arange(1, len(block.bounds))) + self._total
        for name, values in (
            ("start", begin),
            ("end", begin + mentions.lengths.astype(np.int32)),
            ("name", mentions.names.astype(np.int32)),
            ("passage", passage),
            ("rarity", mentions.rarity),
            ("bounds", ends.astype(np.int32)),
        ):
            self._arrays.append(f"{self._prefix}_{name}", values)
        key = mentions.names.astype(np.uint64) << np.uint64(32) | self._key_rank[passage].astype(np.uint64)
        self._by_name.add(key, np.arange(self._total, self._total + len(key), dtype=np.int32))
        self._total += len(key)

    def finish(self, names: int) -> None:
        """Writes the order by name, within a name by the keys of the passages."""
        bounds = BoundsWriter(self._arrays, f"{self._prefix}_name_bounds")
        for key, places in self._by_name.read_blocks():
            self._arrays.append(f"{self._prefix}_by_name", places)
            bounds.add((key >> np.uint64(32)).astype(np.int64))
        bounds.finish(names)


class _ExplicitMentions:
    """Explicit links as mentions: what they lead to is the name that they mention."""

    def __init__(self, links: ResolvedLinks, known: Hashes) -> None:
        self._passage = links.passage.astype(np.int64)
        self._start, self._end = links.start.astype(np.int64), links.end.astype(np.int64)
        self._name = np.searchsorted(known, links.name)

    def are_any(self, low: int, high: int) -> bool:
        """Says whether passages from `low` to before `high` have explicit links."""
        return bool(np.searchsorted(self._passage, high) > np.searchsorted(self._passage, low))

    def join(self, block: WordBlock, mentions: _Mentions) -> tuple[Long, Long, Long, Long]:
        """Puts the links of a block among its mentions, in place of those that stand at the same words.

        Returns:
            Starts, lengths, names and owners.
        """
        bounds, starts, lengths = block.bounds, mentions.starts, mentions.lengths
        here = slice(*np.searchsorted(self._passage, [block.low, block.low + len(bounds) - 1]).tolist())
        link_owner = self._passage[here] - block.low
        link_starts = bounds[link_owner] + self._start[here]
        link_ends = bounds[link_owner] + self._end[here]
        covered = np.zeros(int(bounds[-1]) + 1, np.int32)
        np.add.at(covered, link_starts, 1)
        np.add.at(covered, link_ends, -1)
        inside = np.concatenate(([0], np.cumsum(np.cumsum(covered) > 0)))
        free = inside[starts + lengths] == inside[starts]
        starts = np.concatenate((starts[free], link_starts))
        order = np.argsort(starts, kind="stable")
        return (
            starts[order],
            np.concatenate((lengths[free], link_ends - link_starts))[order],
            np.concatenate((mentions.names[free], self._name[here]))[order],
            np.concatenate((mentions.owner[free], link_owner))[order],
        )


def _are_rarest(owner: Long, rarity: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Says which mentions are among the rarest of their passage; of equally rare ones the first."""
    if not len(owner) or int(np.bincount(owner).max()) <= _MOST_MENTIONS:
        return np.ones(len(owner), bool)
    order = np.lexsort((-rarity, owner))
    first = np.searchsorted(owner[order], owner[order], side="left")
    keep = np.zeros(len(owner), bool)
    keep[order] = np.arange(len(owner)) - first < _MOST_MENTIONS
    return keep


def _write_shared_names(corpus: CorpusWords, arrays: ArrayWriter, known: Hashes) -> None:
    """Finds names that several passages mention though none is about them: runs of words with capital letters.

    A run of two to five such words that stands in at least two passages and in few is taken for a name. The names are
    written rising, each with a place where it stands.
    """
    # Passages come in their order, so those with one run stay in it.
    sorter = RowSorter(arrays, "sorting-runs", (np.uint64, np.int32, np.int64), 1)
    # 1 for a word that begins with a letter, 2 more when it is rare: by word, of which there are fewer than tokens.
    letters = corpus.letters
    about = arrays.make_table(len(letters), np.uint8)
    for low in range(0, len(about), MOST_ROWS):
        part = slice(low, low + MOST_ROWS)
        about[part] = letters[part] * (1 + 2 * (corpus.rarity[part] >= _RARE_WORD))
    for block in corpus.read_blocks():
        capital = about.take(block.words, mode="clip")
        capital *= block.capital
        # A run begins at a rare word with a capital letter after anything else, and goes on to the next small letter.
        named = capital > 1
        starts = np.flatnonzero(named[1:] > named[:-1]) + 1
        if named[0]:
            starts = np.concatenate(([0], starts))
        # Runs are few, so their next words are looked at one by one; a mark ends the block, and so the last run.
        lengths = np.ones(len(starts), np.int64)
        going = np.arange(len(starts))
        for step in range(1, _LONGEST_SHARED + 1):
            going = going[capital[starts[going] + step] != 0]
            lengths[going] += 1
        fits = (lengths >= 2) & (lengths <= _LONGEST_SHARED)
        starts, lengths = starts[fits], lengths[fits]
        run = np.zeros(len(starts), np.uint64)
        for step in range(_LONGEST_SHARED):
            here = np.flatnonzero(lengths > step)
            run[here] = run[here] * FACTOR + corpus.hashes[block.words[starts[here] + step]]
        passages = (np.searchsorted(block.bounds, starts, side="right") - 1 + block.low).astype(np.int32)
        sorter.add(run, passages, (starts + block.begin) << 3 | lengths)
    for runs, homes, places in sorter.read_blocks():
        once = np.ones(len(runs), bool)
        once[1:] = (runs[1:] != runs[:-1]) | (homes[1:] != homes[:-1])
        names, first, counts = np.unique(runs[once], return_index=True, return_counts=True)
        keep = (counts >= 2) & (counts <= _MOST_SHARING)
        keep &= look_up_names(known, names) < 0
        arrays.append(_SHARED_HASH, names[keep])
        arrays.append(_SHARED_AT, places[once][first[keep]])


def _mark_shared_names(corpus: CorpusWords, arrays: ArrayWriter, shared: Hashes, table: NameTable) -> None:
    """Marks shared names and their beginnings, which are read where one of the passages has them."""
    words, all_places = arrays.read("words", np.int32), arrays.read(_SHARED_AT, np.int64)
    for low in range(0, len(shared), MOST_ROWS):
        table.mark(shared[low : low + MOST_ROWS], NameTable.SHARED)
        places = all_places[low : low + MOST_ROWS]
        starts, lengths = places >> 3, places & 7
        run = np.zeros(len(starts), np.uint64)
        for step in range(_LONGEST_SHARED):
            here = np.flatnonzero(lengths > step)
            run[here] = run[here] * FACTOR + corpus.hashes[words[starts[here] + step]]
            table.mark(run[here], NameTable.BEGINS)
