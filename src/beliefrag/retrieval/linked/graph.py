"""The name graph: which passage has which name, and which passage mentions it, as arrays in a folder beside the index.

A mention is a place in a passage's words; a link is a mention together with a passage that has the name. Names that no
passage is about join the passages that mention them. `build` makes the graph.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.linked.names import LONGEST_NAME, SURENESS, NameKind
from beliefrag.retrieval.linked.words import FACTOR, Flags, Floats, Hashes, Integers, Long, find_hashes
from beliefrag.retrieval.store import sync_folder

_HEADER = "arrays.json"
_LARGEST_IN_MEMORY = 1 << 22
"""Bytes of the largest table that is held in memory while arrays are made in a folder."""


class Arrays:
    """Arrays in the files of a folder, or in memory: appended to while they are made, and mapped when they are read."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    @classmethod
    def open(cls, folder: Path, version: int) -> Self:
        """Open arrays that `write_arrays` has written; raise ValueError if they are of another version or damaged."""
        header = json.loads((folder / _HEADER).read_text("utf-8"))
        if not isinstance(header, dict) or header.get("about", {}).get("format") != version:
            raise ValueError(f"{_HEADER} is not of version {version}")
        for name, size in header["bytes"].items():
            if (folder / name).stat().st_size != size:
                raise ValueError(f"{name} does not have the {size} bytes that it was written with")
        return cls(folder)

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Add values at the end of an array."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = (self._folder / name).open("wb") if self._folder else BytesIO()
        file.write(np.ascontiguousarray(values).data)

    def remove(self, name: str) -> None:
        """Remove an array that was only needed on the way."""
        file = self._files.pop(name, None)
        if file is not None:
            file.close()
            if self._folder:
                (self._folder / name).unlink()

    def read(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        """Return an array; an empty one if nothing was appended."""
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
        """Return zeros to work with; a large table lies in an unnamed file, whose pages the system can drop."""
        width = size * np.dtype(kind).itemsize
        if not self._folder or width <= _LARGEST_IN_MEMORY:
            return np.zeros(size, kind)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            # Without the space the system would kill the process at the first write that finds the disk full.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, width)
            return np.memmap(file, kind, mode="w+", shape=(size,)).view(np.ndarray)

    def _finish(self, about: dict[str, Any]) -> None:
        """Flush all files to disk, and the header last."""
        sizes = {name: file.tell() for name, file in self._files.items()}
        self._files[_HEADER] = header = (self._folder or Path()).joinpath(_HEADER).open("wb")
        header.write(json.dumps({"about": about, "bytes": sizes}).encode())
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files that were appended to."""
        for file in self._files.values():
            file.close()


def write_arrays(folder: Path, version: int, write: Callable[[Arrays], dict[str, Any]]) -> None:
    """Write a folder of arrays, whole or not at all: it is written beside its place and renamed.

    `write` returns what the header says about the arrays besides their version.
    """
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


@dataclass(frozen=True, slots=True)
class PassageWords:
    """The words of some passages one after another: each its title, then its sentences, each with a mark at its end."""

    words: Integers
    sentence_starts: Integers
    """Where each sentence begins among the words; a title is a sentence too."""
    passage_starts: Integers
    passage_sentences: Integers
    """Where each passage begins among the words and among the sentences, and at last where they end."""

    def __len__(self) -> int:
        return len(self.passage_starts) - 1


class Mentions:
    """Where the passages mention names: by passage, and by name."""

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        def read(name: str) -> Integers:
            return arrays.read(f"{prefix}_{name}", np.int32)

        self.start, self.end = read("start"), read("end")
        """Where each mention begins and ends among the words of its passage."""
        self.name, self.passage = read("name"), read("passage")
        self.rarity: Floats = arrays.read(f"{prefix}_rarity", np.float32)
        """The sum of the rarities of each mention's words."""
        self.bounds = read("bounds")
        """Where the mentions of each passage begin."""
        self.by_name, self.name_bounds = read("by_name"), read("name_bounds")

    def of_passage(self, passage: int) -> slice:
        """Return where the mentions of a passage lie."""
        return slice(int(self.bounds[passage]), int(self.bounds[passage + 1]))

    def passages_with(self, name: int) -> Integers:
        """Return the passages that mention a name, one for each mention."""
        return self.passage[self.by_name[self.name_bounds[name] : self.name_bounds[name + 1]]]


class NameGraph:
    """A name graph that is opened for search."""

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
        """Words of a passage on average, marks included."""
        return len(self._words) / max(len(self), 1)

    @cached_property
    def _sorted_keys(self) -> Long:
        return self.keys[self._key_order]

    def numbers(self, keys: Long) -> Integers:
        """Return the numbers of passages from their keys; -1 for a passage that the graph does not know."""
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
        """Return where a name's passages and kinds lie in `home_passage` and `home_kind`."""
        return slice(int(self.name_bounds[name]), int(self.name_bounds[name + 1]))

    def own_names(self, passage: int) -> Integers:
        """Return the names of a passage that are sure: its title, with and without parentheses, and its subject."""
        here = slice(int(self._own_bounds[passage]), int(self._own_bounds[passage + 1]))
        return self._own_name[here][SURENESS[self._own_kind[here]] <= NameKind.SUBJECT]

    @cached_property
    def has_headings(self) -> bool:
        """Whether any passage is below a heading or is the target of an explicit link."""
        return bool((self._own_kind >= NameKind.HEADING).any())

    def is_below_heading(self, passage: int) -> bool:
        """Return whether a passage is below a heading or is the target of an explicit link."""
        here = self._own_kind[self._own_bounds[passage] : self._own_bounds[passage + 1]]
        return bool((here >= NameKind.HEADING).any())

    def read_words(self, passages: Integers) -> PassageWords:
        """Return the words of some passages, in the order given."""
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
    """Return which of overlapping runs of words stay: the longest first, of equally long ones the first."""
    taken = np.zeros(size, bool)
    kept = [np.zeros(0, np.int64)]
    for length in range(LONGEST_NAME, 0, -1):
        here = np.flatnonzero(lengths == length)
        # A shorter run that overlaps a longer one has its first or its last word in it.
        here = here[~(taken[starts[here]] | taken[starts[here] + length - 1])]
        here = here[np.argsort(starts[here], kind="stable")]
        here = here[_are_apart(starts[here], length)]
        for step in range(length):
            taken[starts[here] + step] = True
        kept.append(here)
    result = np.concatenate(kept)
    return result[np.argsort(starts[result], kind="stable")]


def _are_apart(starts: Long, length: int) -> Flags:
    """Return which runs of one length stay if the first of those that overlap is kept."""
    keep = np.ones(len(starts), bool)
    last = -1
    for place in np.flatnonzero(np.diff(starts) < length).tolist():
        if keep[place]:
            last = place
        # The run before may be left out itself, and then the one before that decides.
        keep[place + 1] = starts[place + 1] >= starts[last] + length
    return keep
