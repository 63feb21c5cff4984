"""Arrays with names, kept in a folder (mapped, not loaded) or in memory."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.store import sync_folder

_HEADER = "arrays.json"

LARGEST_TABLE_IN_MEMORY = 1 << 22
"""Bytes of the largest table that is held in memory while arrays are made in a folder; larger ones lie in files."""


class MemoryArrays:
    """Arrays that live and die with this object."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[NDArray[Any]]] = {}

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Adds values at the end of an array."""
        self._pieces.setdefault(name, []).append(values)

    def remove(self, name: str) -> None:
        """Removes an array that was only needed on the way."""
        self._pieces.pop(name, None)

    def make_table(self, size: int, kind: DTypeLike) -> NDArray[Any]:
        """Gives an array of zeros to work with."""
        return np.zeros(size, kind)

    def read(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        """Gives the array of a name."""
        pieces = self._pieces.get(name, [])
        if len(pieces) != 1:
            pieces = self._pieces[name] = [np.concatenate([np.zeros(0, kind), *pieces]).astype(kind, copy=False)]
        return pieces[0].astype(kind, copy=False)

    def read_part(self, name: str, kind: DTypeLike, low: int, high: int) -> NDArray[Any]:
        """Gives the values from `low` to `high` of an array."""
        return self.read(name, kind)[low:high]


class ArrayFolder:
    """Arrays in the files of a folder, opened to read.

    Raises:
        OSError: The folder or one of its files cannot be read.
        ValueError: The folder is of another format or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        header = json.loads((folder / _HEADER).read_text("utf-8"))
        self.header: dict[str, Any] = header["about"]
        self._sizes: dict[str, int] = header["bytes"]
        # Graphs of earlier versions have none.
        self._checksums: dict[str, int] = header.get("crc32", {})

    def is_whole(self) -> bool:
        """Says whether all files have the size that they were written with."""
        return all((self._folder / name).stat().st_size == size for name, size in self._sizes.items())

    def find_damaged_file(self) -> str | None:
        """Reads all files, and gives the name of the first that is not what was written, if there is one."""
        for name, checksum in self._checksums.items():
            if zlib.crc32((self._folder / name).read_bytes()) != checksum:
                return name
        return None if self.is_whole() else _HEADER

    def read(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        """Gives the array of a name, mapped."""
        size = self._sizes.get(name, 0)
        if not size:
            return np.zeros(0, kind)
        with (self._folder / name).open("rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                raise ValueError(f"{name} does not have the {size} bytes that it was written with")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), kind)


class _FolderWriter:
    """Writes arrays into the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._checksums: dict[str, int] = {}
        self._tables = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def append(self, name: str, values: NDArray[Any]) -> None:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = (self._folder / name).open("wb")
        data = np.ascontiguousarray(values).data
        file.write(data)
        self._checksums[name] = zlib.crc32(data, self._checksums.get(name, 0))

    def remove(self, name: str) -> None:
        self._checksums.pop(name, None)
        file = self._files.pop(name, None)
        if file is not None:
            file.close()
            (self._folder / name).unlink()

    def read(self, name: str, kind: DTypeLike) -> NDArray[Any]:
        file = self._files.get(name)
        if file is None:
            return np.zeros(0, kind)
        file.flush()
        with (self._folder / name).open("rb") as written:
            if not os.fstat(written.fileno()).st_size:
                return np.zeros(0, kind)
            return np.frombuffer(mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ), kind)

    def read_part(self, name: str, kind: DTypeLike, low: int, high: int) -> NDArray[Any]:
        file = self._files.get(name)
        if file is None or low == high:
            return np.zeros(0, kind)
        file.flush()
        width = np.dtype(kind).itemsize
        with (self._folder / name).open("rb") as written:
            written.seek(low * width)
            return np.frombuffer(written.read((high - low) * width), kind)

    def make_table(self, size: int, kind: DTypeLike) -> NDArray[Any]:
        width = size * np.dtype(kind).itemsize
        if width <= LARGEST_TABLE_IN_MEMORY:
            return np.zeros(size, kind)
        self._tables += 1
        # Beside the folder, which is renamed to its place in the end.
        path = self._folder.with_name(f"table-{self._tables}")
        with path.open("w+b") as file:
            if hasattr(os, "posix_fallocate"):
                # Without the space the system would kill the process at the first write that finds the disk full.
                os.posix_fallocate(file.fileno(), 0, width)
            else:
                file.truncate(width)
            table = np.frombuffer(mmap.mmap(file.fileno(), width), kind)
        # Where the system allows it the space is free as soon as nobody uses the table.
        with suppress(OSError):
            path.unlink()
        return table

    def finish(self, about: dict[str, Any]) -> None:
        """Flushes all files to disk, and the header last."""
        sizes = {}
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            sizes[name] = file.tell()
        with (self._folder / _HEADER).open("w", encoding="utf-8") as header:
            json.dump({"about": about, "bytes": sizes, "crc32": self._checksums}, header)
            header.flush()
            os.fsync(header.fileno())


ArrayWriter: TypeAlias = MemoryArrays | _FolderWriter
Arrays: TypeAlias = ArrayFolder | ArrayWriter


def write_folder(folder: Path, write: Callable[[ArrayWriter], dict[str, Any]]) -> None:
    """Makes a folder of arrays, whole or not at all: it is written beside its place and renamed.

    Args:
        folder: Where the arrays will lie; what is there already is replaced.
        write: Writes them, and returns what the header says about them.
    """
    with tempfile.TemporaryDirectory(prefix="new-", dir=folder.parent, ignore_cleanup_errors=True) as beside:
        fresh = Path(beside) / "arrays"
        fresh.mkdir()
        with _FolderWriter(fresh) as writer:
            writer.finish(write(writer))
        if folder.exists():
            with suppress(OSError):
                folder.rename(Path(beside) / "old")
            shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    sync_folder(folder.parent)
