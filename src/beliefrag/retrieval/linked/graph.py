"""The name graph, stored as arrays in a folder of the index, and the candidates that it leads to.

The graph holds which passages have and which mention a name. A link is a mention together with a passage that has the
name. Names that no passage has join the passages that mention them.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.linked.words import (
    FACTOR,
    Flags,
    Floats,
    Hashes,
    Integers,
    Long,
    Tokens,
    find_hashes,
    rarity_needed,
)
from beliefrag.retrieval.store import sync_folder

LONGEST_NAME = 10
_HEADER = "arrays.json"
_LARGEST_IN_MEMORY = 1 << 22
"""Larger tables of bytes lie in a file while arrays are written to a folder."""
SHARED_KIND = 5
"""The kind of a link between two passages that mention the same name; smaller kinds lead to a passage that has it."""
SEARCHED = 20
_SEEDS, _MOST_NAMED = 8, 6
"""The hits, and the passages that the question names, whose links are followed."""
_FIRST_SEEDS, _HOMES, _FEWER_HOMES = 4, 6, 3
"""The passages of a name that are taken from the first seeds, and from the later ones."""
_SHARED_SEEDS, _SHARED, _MOST_SHARED, _MOST_SHARING = 5, 4, 30, 12
"""The seeds whose shared names are followed, to how many passages each and in all, unless too many share the name."""
_BACKLINK_SEEDS, _BACKLINKS = 6, 4
"""The seeds whose backlinks are followed, and how many of each."""
_MOST_TARGETS_OF_NAME, _MOST_MENTIONERS = 200, 2000
"""Names that more passages have are ambiguous, and of more mentions only the first ones are read."""


class NameKind(IntEnum):
    """How a passage got a name."""

    TITLE = 0
    PLAIN_TITLE = 1
    """The title without the words in parentheses that distinguish it."""
    SUBJECT = 2
    ACRONYM = 3
    SHORT_TITLE = 4
    """The title before its comma, or the first heading of a path."""
    TERM = 6
    """An option, parameter or field that an entry of a manual explains."""
    HEADING = 7
    ENTRY = 8
    """A term in that heading."""
    TARGET = 9
    """A place that explicit links lead to; no text mentions it."""
    LINK_TEXT = 10


NAME_KIND_RANKS = np.array([0, 1, 2, 3, 4, 5, 0, 1, 0, 0, 1], np.int32)
"""How sure each kind of name is, as the ranker sees it: 0 for a title, 4 for a part of one."""


class Arrays:
    """Arrays in files of a folder, which are mapped when they are read, or in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    @classmethod
    def open(cls, folder: Path, version: int) -> Self:
        """Open the arrays of a folder; raise ValueError if they have another version or are damaged."""
        header = json.loads((folder / _HEADER).read_text("utf-8"))
        if not isinstance(header, dict) or header.get("about", {}).get("format") != version:
            raise ValueError(f"{_HEADER} is not of version {version}")
        for name, size in header["bytes"].items():
            if (folder / name).stat().st_size != size:
                raise ValueError(f"{name} does not have the {size} bytes that it was written with")
        return cls(folder)

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Append values to an array."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = (self._folder / name).open("wb") if self._folder else BytesIO()
        file.write(np.ascontiguousarray(values).data)

    def remove(self, name: str) -> None:
        """Remove a temporary array."""
        file = self._files.pop(name, None)
        if file is not None:
            file.close()
            if self._folder:
                (self._folder / name).unlink()

    def read(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        """Return an array, empty if nothing was appended."""
        file = self._files.get(name)
        if isinstance(file, BytesIO):
            return np.frombuffer(file.getvalue(), kind)
        if file is not None:
            file.flush()
        path = self._folder / name if self._folder else None
        if path is None or not path.exists() or not path.stat().st_size:
            return np.zeros(0, kind)
        return np.memmap(path, kind, mode="r").view(np.ndarray)

    def make_table(self, size: int, kind: DTypeLike) -> NDArray[Any]:
        """Return zeros; a large table lies in an unnamed file, whose pages the system can drop."""
        width = size * np.dtype(kind).itemsize
        if not self._folder or width <= _LARGEST_IN_MEMORY:
            return np.zeros(size, kind)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            # A write to a mapped page kills the process if the disk is full.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, width)
            return np.memmap(file, kind, mode="w+", shape=(size,)).view(np.ndarray)

    def _finish(self, about: dict[str, Any]) -> None:
        """Flush all files to disk, the header last."""
        sizes = {name: file.tell() for name, file in self._files.items()}
        self._files[_HEADER] = header = (self._folder or Path()).joinpath(_HEADER).open("wb")
        header.write(json.dumps({"about": about, "bytes": sizes}).encode())
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()


def write_arrays(folder: Path, version: int, write: Callable[[Arrays], dict[str, Any]]) -> None:
    """Write a folder of arrays atomically; `write` returns facts for its header."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=folder.parent, ignore_cleanup_errors=True) as beside:
        fresh = Path(beside) / "arrays"
        fresh.mkdir()
        arrays = Arrays(fresh)
        try:
            arrays._finish({"format": version, **write(arrays)})
        finally:
            arrays.close()
        if folder.exists():
            with suppress(OSError):
                folder.rename(Path(beside) / "old")
            shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    sync_folder(folder.parent)


class PassageWords(NamedTuple):
    """The words of some passages: the title of each, then its sentences, each with a mark at its end."""

    words: Integers
    sentence_starts: Integers
    """The first word of each sentence; a title is a sentence too."""
    passage_starts: Integers
    """The first word of each passage, and the end of the words."""
    passage_sentences: Integers
    """The first sentence of each passage, and the end of the sentences."""


class Mentions:
    """Mentions of names, by passage and by name."""

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        def read(name: str) -> Integers:
            return arrays.read(f"{prefix}_{name}", np.int32)

        self.start, self.end = read("start"), read("end")
        self.name, self.passage = read("name"), read("passage")
        self.rarity: Floats = arrays.read(f"{prefix}_rarity", np.float32)
        self.bounds = read("bounds")
        self.by_name, self.name_bounds = read("by_name"), read("name_bounds")

    def of_passage(self, passage: int) -> slice:
        """Return the mentions of a passage."""
        return slice(int(self.bounds[passage]), int(self.bounds[passage + 1]))

    def passages_with(self, name: int) -> Integers:
        """Return the passage of each mention of a name."""
        return self.passage[self.by_name[self.name_bounds[name] : self.name_bounds[name + 1]]]


class NameGraph:
    """A name graph that is open for search."""

    def __init__(self, arrays: Arrays) -> None:
        read = arrays.read
        self._words: Integers = read("words", np.int32)
        self._passage_starts: Long = read("passage_starts", np.int64)
        self.keys: Long = read("keys", np.int64)
        self._key_order: Integers = read("key_order", np.int32)
        self._ids: NDArray[np.uint8] = read("ids", np.uint8)
        self._id_starts: Long = read("id_starts", np.int64)
        self.word_stem: Integers = read("word_stem", np.int32)
        self.word_rarity: Floats = read("word_rarity", np.float32)
        self.word_prefix: NDArray[np.uint32] = read("word_prefix", np.uint32)
        self.stem_hash: Hashes = read("stem_hash", np.uint64)
        self.stem_rarity: Floats = read("stem_rarity", np.float32)
        self._name_hash: Hashes = read("name_hash", np.uint64)
        self.name_bounds: Integers = read("name_bounds", np.int32)
        self.name_is_term: Flags = read("name_is_term", np.bool_)
        self.home_passage: Integers = read("home_passage", np.int32)
        self.home_kind: NDArray[np.uint8] = read("home_kind", np.uint8)
        self._own_name: Integers = read("own_name", np.int32)
        self._own_kind: NDArray[np.uint8] = read("own_kind", np.uint8)
        self._own_bounds: Integers = read("own_bounds", np.int32)
        self.named, self.shared = Mentions(arrays, "named"), Mentions(arrays, "shared")
        self._allowed: Flags | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def average_length(self) -> float:
        """The average number of words of a passage, marks included."""
        return len(self._words) / max(len(self), 1)

    @cached_property
    def _sorted_keys(self) -> Long:
        return self.keys[self._key_order]

    def numbers(self, keys: Long) -> Integers:
        """Return the numbers of passages from their keys, -1 for unknown ones."""
        places = find_hashes(self._sorted_keys, keys)
        numbers = np.full(len(keys), -1, np.int32)
        numbers[places >= 0] = self._key_order[places[places >= 0]]
        return numbers

    def limited_to(self, keys: Long) -> NameGraph:
        """Return the same graph, of which candidates come from these passages alone."""
        view = copy.copy(self)
        view._allowed = np.isin(self.keys, keys)
        return view

    def allowed(self, passages: list[int]) -> list[int]:
        """Return those of some passages that may be candidates."""
        return passages if self._allowed is None else [each for each in passages if self._allowed[each]]

    def passage_id(self, passage: int) -> str:
        """Return the id of a passage."""
        return self._ids[self._id_starts[passage] : self._id_starts[passage + 1]].tobytes().decode()

    def find_names(self, words: Hashes) -> tuple[Long, Long, Long]:
        """Return the names in a short text, which may overlap: starts, lengths and names."""
        found: list[tuple[int, int, int]] = []
        runs = np.zeros(len(words), np.uint64)
        for length in range(1, min(LONGEST_NAME, len(words)) + 1):
            runs = runs[: len(words) - length + 1] * FACTOR + words[length - 1 :]
            names = find_hashes(self._name_hash, runs).tolist()
            found += [(start, length, name) for start, name in enumerate(names) if name >= 0]
        starts, lengths, names_ = np.array(found, np.int64).reshape(-1, 3).T
        return starts, lengths, names_

    def homes(self, name: int) -> slice:
        """Return a name's range in `home_passage` and `home_kind`."""
        return slice(int(self.name_bounds[name]), int(self.name_bounds[name + 1]))

    def own_names(self, passage: int) -> Integers:
        """Return the sure names of a passage: its title, with and without parentheses, and its subject."""
        here = slice(int(self._own_bounds[passage]), int(self._own_bounds[passage + 1]))
        return self._own_name[here][NAME_KIND_RANKS[self._own_kind[here]] <= NameKind.SUBJECT]

    @cached_property
    def has_headings(self) -> bool:
        """Whether any passage is below a heading or the target of an explicit link."""
        return bool((self._own_kind >= NameKind.HEADING).any())

    def is_below_heading(self, passage: int) -> bool:
        """Return whether a passage is below a heading or the target of an explicit link."""
        here = self._own_kind[self._own_bounds[passage] : self._own_bounds[passage + 1]]
        return bool((here >= NameKind.HEADING).any())

    def read_words(self, passages: Integers) -> PassageWords:
        """Return the words of some passages."""
        begin = self._passage_starts[passages]
        lengths = self._passage_starts[passages + 1] - begin
        starts = np.zeros(len(passages) + 1, np.int32)
        np.cumsum(lengths, out=starts[1:])
        words = self._words[np.arange(starts[-1]) + np.repeat(begin - starts[:-1], lengths)]
        marks = np.flatnonzero(words <= 1)
        last = np.flatnonzero(words[marks] == 1)
        return PassageWords(
            words,
            np.concatenate(([0], marks[:-1] + 1)).astype(np.int32),
            starts,
            np.concatenate(([0], last + 1)).astype(np.int32),
        )


def keep_longest(starts: Long, lengths: Long, size: int) -> Long:
    """Return which of overlapping runs of words to keep: the longest, then the first."""
    taken = np.zeros(size, bool)
    kept = [np.zeros(0, np.int64)]
    for length in range(LONGEST_NAME, 0, -1):
        here = np.flatnonzero(lengths == length)
        here = here[~(taken[starts[here]] | taken[starts[here] + length - 1])]
        here = here[np.argsort(starts[here], kind="stable")]
        here = here[_do_not_overlap(starts[here], length)]
        for step in range(length):
            taken[starts[here] + step] = True
        kept.append(here)
    result = np.concatenate(kept)
    return result[np.argsort(starts[result], kind="stable")]


def _do_not_overlap(starts: Long, length: int) -> Flags:
    """Return which runs of one length to keep, of overlapping ones the first."""
    keep = np.ones(len(starts), bool)
    last = -1
    for place in np.flatnonzero(np.diff(starts) < length).tolist():
        if keep[place]:
            last = place
        # If the run before is dropped, the one before that decides.
        keep[place + 1] = starts[place + 1] >= starts[last] + length
    return keep


class Way(StrEnum):
    """How a candidate was found."""

    SEARCH = "search"
    NAMED = "named"
    LINK = "link"
    BACKLINK = "backlink"
    SHARED = "shared"


class Route(NamedTuple):
    """How a candidate was found: the way, and the name that led to it."""

    way: Way
    source: int = -1
    """The passage that mentions the name; -1 for the question."""
    start: int = -1
    """The bounds of the name among the words of that passage, or of the question."""
    end: int = -1


class QuestionName(NamedTuple):
    """A name in the question."""

    name: int
    rarity: float
    start: int
    end: int


@dataclass(slots=True)
class Candidates:
    """The candidates of a question."""

    found: dict[int, Route] = field(default_factory=dict)
    named: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    """Passages that the question names: the name's rarity, how many passages have it, and its kind."""


def names_in_question(words: Tokens, rarity: Floats, graph: NameGraph) -> list[QuestionName]:
    """Return the names in a question, without common words."""
    written_with_capitals = bool(words.capital[1:].any())
    needed = rarity_needed(len(graph))
    found = []
    for start, length, name in zip(*(column.tolist() for column in graph.find_names(words.hashes)), strict=True):
        total = float(rarity[start : start + length].sum())
        written_as_name = not written_with_capitals or (start > 0 and words.capital[start]) or graph.name_is_term[name]
        if total >= needed and (length > 1 or written_as_name):
            found.append(QuestionName(name, total, start, start + length))
    starts, ends = np.array([(each.start, each.end) for each in found], np.int64).reshape(-1, 2).T
    return [found[place] for place in keep_longest(starts, ends - starts, len(words.hashes)).tolist()]


def gather_candidates(
    hits: Sequence[int], scores: Mapping[int, float], names: Sequence[QuestionName], graph: NameGraph
) -> Candidates:
    """Gather the candidates of a question: one step along names from the best hits and from named passages.

    The scores of all hits decide which passages of an ambiguous name are meant.
    """
    result = Candidates({passage: Route(Way.SEARCH) for passage in hits[:SEARCHED]})
    for each in names:
        homes = graph.homes(each.name)
        passages, kinds = graph.home_passage[homes].tolist(), NAME_KIND_RANKS[graph.home_kind[homes]].tolist()
        allowed = set(graph.allowed(passages))
        places = (at for at, passage in enumerate(passages) if passage in allowed)
        order = sorted(places, key=lambda at: (-scores.get(passages[at], 0.0), kinds[at]))
        for at in order[: _HOMES + 1]:
            result.found.setdefault(passages[at], Route(Way.NAMED, -1, each.start, each.end))
            if each.rarity > result.named.get(passages[at], (0.0, 0, 0))[0]:
                result.named[passages[at]] = (each.rarity, len(passages), kinds[at])
    named = sorted(result.named, key=lambda passage: -result.named[passage][0])[:_MOST_NAMED]
    seeds = list(dict.fromkeys([*hits[:_SEEDS], *named]))
    for at, seed in enumerate(seeds):
        _follow_links(seed, result, scores, graph, _HOMES if at < _FIRST_SEEDS or seed in named else _FEWER_HOMES)
    _follow_shared_names(seeds, result, scores, graph)
    for seed in seeds[:_BACKLINK_SEEDS]:
        _follow_backlinks(seed, result, scores, graph)
    return result


def _first_mentions(mentions: Mentions, passage: int) -> dict[int, int]:
    """Return the names in a passage with their first mentions."""
    here = mentions.of_passage(passage)
    first: dict[int, int] = {}
    for mention, name in enumerate(mentions.name[here].tolist(), here.start):
        first.setdefault(name, mention)
    return first


def _route(way: Way, source: int, mentions: Mentions, mention: int) -> Route:
    return Route(way, source, int(mentions.start[mention]), int(mentions.end[mention]))


def _follow_links(seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph, most: int) -> None:
    """Add the passages whose names a passage mentions."""
    for name, mention in _first_mentions(graph.named, seed).items():
        homes = graph.allowed(graph.home_passage[graph.homes(name)].tolist())
        if len(homes) > most:
            homes = sorted(homes, key=lambda passage: -scores.get(passage, 0.0))[:most]
        for passage in homes:
            result.found.setdefault(passage, _route(Way.LINK, seed, graph.named, mention))


def _follow_shared_names(seeds: list[int], result: Candidates, scores: Mapping[int, float], graph: NameGraph) -> None:
    """Add passages that share a rare name with one of the best hits."""
    room = _MOST_SHARED
    for seed in seeds[:_SHARED_SEEDS]:
        for mentions in (graph.shared, graph.named):
            for name, mention in _first_mentions(mentions, seed).items():
                if mentions.name_bounds[name + 1] - mentions.name_bounds[name] > 20 * _MOST_SHARING:
                    continue
                others = dict.fromkeys(mentions.passages_with(name).tolist())
                if len(others) > _MOST_SHARING:
                    continue
                new = graph.allowed([other for other in others if other not in result.found])
                for other in sorted(new, key=lambda each: -scores.get(each, 0.0))[:_SHARED]:
                    if not room:
                        return
                    result.found.setdefault(other, _route(Way.SHARED, seed, mentions, mention))
                    room -= 1


def _follow_backlinks(seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph) -> None:
    """Add the hits that mention the name of a passage."""
    mentions = graph.named
    near: dict[int, tuple[float, int]] = {}
    for name in graph.own_names(seed).tolist():
        low, high = int(mentions.name_bounds[name]), int(mentions.name_bounds[name + 1])
        for mention in mentions.by_name[low : min(high, low + _MOST_MENTIONERS)].tolist():
            passage = int(mentions.passage[mention])
            if passage != seed and passage in scores:
                near.setdefault(passage, (scores[passage], mention))
    for passage in sorted(near, key=lambda each: -near[each][0])[:_BACKLINKS]:
        result.found.setdefault(passage, _route(Way.BACKLINK, seed, mentions, near[passage][1]))


class Links(NamedTuple):
    """Links among candidates: `source` mentions a name of `target`, or shares a name with it."""

    source: Integers
    target: Integers
    start: Integers
    end: Integers
    homes: Integers
    kind: Integers
    rarity: Floats
    in_question: Flags
    name: Integers


def links_among(passages: Sequence[int], names: Sequence[QuestionName], graph: NameGraph) -> Links:
    """Return all links between passages, which are numbered by their places."""
    place = {passage: at for at, passage in enumerate(passages)}
    rows: list[list[tuple[int, int, int, int, int, int]]] = [[], []]
    both = (graph.named, graph.shared)
    mentioners: tuple[dict[int, list[tuple[int, int]]], ...] = ({}, {})
    for at, passage in enumerate(passages):
        for mentions, by_name in zip(both, mentioners, strict=True):
            here = mentions.of_passage(passage)
            for mention, name in enumerate(mentions.name[here].tolist(), here.start):
                by_name.setdefault(name, []).append((at, mention))
    for name, places in mentioners[0].items():
        homes = graph.homes(name)
        count = homes.stop - homes.start
        if count > _MOST_TARGETS_OF_NAME:
            continue
        kinds = NAME_KIND_RANKS[graph.home_kind[homes]].tolist()
        for passage, kind in zip(graph.home_passage[homes].tolist(), kinds, strict=True):
            target = place.get(passage, -1)
            if target >= 0:
                rows[0] += [(at, target, mention, count, kind, name) for at, mention in places if at != target]
    for number, (mentions, by_name) in enumerate(zip(both, mentioners, strict=True)):
        for name, places in by_name.items():
            total = int(mentions.name_bounds[name + 1] - mentions.name_bounds[name])
            if len(places) > 1 and total <= _MOST_SHARING * 2:
                others = dict.fromkeys(at for at, _ in places)
                rows[number] += [
                    (at, other, mention, total, SHARED_KIND, -1 - name if number else name)
                    for at, mention in places
                    for other in others
                    if other != at
                ]
    source, target_, mention_, homes_, kind_, name_ = np.array([*rows[0], *rows[1]], np.int32).reshape(-1, 6).T
    first, rest = np.split(mention_, [len(rows[0])])
    start, end, rarity = (
        np.concatenate((getattr(graph.named, column)[first], getattr(graph.shared, column)[rest]))
        for column in ("start", "end", "rarity")
    )
    in_question = np.isin(name_, [each.name for each in names])
    return Links(source, target_, start, end, homes_, kind_, rarity, in_question, name_)
