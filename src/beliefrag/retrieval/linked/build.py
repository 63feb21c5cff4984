"""Makes the graph of names from the passages of an index, in blocks, so that memory does not grow with the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import Arrays, ArrayWriter
from beliefrag.retrieval.linked.explicit import BlockLinks, FoundLinks, ResolvedLinks, find_links
from beliefrag.retrieval.linked.names import (
    SURENESS,
    NameFinder,
    NameKind,
    acronyms_in,
    hash_names,
    keep_longest,
    names_of,
    upper_halves,
)
from beliefrag.retrieval.linked.tokens import FACTOR, Tokens, split_passages
from beliefrag.retrieval.linked.vocabulary import VocabularyBuilder
from beliefrag.retrieval.passage_store import PassageRow

__all__ = ["FORMAT", "MapBlocks", "PassageRow", "build_graph"]

FORMAT = 3
"""The version of the arrays. A graph of another version is built again."""

Integers = NDArray[np.int32]
MapBlocks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to one block after another, and gives the results in their order, as `map` does."""

_RAREST_NEEDED = 5.0
"""A name whose words are together more common than this (sum of inverse document frequencies) says too little."""
_RARE_WORD = 3.0
_LONGEST_SHARED = 5
_MOST_SHARING = 20
_MOST_MENTIONS = 40
"""How many names of one passage count at most: the rarest."""
_MOST_EXPLAINING = 3
"""An acronym that more passages explain, or whose long form more passages have, leads to none of them."""
_TERM_KINDS = (NameKind.TERM, NameKind.ENTRY)
_BLOCK = 500


def build_graph(
    blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter, map_blocks: MapBlocks = map
) -> dict[str, Any]:
    """Builds the graph of some passages and returns what its header says.

    Args:
        blocks: The passages, some hundred at a time.
        arrays: Where the graph is written.
        map_blocks: Reads the blocks: `map` does it in this process, and another may do it on workers.
    """
    vocabulary = VocabularyBuilder()
    names, found_links = _read_passages(blocks, arrays, vocabulary, map_blocks)
    links = found_links.resolve()
    names.add_links(links)
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
    finder = NameFinder(known, names.take_beginnings())
    is_term = arrays.read("name_is_term", np.bool_)
    explicit = _ExplicitMentions(links, known)
    _write_mentions(reading, finder, arrays, "named", len(known), key_rank, is_term, _OwnNames(arrays), explicit)
    del finder, names
    shared, beginnings = _find_shared_names(reading, known)
    finder = NameFinder(shared, beginnings)
    _write_mentions(reading, finder, arrays, "shared", len(shared), key_rank, np.zeros(len(shared), bool), None, None)
    arrays.remove("capital")
    return {
        "format": FORMAT,
        "passages": count,
        "names": len(known),
        "shared_names": len(shared),
        "links": len(links.passage),
    }


@dataclass(frozen=True, slots=True)
class _BlockNames:
    """The names of a block of passages, which are counted from its first one."""

    hashes: NDArray[np.uint64]
    passages: Integers
    kinds: NDArray[np.uint8]
    beginnings: tuple[NDArray[np.uint32], ...]
    acronyms: NDArray[np.uint64] | None
    """Rows of an acronym, its long form, and the passage that explains it."""


@dataclass(frozen=True, slots=True)
class _ReadBlock:
    """What a block of passages gives by itself, whatever came before it."""

    keys: NDArray[np.int64]
    ids: tuple[bytes, ...]
    tokens: Tokens
    names: _BlockNames
    links: BlockLinks


def _read_block(rows: Sequence[PassageRow]) -> _ReadBlock:
    """Splits passages into words and finds their names. It runs on workers, too."""
    tokens = split_passages([(row.title, row.text) for row in rows])
    return _ReadBlock(
        np.array([row.key for row in rows], np.int64),
        tuple(row.id.encode() for row in rows),
        tokens,
        _find_names(rows),
        find_links(rows, tokens),
    )


def _find_names(rows: Sequence[PassageRow]) -> _BlockNames:
    texts: list[str] = []
    passages: list[int] = []
    kinds: list[int] = []
    explained: list[tuple[str, str, int]] = []
    for number, (_, _, title, text, *_) in enumerate(rows):
        explained += [(short, long, number) for short, long in acronyms_in(text)]
        for name, kind in names_of(title, text):
            texts.append(name)
            passages.append(number)
            kinds.append(kind)
    hashes, beginnings = hash_names(texts)
    keep = hashes != 0
    all_beginnings = [beginnings]
    table = None
    if explained:
        acronyms, own_beginnings = hash_names([short for short, _, _ in explained])
        long_forms, _ = hash_names([long for _, long, _ in explained])
        all_beginnings.append(own_beginnings)
        numbers = np.array([number for _, _, number in explained], np.uint64)
        table = np.stack((acronyms, long_forms, numbers), 1)[(acronyms != 0) & (long_forms != 0)]
    return _BlockNames(
        hashes[keep],
        np.array(passages, np.int32)[keep],
        np.array(kinds, np.uint8)[keep],
        tuple(all_beginnings),
        table,
    )


class _FoundNames:
    """The names of all passages, as they are found."""

    def __init__(self) -> None:
        self.hashes: list[NDArray[np.uint64]] = []
        self.passages: list[Integers] = []
        self.kinds: list[NDArray[np.uint8]] = []
        self._beginnings: list[NDArray[np.uint32]] = []
        self.acronyms: list[NDArray[np.uint64]] = []
        """Rows of an acronym, its long form, and the passage that explains it."""

    def add(self, block: _BlockNames, first: int) -> None:
        """Adds the names of some passages, the first of which has the number `first`."""
        self.hashes.append(block.hashes)
        self.passages.append(block.passages + np.int32(first))
        self.kinds.append(block.kinds)
        self._beginnings.extend(block.beginnings)
        if block.acronyms is not None:
            self.acronyms.append(block.acronyms + np.array([0, 0, first], np.uint64))

    def add_beginnings(self, beginnings: NDArray[np.uint32]) -> None:
        """Adds beginnings of names that are found later."""
        self._beginnings.append(beginnings)

    def add_links(self, links: ResolvedLinks) -> None:
        """Adds what explicit links lead to: places, and the words of links as names of the passages there."""
        for hashes, passages, kind in (
            (links.targets, links.target_passages, NameKind.TARGET),
            (links.texts, links.text_passages, NameKind.LINK_TEXT),
        ):
            self.hashes.append(hashes)
            self.passages.append(passages)
            self.kinds.append(np.full(len(hashes), kind, np.uint8))

    def take_beginnings(self) -> NDArray[np.uint32]:
        """Gives the upper halves of the hashes of all beginnings of names, and keeps them no longer."""
        beginnings = np.concatenate([np.zeros(0, np.uint32), *self._beginnings])
        self._beginnings = []
        return beginnings


def _read_passages(
    blocks: Iterable[Sequence[PassageRow]], arrays: ArrayWriter, vocabulary: VocabularyBuilder, map_blocks: MapBlocks
) -> tuple[_FoundNames, FoundLinks]:
    names, links = _FoundNames(), FoundLinks()
    number = words = 0
    arrays.append("passage_starts", np.zeros(1, np.int64))
    arrays.append("id_starts", np.zeros(1, np.int64))
    id_bytes = 0
    pieces = (block[low : low + _BLOCK] for block in blocks for low in range(0, len(block), _BLOCK))
    read: _ReadBlock
    for read in map_blocks(_read_block, pieces):
        arrays.append("words", vocabulary.add(read.tokens))
        arrays.append("capital", read.tokens.capital)
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


class _OwnNames:
    """Which names each passage has."""

    def __init__(self, arrays: Arrays) -> None:
        self._names = arrays.read("own_name", np.int32)
        self._bounds = arrays.read("own_bounds", np.int32)

    def has(self, passages: NDArray[np.int64], names: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Says of each pair whether the passage has the name; the passages rise, and lie close to each other."""
        if not len(passages):
            return np.zeros(0, bool)
        low, high = int(passages.min()), int(passages.max()) + 1
        bounds = self._bounds[low : high + 1]
        owners = np.repeat(np.arange(low, high, dtype=np.int64), np.diff(bounds))
        owned = np.sort(owners << 32 | self._names[bounds[0] : bounds[-1]])
        return np.isin(passages << 32 | names, owned)


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The words of all passages while the graph is built."""

    arrays: ArrayWriter
    word_hashes: NDArray[np.uint64]
    word_rarity: NDArray[np.float32]
    letters: NDArray[np.bool_]
    count: int

    def blocks(self) -> Iterable[tuple[int, int, Integers, NDArray[np.bool_], NDArray[np.int64]]]:
        """Gives the first passage, the first word, words, capitals and passage bounds of each block."""
        starts = self.arrays.read("passage_starts", np.int64)
        for low in range(0, self.count, _BLOCK):
            bounds = starts[low : low + _BLOCK + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            # Read, not mapped: what is mapped counts as memory of the process.
            words = self.arrays.read_part("words", np.int32, begin, end)
            capital = self.arrays.read_part("capital", np.bool_, begin, end)
            yield low, begin, words, capital, bounds - begin


def _write_names(found: _FoundNames, arrays: ArrayWriter, key_rank: Integers, count: int) -> NDArray[np.uint64]:
    """Writes the table of names: for each name the passages that have it, in the order of their keys."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *found.hashes])
    passages = np.concatenate([np.zeros(0, np.int32), *found.passages])
    kinds = np.concatenate([np.zeros(0, np.uint8), *found.kinds])
    short, whose = _homes_of_acronyms(found, hashes, passages, kinds)
    hashes, passages = np.concatenate((hashes, short)), np.concatenate((passages, whose))
    kinds = np.concatenate((kinds, np.full(len(short), NameKind.ACRONYM, np.uint8)))
    # A passage that has a name twice keeps the surest kind.
    order = np.lexsort((kinds, key_rank[passages], hashes))
    hashes, passages, kinds = hashes[order], passages[order], kinds[order]
    keep = np.ones(len(hashes), bool)
    keep[1:] = (hashes[1:] != hashes[:-1]) | (passages[1:] != passages[:-1])
    hashes, passages, kinds = hashes[keep], passages[keep], kinds[keep]
    unique, first = np.unique(hashes, return_index=True)
    bounds = np.append(first, len(hashes)).astype(np.int32)
    is_term = np.zeros(len(unique), bool)
    terms = np.flatnonzero(np.isin(kinds, _TERM_KINDS))
    is_term[np.searchsorted(bounds, terms, side="right") - 1] = True
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


def _homes_of_acronyms(
    found: _FoundNames, hashes: NDArray[np.uint64], passages: Integers, kinds: NDArray[np.uint8]
) -> tuple[NDArray[np.uint64], Integers]:
    """Gives acronyms with the passages that they lead to.

    These are the passages whose title is the long form; where there is none, those that explain the acronym, if they
    are few.
    """
    table = np.concatenate([np.zeros((0, 3), np.uint64), *found.acronyms])
    pairs, which = np.unique(table[:, :2], axis=0, return_inverse=True)
    titles = np.flatnonzero(SURENESS[kinds] <= NameKind.PLAIN_TITLE)
    titles = titles[np.isin(hashes[titles], pairs[:, 1])]
    titles = titles[np.argsort(hashes[titles], kind="stable")]
    low, high = (np.searchsorted(hashes[titles], pairs[:, 1], side) for side in ("left", "right"))
    short, whose = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    explained = np.argsort(which.ravel(), kind="stable")
    ends = np.searchsorted(which.ravel()[explained], np.arange(len(pairs) + 1))
    for at, acronym in enumerate(pairs[:, 0]):
        homes = passages[titles[low[at] : high[at]]]
        if not len(homes):
            homes = np.unique(table[explained[ends[at] : ends[at + 1]], 2]).astype(np.int32)
        if len(homes) <= _MOST_EXPLAINING:
            short.append(np.full(len(homes), acronym))
            whose.append(homes)
    return np.concatenate(short), np.concatenate(whose)


def _write_mentions(  # noqa: PLR0917 - a step of one function
    corpus: _Corpus,
    finder: NameFinder,
    arrays: ArrayWriter,
    prefix: str,
    names: int,
    key_rank: Integers,
    is_term: NDArray[np.bool_],
    own: _OwnNames | None,
    explicit: _ExplicitMentions | None,
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
        # What a passage says of itself leads nowhere, and must not hide a shorter name within.
        if own is not None:
            keep &= ~own.has(owner + low, found)
        starts, lengths, found, owner, rarity = (each[keep] for each in (starts, lengths, found, owner, rarity))
        keep = keep_longest(starts, lengths, len(words))
        keep = keep[_are_rarest(owner[keep], rarity[keep])]
        starts, lengths, found, owner, rarity = (each[keep] for each in (starts, lengths, found, owner, rarity))
        if explicit is not None and explicit.are_any(low, low + len(bounds) - 1):
            starts, lengths, found, owner = explicit.join(low, bounds, starts, lengths, found, owner)
            rarity = (summed[starts + lengths] - summed[starts]).astype(np.float32)
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


class _ExplicitMentions:
    """Explicit links as mentions: what they lead to is the name that they mention."""

    def __init__(self, links: ResolvedLinks, known: NDArray[np.uint64]) -> None:
        self._passage = links.passage.astype(np.int64)
        self._start, self._end = links.start.astype(np.int64), links.end.astype(np.int64)
        self._name = np.searchsorted(known, links.name)

    def are_any(self, low: int, high: int) -> bool:
        """Says whether passages from `low` to before `high` have explicit links."""
        return bool(np.searchsorted(self._passage, high) > np.searchsorted(self._passage, low))

    def join(  # noqa: PLR0917 - the columns of mentions
        self,
        low: int,
        bounds: NDArray[np.int64],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        found: NDArray[np.int64],
        owner: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Puts the links of a block among its mentions, in place of those that stand at the same words."""
        here = slice(*np.searchsorted(self._passage, [low, low + len(bounds) - 1]).tolist())
        link_owner = self._passage[here] - low
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
            np.concatenate((found[free], self._name[here]))[order],
            np.concatenate((owner[free], link_owner))[order],
        )


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


def _find_shared_names(corpus: _Corpus, known: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Finds names that several passages mention though none is about them: runs of words with capital letters.

    A run of two to five such words that stands in at least two passages and in few is taken for a name.

    Returns:
        The names, rising, and the upper halves of the hashes of all their beginnings.
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
    beginnings = [np.zeros(0, np.uint32)]
    for steps, _ in _capital_runs(corpus):
        places = np.minimum(np.searchsorted(names, steps[:, -1]), max(len(names) - 1, 0))
        if len(names):
            beginnings.append(upper_halves(steps[names[places] == steps[:, -1]].ravel()))
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
