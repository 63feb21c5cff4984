"""The SHA-256 of a weights file, computed once: hashing a gigabyte at every start would be felt."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from beliefrag.errors import ModelError
from beliefrag.paths import cache_dir

__all__ = ["fingerprint", "forget", "hash_file", "remember"]

_CHUNK = 4 * 1024 * 1024


def fingerprint(path: Path) -> str:
    """The SHA-256 of the file, remembered for as long as its size and time of change stay the same.

    The memory is in the cache folder, not beside the file: a user's own folder is not written to.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        state = _state(path)
        try:
            record = json.loads(_record(path).read_text("utf-8"))
            if record["state"] == state:
                return str(record["sha256"])
        except (OSError, ValueError, TypeError, KeyError):
            pass
        digest = hash_file(path)
    except OSError as error:
        raise ModelError(
            f"The weights {path} cannot be read: {error.strerror}.", remedy="Check the path of the weights."
        ) from None
    _note(path, state, digest)
    return digest


def hash_file(path: Path, each: Callable[[int], None] | None = None) -> str:
    """The SHA-256 of the file, read piece by piece; `each` is told how many bytes are done."""
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if each:
                each(done)
    return digest.hexdigest()


def remember(path: Path, sha256: str) -> None:
    """Notes the hash of a file that was just verified, so that its first use need not read it again."""
    _note(path, _state(path), sha256)


def forget(path: Path) -> None:
    """Drops the note about a file that is gone."""
    _record(path).unlink(missing_ok=True)


def _note(path: Path, state: list[int], sha256: str) -> None:
    record = _record(path)
    aside = record.with_name(f"{record.name}.{os.getpid()}")
    # A cache folder that cannot be written to costs time at the next start, and nothing else.
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps({"path": str(path), "state": state, "sha256": sha256}), "utf-8")
        aside.replace(record)


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _record(path: Path) -> Path:
    key = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return cache_dir() / "models" / "hashes" / f"{key}.json"
