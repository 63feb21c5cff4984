"""Build the name graph of an index: read passages block by block, then write who has and who mentions which name.

Words go to files at once, and rows of names are sorted one range of hashes after another, so memory grows slowly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.graph import LONGEST_NAME, NAME_KIND_RANKS, Arrays, NameKind, keep_longest
from beliefrag.retrieval.linked.names import (
    LinkRows,
    ResolvedLinks,
    find_acronyms,
    find_links,
    hash_names,
    names_of,
    resolve_links,
)
from beliefrag.retrieval.linked.words import (
    FACTOR,
    Flags,
    Floats,
    Hashes,
    Integers,
    Long,
    Tokens,
    VocabularyBuilder,
    find_hashes,
    rarity_needed,
    split_passages,
)
from beliefrag.retrieval.store import PassageRow

MapBlocks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to blocks and yields the results in order, as `map` does."""

_READ, _BLOCK, _ROWS = 1000, 1000, 1 << 20
"""Passages that are read, and searched for names, and rows that are sorted at once."""
_TERM_KINDS = (NameKind.TERM, NameKind.ENTRY)
_MOST_EXPLAINING = 3
"""An acronym with more passages is ambiguous."""
_BEGINS, _NAMED, _SHARED = 1, 2, 4
"""Marks of a run of words: the beginning of a name, a name that a passage has, a name that passages only share."""
_LARGEST_TABLE = 26
"""Bits of an index into the largest table of marks: 64 MB."""
_MOST_MENTIONS = 40
"""The most names of one passage that count, the rarest ones."""
_RARE_WORD, _LONGEST_SHARED, _MOST_SHARING = 3.0, 5, 20


def build_graph(blocks: Iterable[Sequence[PassageRow]], arrays: Arrays, map_blocks: MapBlocks = map) -> dict[str, Any]:
    """Build the graph of some passages in `arrays` and return the facts for its header."""
    rows = _read_passages(blocks, arrays, map_blocks)
    links = resolve_links(rows)
    keys = arrays.read("keys", np.int64)
    order = np.argsort(keys, kind="stable").astype(np.int32)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    arrays.append("key_order", order)
    _write_names(arrays, rows["acronyms"], links, order, rank)
    corpus = _Corpus(arrays)
    shared = _find_shared_names(corpus, arrays)
    _write_mentions(corpus, arrays, links, shared, rank)
    return {"passages": len(keys), "shared_names": len(shared), "links": len(links.passage)}


class ReadBlock(NamedTuple):
    """The words and names of a block of passages, which are numbered from 0."""

    keys: Long
    ids: tuple[bytes, ...]
    tokens: Tokens
    names: Hashes
    passages: Integers
    kinds: NDArray[np.uint8]
    beginnings: Hashes
    rows: LinkRows
    """The rows of links, and `acronyms`: passage, acronym and long form."""


def read_block(rows: Sequence[PassageRow]) -> ReadBlock:
    """Split passages into words and find their names and links; this runs on workers, too."""
    tokens = split_passages([(row.title, row.text) for row in rows])
    named = [(name, number, kind) for number, row in enumerate(rows) for name, kind in names_of(row.title, row.text)]
    explained = [(number, *pair) for number, row in enumerate(rows) for pair in find_acronyms(row.text)]
    texts = [*(name for name, _, _ in named), *(text for _, *pair in explained for text in pair)]
    hashes, beginnings = hash_names(texts)
    own, pairs = hashes[: len(named)], hashes[len(named) :].reshape(-1, 2)
    acronyms = np.column_stack((np.array([number for number, *_ in explained], np.uint64), pairs))
    links, link_beginnings = find_links(rows, tokens)
    return ReadBlock(
        np.array([row.key for row in rows], np.int64),
        tuple(row.id.encode() for row in rows),
        tokens,
        own[own != 0],
        np.array([number for _, number, _ in named], np.int32)[own != 0],
        np.array([kind for *_, kind in named], np.uint8)[own != 0],
        np.concatenate((beginnings, link_beginnings)),
        {**links, "acronyms": acronyms[(pairs != 0).all(1)]},
    )


def _read_passages(blocks: Iterable[Sequence[PassageRow]], arrays: Arrays, map_blocks: MapBlocks) -> LinkRows:
    """Write the words and names of all blocks; return the rows of all."""
    vocabulary = VocabularyBuilder(arrays)
    count = words = id_bytes = 0
    found = {name: [rows] for name, rows in read_block([]).rows.items()}
    arrays.append("passage_starts", np.zeros(1, np.int64))
    arrays.append("id_starts", np.zeros(1, np.int64))
    pieces = (block[low : low + _READ] for block in blocks for low in range(0, len(block), _READ))
    read: ReadBlock
    for read in map_blocks(read_block, pieces):
        ends = np.cumsum([len(each) for each in read.ids]) + id_bytes
        arrays.append("keys", read.keys)
        arrays.append("ids", np.frombuffer(b"".join(read.ids), np.uint8))
        arrays.append("id_starts", ends.astype(np.int64))
        arrays.append("words", vocabulary.add(read.tokens))
        arrays.append("capital", read.tokens.capital)
        arrays.append("passage_starts", read.tokens.passage_starts[1:].astype(np.int64) + words)
        arrays.append("found_name", read.names)
        arrays.append("found_passage", read.passages + np.int32(count))
        arrays.append("found_kind", read.kinds)
        arrays.append("beginnings", read.beginnings)
        # Rows from a worker may lie in read-only memory.
        for name, rows in read.rows.items():
            found[name].append(np.column_stack((rows[:, 0] + np.uint64(count), rows[:, 1:])))
        count, words, id_bytes = count + len(read.keys), words + len(read.tokens.hashes), int(ends[-1])
    vocabulary.finish(count)
    return {name: np.concatenate(rows) for name, rows in found.items()}


def _ranges_of(hashes: Hashes) -> Iterator[Long]:
    """Yield the places of all hashes, one range of hashes after another."""
    parts = len(hashes) // _ROWS + 1
    for part in range(parts):
        low, high = (part << 64) // parts, ((part + 1) << 64) // parts - 1
        yield np.flatnonzero((hashes >= np.uint64(low)) & (hashes <= np.uint64(high)))


def _is_first(*columns: NDArray[Any]) -> Flags:
    """Return which sorted rows differ from the row before."""
    first = np.zeros(len(columns[0]), bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def _bounds_of(groups: Integers, count: int) -> Integers:
    """Return the first row of each group in sorted rows, and the end of all."""
    return np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count)))).astype(np.int32)


def _write_names(
    arrays: Arrays, acronyms: Hashes, links: ResolvedLinks, key_order: Integers, key_rank: Integers
) -> None:
    """Write the passages of each name, in the order of their keys, and the names of each passage."""

    def add(hashes: Hashes, passages: Integers, kind: NameKind) -> None:
        arrays.append("found_name", hashes)
        arrays.append("found_passage", passages)
        arrays.append("found_kind", np.full(len(hashes), kind, np.uint8))

    add(*links.targets, NameKind.TARGET)
    add(*links.texts, NameKind.LINK_TEXT)
    add(*_find_defining_passages(arrays, acronyms), NameKind.ACRONYM)
    found = arrays.read("found_name", np.uint64)
    found_passage, found_kind = arrays.read("found_passage", np.int32), arrays.read("found_kind", np.uint8)
    rows = 0
    for here in _ranges_of(found):
        hashes, homes = found[here], key_rank[found_passage[here]].astype(np.int64) << 8 | found_kind[here]
        order = np.lexsort((homes, hashes))
        hashes, homes = hashes[order], homes[order]
        keep = _is_first(hashes, homes >> 8)
        hashes, kinds = hashes[keep], (homes[keep] & 0xFF).astype(np.uint8)
        begins = np.flatnonzero(_is_first(hashes))
        arrays.append("name_hash", hashes[begins])
        if len(begins):
            arrays.append("name_is_term", np.logical_or.reduceat(np.isin(kinds, _TERM_KINDS), begins))
        arrays.append("name_bounds", (begins + rows).astype(np.int32))
        arrays.append("home_passage", key_order[homes[keep] >> 8])
        arrays.append("home_kind", kinds)
        rows += len(hashes)
    arrays.append("name_bounds", np.array([rows], np.int32))
    for name in ("found_name", "found_passage", "found_kind"):
        arrays.remove(name)
    passages, bounds = arrays.read("home_passage", np.int32), arrays.read("name_bounds", np.int32)
    order = np.argsort(passages, kind="stable")
    arrays.append("own_name", np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))[order])
    arrays.append("own_kind", arrays.read("home_kind", np.uint8)[order])
    arrays.append("own_bounds", _bounds_of(passages, len(key_order)))


def _find_defining_passages(arrays: Arrays, acronyms: Hashes) -> tuple[Hashes, Integers]:
    """Return acronyms with the few passages that have the long form as title, or else explain it."""
    explained: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for passage, acronym, long_form in acronyms.tolist():
        explained[acronym, long_form].add(passage)
    titles: defaultdict[int, list[int]] = defaultdict(list)
    wanted = np.unique(acronyms[:, 2])
    found = arrays.read("found_name", np.uint64)
    passages, kinds = arrays.read("found_passage", np.int32), arrays.read("found_kind", np.uint8)
    for low in range(0, len(found), _ROWS):
        part = slice(low, low + _ROWS)
        is_title = NAME_KIND_RANKS[kinds[part]] <= NameKind.PLAIN_TITLE
        here = low + np.flatnonzero(is_title & (find_hashes(wanted, found[part]) >= 0))
        for name, passage in zip(found[here].tolist(), passages[here].tolist(), strict=True):
            titles[name].append(passage)
    homes = {pair: titles.get(pair[1]) or explaining for pair, explaining in explained.items()}
    rows = [(pair[0], home) for pair, those in homes.items() if len(those) <= _MOST_EXPLAINING for home in those]
    names, passages_ = np.array(rows, np.uint64).reshape(-1, 2).T
    return names, passages_.astype(np.int32)


class _Block(NamedTuple):
    """The words of some passages, from passage `low` and word `begin` of the corpus."""

    low: int
    begin: int
    words: Integers
    capital: Flags
    bounds: Long

    def owner(self, places: Long) -> Long:
        """Return the passages of words, from 0."""
        return np.searchsorted(self.bounds, places, side="right") - 1


class _Corpus:
    """The words of all passages."""

    def __init__(self, arrays: Arrays) -> None:
        self._starts = arrays.read("passage_starts", np.int64)
        self._capital: Flags = arrays.read("capital", np.bool_)
        self.words: Integers = arrays.read("words", np.int32)
        self.hashes: Hashes = arrays.read("word_hash", np.uint64)
        self.rarity: Floats = arrays.read("word_rarity", np.float32)
        self.count = len(self._starts) - 1

    def read_blocks(self) -> Iterator[_Block]:
        for low in range(0, self.count, _BLOCK):
            bounds = self._starts[low : low + _BLOCK + 1]
            part = slice(int(bounds[0]), int(bounds[-1]))
            yield _Block(low, part.start, self.words[part], self._capital[part], bounds - part.start)

    def hash_runs(self, words: Integers, starts: Long, lengths: Long) -> Iterator[tuple[Long, Hashes]]:
        """Yield the runs of at least one word, two words and so on, with the hashes of these words."""
        run = np.zeros(len(starts), np.uint64)
        for step in range(_LONGEST_SHARED):
            here = np.flatnonzero(lengths > step)
            run[here] = run[here] * FACTOR + self.hashes[words[starts[here] + step]]
            yield here, run[here]

    def sum_rarity(self, words: Integers, starts: Long, lengths: Long) -> Floats:
        """Return the sum of rarities of each run."""
        rarity = np.zeros(len(starts), np.float64)
        here = np.arange(len(starts))
        for step in range(int(lengths.max(initial=0))):
            here = here[lengths[here] > step]
            rarity[here] += self.rarity[words[starts[here] + step]]
        return rarity.astype(np.float32)


def _find_shared_names(corpus: _Corpus, arrays: Arrays) -> Hashes:
    """Return names that no passage has: runs of two to five words with capitals that a few passages share.

    The array `shared_at` gets one place of each.
    """
    known: Hashes = arrays.read("name_hash", np.uint64)
    # 0 for a word that does not begin with a letter, 3 for a rare word, 1 for others.
    about = (arrays.read("word_letter", np.bool_) * (1 + 2 * (corpus.rarity >= _RARE_WORD))).astype(np.uint8)
    for block in corpus.read_blocks():
        capital = about.take(block.words, mode="clip")
        capital *= block.capital
        # A run begins at a rare word with a capital letter, and goes on to the next small letter.
        named = np.concatenate(([False], capital > 1))
        starts = np.flatnonzero(named[1:] > named[:-1])
        lengths = np.ones(len(starts), np.int64)
        going = np.arange(len(starts))
        for step in range(1, _LONGEST_SHARED + 1):
            going = going[capital[starts[going] + step] != 0]
            lengths[going] += 1
        fits = (lengths >= 2) & (lengths <= _LONGEST_SHARED)
        starts, lengths = starts[fits], lengths[fits]
        run = np.zeros(len(starts), np.uint64)
        for here, hashes in corpus.hash_runs(block.words, starts, lengths):
            run[here] = hashes
        arrays.append("run_hash", run)
        arrays.append("run_passage", (block.owner(starts) + block.low).astype(np.int32))
        arrays.append("run_at", (starts + block.begin) << 3 | lengths)
    runs, passages = arrays.read("run_hash", np.uint64), arrays.read("run_passage", np.int32)
    places = arrays.read("run_at", np.int64)
    shared = [np.zeros(0, np.uint64)]
    for here in _ranges_of(runs):
        order = here[np.argsort(runs[here], kind="stable")]
        order = order[_is_first(runs[order], passages[order])]
        names, first, counts = np.unique(runs[order], return_index=True, return_counts=True)
        keep = (counts >= 2) & (counts <= _MOST_SHARING) & (find_hashes(known, names) < 0)
        shared.append(names[keep])
        arrays.append("shared_at", places[order[first[keep]]])
    for name in ("run_hash", "run_passage", "run_at"):
        arrays.remove(name)
    return np.concatenate(shared)


class _NameTable:
    """The marks of all names and their beginnings by a part of their hashes, which other runs of words may have too."""

    def __init__(self, corpus: _Corpus, arrays: Arrays, known: Hashes, shared: Hashes) -> None:
        beginnings, places = arrays.read("beginnings", np.uint64), arrays.read("shared_at", np.int64)
        bits = min(max(20, ((len(beginnings) + 2 * len(shared)) * 8).bit_length()), _LARGEST_TABLE)
        self._marks = arrays.make_table(1 << bits, np.uint8)
        self._shift = np.uint64(64 - bits)
        self._mark(beginnings, _BEGINS)
        self._mark(known, _NAMED)
        self._mark(shared, _SHARED)
        for _, hashes in corpus.hash_runs(corpus.words, places >> 3, places & 7):
            self._mark(hashes, _BEGINS)

    def _mark(self, hashes: Hashes, what: int) -> None:
        self._marks[hashes >> self._shift] |= np.uint8(what)

    def look_up(self, hashes: Hashes) -> NDArray[np.uint8]:
        return self._marks.take((hashes >> self._shift).view(np.int64), mode="clip")


def _find_runs(
    words: Integers, word_hashes: Hashes, word_marks: NDArray[np.uint8], table: _NameTable
) -> list[NDArray[Any]]:
    """Return the starts, lengths, hashes and marks of the runs that may be names; they may overlap."""
    found: list[tuple[Long, Long, Hashes, NDArray[np.uint8]]] = []
    marks = word_marks.take(words, mode="clip")
    at = np.flatnonzero((marks & _BEGINS) != 0)
    marks, runs = marks.take(at), word_hashes.take(words.take(at), mode="clip")
    for length in range(1, LONGEST_NAME + 1):
        likely = np.flatnonzero((marks & (_NAMED | _SHARED)) != 0)
        found.append((at[likely], np.full(len(likely), length), runs[likely], marks[likely]))
        within = int(np.searchsorted(at, len(words) - length))
        at, runs = at[:within], runs[:within] * FACTOR
        runs += word_hashes.take(words.take(at + length), mode="clip")
        marks = table.look_up(runs)
        more = np.flatnonzero((marks & _BEGINS) != 0)
        at, runs, marks = at[more], runs[more], marks[more]
    return [np.concatenate(column) for column in zip(*found, strict=True)]


class _Mentions(NamedTuple):
    """Mentions in a block of passages."""

    starts: Long
    lengths: Long
    names: Long
    rarity: Floats

    def choose(self, keep: Long | Flags) -> _Mentions:
        return _Mentions(self.starts[keep], self.lengths[keep], self.names[keep], self.rarity[keep])


def _write_mentions(corpus: _Corpus, arrays: Arrays, links: ResolvedLinks, shared: Hashes, key_rank: Integers) -> None:
    """Write the mentions of names that passages have, explicit links among them, and of names that they share."""
    known: Hashes = arrays.read("name_hash", np.uint64)
    is_term: Flags = arrays.read("name_is_term", np.bool_)
    own_name, own_bounds = arrays.read("own_name", np.int32), arrays.read("own_bounds", np.int32)
    table = _NameTable(corpus, arrays, known, shared)
    word_marks = table.look_up(corpus.hashes)
    needed = rarity_needed(corpus.count)
    for block in corpus.read_blocks():
        starts, lengths, hashes, marks = _find_runs(block.words, corpus.hashes, word_marks, table)
        # A title ends at the first mark of its passage, and does not mention itself.
        ends = np.flatnonzero(block.words <= 1)
        title_ends = ends[np.searchsorted(ends, block.bounds[:-1])]
        rarity = corpus.sum_rarity(block.words, starts, lengths)
        likely = (starts > title_ends[block.owner(starts)]) & (rarity >= needed)
        starts, lengths, hashes, marks = (column[likely] for column in (starts, lengths, hashes, marks))
        rarity = rarity[likely]
        # A single word in small letters is not a name, unless a manual has an entry for it.
        written_as_name = (lengths > 1) | block.capital[starts]
        for prefix, kind, names in (("named", _NAMED, known), ("shared", _SHARED, shared)):
            at = np.flatnonzero((marks & kind) != 0)
            found = find_hashes(names, hashes[at])
            keep = found >= 0
            if kind == _NAMED:
                keep &= written_as_name[at] | is_term[found]
                # A passage's own name must not hide a shorter name in it.
                bounds = own_bounds[block.low : block.low + len(block.bounds)]
                owned = np.repeat(np.arange(len(bounds) - 1) << 32, np.diff(bounds)) | own_name[bounds[0] : bounds[-1]]
                keep &= find_hashes(owned, block.owner(starts[at]) << 32 | found) < 0
            else:
                keep &= written_as_name[at]
            at = at[keep]
            mentions = _Mentions(starts[at], lengths[at], found[keep], rarity[at])
            mentions = mentions.choose(keep_longest(mentions.starts, mentions.lengths, len(block.words)))
            mentions = mentions.choose(_are_rarest(block.owner(mentions.starts), mentions.rarity))
            if kind == _NAMED:
                mentions = _join_links(links, known, block, mentions, corpus)
            owner = block.owner(mentions.starts)
            begin = mentions.starts - block.bounds[owner]
            arrays.append(f"{prefix}_start", begin.astype(np.int32))
            arrays.append(f"{prefix}_end", (begin + mentions.lengths).astype(np.int32))
            arrays.append(f"{prefix}_name", mentions.names.astype(np.int32))
            arrays.append(f"{prefix}_passage", (owner + block.low).astype(np.int32))
            arrays.append(f"{prefix}_rarity", mentions.rarity)
    for prefix, names in (("named", known), ("shared", shared)):
        name, passage = arrays.read(f"{prefix}_name", np.int32), arrays.read(f"{prefix}_passage", np.int32)
        arrays.append(f"{prefix}_bounds", _bounds_of(passage, corpus.count))
        arrays.append(f"{prefix}_by_name", np.lexsort((key_rank[passage], name)).astype(np.int32))
        arrays.append(f"{prefix}_name_bounds", _bounds_of(name, len(names)))
    for column in ("capital", "word_hash", "word_letter", "beginnings", "shared_at"):
        arrays.remove(column)


def _join_links(links: ResolvedLinks, known: Hashes, block: _Block, mentions: _Mentions, corpus: _Corpus) -> _Mentions:
    """Put the explicit links of a block in place of mentions that overlap them."""
    here = slice(*np.searchsorted(links.passage, [block.low, block.low + len(block.bounds) - 1]).tolist())
    if here.start == here.stop:
        return mentions
    begins = block.bounds[links.passage[here] - block.low]
    starts, ends = begins + links.start[here], begins + links.end[here]
    covered = np.zeros(len(block.words) + 1, np.int32)
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    inside = np.concatenate(([0], np.cumsum(np.cumsum(covered) > 0)))
    free = mentions.choose(inside[mentions.starts + mentions.lengths] == inside[mentions.starts])
    rarity = corpus.sum_rarity(block.words, starts, ends - starts)
    joined = _Mentions(
        np.concatenate((free.starts, starts)),
        np.concatenate((free.lengths, ends - starts)),
        np.concatenate((free.names, np.searchsorted(known, links.name[here]))),
        np.concatenate((free.rarity, rarity)),
    )
    return joined.choose(np.argsort(joined.starts, kind="stable"))


def _are_rarest(owner: Long, rarity: Floats) -> Flags:
    """Return which mentions are among the rarest of their passage, of equal ones the first."""
    if np.bincount(owner).max(initial=0) <= _MOST_MENTIONS:
        return np.ones(len(owner), bool)
    order = np.lexsort((-rarity, owner))
    first = np.searchsorted(owner[order], owner[order], side="left")
    keep = np.zeros(len(owner), bool)
    keep[order] = np.arange(len(owner)) - first < _MOST_MENTIONS
    return keep
