"""Finds the files of a corpus below the paths that were given, in the same order every time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from beliefrag.errors import CorpusError
from beliefrag.retrieval.document import CorpusFile
from beliefrag.retrieval.ledger import LEDGER
from beliefrag.retrieval.readers import format_of
from beliefrag.retrieval.text import printable_path

__all__ = ["FoundFiles", "Skipped", "find_files"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a part of one, that was left out, and why."""

    path: str
    """The path, printable."""
    reason: str


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What lies below the given paths."""

    roots: tuple[str, ...]
    files: dict[str, CorpusFile] = field(default_factory=dict)
    """Files of a format that is read, by path."""
    skipped: list[Skipped] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    """Folders that could not be looked into: of what lies there nothing is known."""

    def has_lost(self, path: str) -> bool:
        """Says whether a file known from before lay below the given paths and is there no longer."""
        return (
            path not in self.files
            and any(_is_below(path, root) for root in self.roots)
            and not any(_is_below(path, folder) for folder in self.unlisted)
        )


def find_files(paths: Iterable[str | Path], *, leave_out: Path | None = None) -> FoundFiles:
    """Finds all files to read, going down into folders.

    Hidden files and folders below a given path are passed over, and so are indexes. A link to a file is read; a link
    to a folder is not followed, so that no loop and no foreign folder is walked into. Anything that is not a regular
    file (a pipe, a device) is skipped: opening it could wait for ever.

    Args:
        paths: Files and folders.
        leave_out: The index that is being written, where there is one.

    Raises:
        CorpusError: A given path does not exist.
    """
    roots = [os.path.realpath(path) for path in paths]
    for root in roots:
        if not os.path.exists(root):  # noqa: PTH110 - names of any bytes stay strings here
            raise CorpusError(f"{printable_path(root)} does not exist.", remedy="Check the path of the documents.")
    found = FoundFiles(tuple(sorted(set(roots))))
    own = os.path.realpath(leave_out) if leave_out else ""
    for root in found.roots:
        if os.path.isdir(root):  # noqa: PTH112
            for path in _walk_folder(root, own, found):
                _add_file(found, path, os.path.relpath(path, root))
        else:
            _add_file(found, root, os.path.basename(root))  # noqa: PTH119
    return found


def _walk_folder(folder: str, own: str, found: FoundFiles) -> Iterator[str]:
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as problem:
            found.unlisted.append(here)
            found.skipped.append(Skipped(printable_path(here), f"cannot be listed: {problem.strerror}"))
            continue
        if here == own or any(entry.name == LEDGER for entry in entries):
            continue
        folders = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_symlink() and os.path.isdir(entry.path):  # noqa: PTH112
                found.skipped.append(
                    Skipped(printable_path(entry.path), "is a link to a folder; give the folder itself")
                )
            else:
                yield entry.path
        waiting.extend(reversed(folders))


def _add_file(found: FoundFiles, path: str, name: str) -> None:
    if path in found.files:
        return
    reason = ""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            reason = "is not a regular file"
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror}"
    if not reason and format_of(path) is None:
        ending = printable_path(os.path.splitext(path)[1])  # noqa: PTH122
        reason = f"has a format that is not read ({ending or 'no ending'})"
    if reason:
        found.skipped.append(Skipped(printable_path(path), reason))
        return
    found.files[path] = CorpusFile(Path(path), printable_path(name), printable_path(path))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
