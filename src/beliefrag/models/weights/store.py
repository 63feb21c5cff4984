"""Where weights are kept on this machine, how a name becomes a file, and the hash of that file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

from beliefrag.errors import ModelError
from beliefrag.file_lock import hold_lock
from beliefrag.models.weights.catalogue import CATALOGUE, DEFAULT, Weights, find
from beliefrag.paths import cache_dir

__all__ = [
    "compute_hash",
    "file_hash",
    "is_present",
    "lock_path",
    "missing_identity",
    "partial_path",
    "path_of",
    "record_hash",
    "remove",
    "resolve",
    "scratch_path",
    "weights_at",
]

_PREFIX = "local:"
_CHUNK = 4 * 1024 * 1024


def path_of(weights: Weights) -> Path:
    """Gives the file that holds these weights after a download."""
    return cache_dir() / "models" / f"{weights.name}{weights.suffix}"


def partial_path(target: Path) -> Path:
    """Gives the file that a download writes until everything is there and verified."""
    return target.with_name(f"{target.name}.part")


def scratch_path(target: Path) -> Path:
    """Gives a folder for temporary files of a download; the next download empties it."""
    return target.with_name(f"{target.name}.scratch")


def lock_path(target: Path) -> Path:
    """Gives the lock file that keeps two downloads of the same weights apart."""
    return target.with_name(f"{target.name}.lock")


def is_present(weights: Weights) -> bool:
    """Says whether the weights are here, judged by their size: quick enough for a list."""
    path = path_of(weights)
    if weights.tokenizer and not is_present(weights.tokenizer):
        return False
    return path.is_file() and path.stat().st_size == weights.size


def weights_at(path: Path) -> Weights | None:
    """Gives the known weights that belong at this path of the store; None for a user's own file."""
    return next((weights for weights in CATALOGUE if path_of(weights) == path.absolute()), None)


def resolve(spec: str) -> Path:
    """Gives the file that `local:NAME` or `local:PATH` stands for; `local` alone is the default model.

    Raises:
        ModelError: The name is unknown, or the file is not there.
    """
    name = _strip_prefix(spec)
    if _is_path(name):
        return _own_file(name)
    weights = find(name or DEFAULT)
    path = path_of(weights)
    if not weights.is_gguf:
        raise ModelError(
            f"{weights.name} answers no questions: {weights.purpose}.",
            remedy=f"Name it for retrieval, as --retriever dense:weights={weights.name}, and another --model.",
        )
    if not path.is_file():
        raise ModelError(
            f"The weights of {weights.name} are not on this machine.",
            remedy=f"Get them with `beliefrag model pull {weights.name}` ({weights.size / 1e9:.1f} GB), "
            "or name your own file: --model local:/path/to/file.gguf",
        )
    return path


def missing_identity(spec: str) -> str | None:
    """Gives the identity of known weights that are not on this machine; None for all other models.

    With it, a run can be previewed before gigabytes are downloaded.

    Raises:
        ModelError: The name is unknown.
    """
    name = _strip_prefix(spec)
    if not spec.startswith(_PREFIX) or _is_path(name):
        return None
    weights = find(name or DEFAULT)
    is_missing = weights.is_gguf and not path_of(weights).is_file()
    return weights.identity if is_missing else None


def remove(name: str) -> int:
    """Deletes the weights of that name and any unfinished download of them; gives the number of bytes freed.

    Raises:
        ModelError: The name is unknown, nothing is there, or another process is downloading them.
    """
    weights = find(name)
    freed = sum(_remove_file(path_of(each)) for each in (weights, weights.tokenizer) if each)
    if not freed:
        raise ModelError(f"The weights of {name} are not on this machine.", remedy="See `beliefrag model pull`.")
    return freed


def _remove_file(target: Path) -> int:
    freed = 0
    if target.parent.is_dir():
        with hold_lock(lock_path(target), wait=False):
            for path in (target, partial_path(target)):
                freed += _delete(path)
            shutil.rmtree(scratch_path(target), ignore_errors=True)
            _hash_record(target).unlink(missing_ok=True)
    return freed


def _delete(path: Path) -> int:
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise ModelError(
            f"{path} cannot be deleted: {error.strerror}.", remedy="Close the programs that use it, then try again."
        ) from None
    return size


def _strip_prefix(spec: str) -> str:
    return "" if spec == _PREFIX.rstrip(":") else spec.removeprefix(_PREFIX)


def _is_path(text: str) -> bool:
    return text.lower().endswith(".gguf") or text.startswith("~") or "/" in text or "\\" in text


def _own_file(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError:
        path = Path(text)
    if not path.is_file():
        raise ModelError(f"There is no file {path}.", remedy="Check the path after `local:`.")
    return path


def file_hash(path: Path) -> str:
    """Gives the SHA-256 of a weights file. It is recorded until the file's size or time of change differs.

    The record is in the cache folder and not beside the file: a user's own folder is not written to.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        state = _file_state(path)
        try:
            record = json.loads(_hash_record(path).read_text("utf-8"))
            if record["state"] == state:
                return str(record["sha256"])
        except (OSError, ValueError, TypeError, KeyError):
            pass
        digest = compute_hash(path)
    except OSError as error:
        raise ModelError(
            f"The weights {path} cannot be read: {error.strerror}.", remedy="Check the path of the weights."
        ) from None
    record_hash(path, digest, state)
    return digest


def compute_hash(path: Path) -> str:
    """Gives the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def record_hash(path: Path, sha256: str, state: list[int] | None = None) -> None:
    """Records the hash of a file, so that its next use need not read it again."""
    record = _hash_record(path)
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    content = json.dumps({"path": str(path), "state": state or _file_state(path), "sha256": sha256})
    # If the cache folder cannot be written to, the next start takes longer; nothing else is lost.
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(content, "utf-8")
        temporary.replace(record)


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _hash_record(path: Path) -> Path:
    key = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return cache_dir() / "models" / "hashes" / f"{key}.json"
