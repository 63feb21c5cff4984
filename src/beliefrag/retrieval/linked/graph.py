"""The name graph: which passages have and mention which names, as arrays in a folder of the index.

A link is a mention together with a passage that has the name. Names that no passage has join the passages that mention
them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.linked.words import FACTOR, Flags, Floats, Hashes, Integers, Long, find_hashes
from beliefrag.retrieval.store import sync_folder

LONGEST_NAME = 10
"""The most words of a name."""
_HEADER = "arrays.json"
_LARGEST_IN_MEMORY = 1 << 22
"""Larger tables of bytes lie in a file while arrays are written to a folder."""


class NameKind(IntEnum):
    """How a passage got a name."""

    TITLE = 0
    PLAIN_TITLE = 1
    """The title without the words in parentheses that distinguish it."""
    SUBJECT = 2
    """What the first sentence defines."""
    ACRONYM = 3
    SHORT_TITLE = 4
    """The title before its comma, or the first heading of a path."""
    TERM = 6
    """An option, parameter or field that an entry of a manual explains."""
    HEADING = 7
    """The last heading above the passage."""
    ENTRY = 8
    """A term in that heading."""
    TARGET = 9
    """A place that explicit links lead to; no text mentions it."""
    LINK_TEXT = 10


SURENESS = np.array([0, 1, 2, 3, 4, 5, 0, 1, 0, 0, 1], np.int32)
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
        """The bounds of each mention among the words of its passage."""
        self.name, self.passage = read("name"), read("passage")
        self.rarity: Floats = arrays.read(f"{prefix}_rarity", np.float32)
        """The sum of the rarities of each mention's words."""
        self.bounds = read("bounds")
        """The first mention of each passage."""
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
        self._stem_hash: Hashes = read("stem_hash", np.uint64)
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

    def passage_id(self, passage: int) -> str:
        """Return the id of a passage."""
        return self._ids[self._id_starts[passage] : self._id_starts[passage + 1]].tobytes().decode()

    def find_stems(self, hashes: Hashes) -> Long:
        """Return the numbers of stems, -1 for unknown ones."""
        return find_hashes(self._stem_hash, hashes)

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
        return self._own_name[here][SURENESS[self._own_kind[here]] <= NameKind.SUBJECT]

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
        # A run that overlaps a longer one has its first or its last word in it.
        here = here[~(taken[starts[here]] | taken[starts[here] + length - 1])]
        here = here[np.argsort(starts[here], kind="stable")]
        here = here[_are_apart(starts[here], length)]
        for step in range(length):
            taken[starts[here] + step] = True
        kept.append(here)
    result = np.concatenate(kept)
    return result[np.argsort(starts[result], kind="stable")]


def _are_apart(starts: Long, length: int) -> Flags:
    """Return which runs of one length to keep, of overlapping ones the first."""
    keep = np.ones(len(starts), bool)
    last = -1
    for place in np.flatnonzero(np.diff(starts) < length).tolist():
        if keep[place]:
            last = place
        # If the run before is dropped, the one before that decides.
        keep[place + 1] = starts[place + 1] >= starts[last] + length
    return keep
