"""Where weights live on this machine, and how a name given by a person becomes a file."""

from __future__ import annotations

import shutil
from pathlib import Path

from beliefrag.errors import ModelError
from beliefrag.file_lock import hold_lock
from beliefrag.models.weights.catalogue import CATALOGUE, DEFAULT, Weights, find
from beliefrag.models.weights.fingerprint import forget
from beliefrag.paths import cache_dir

__all__ = [
    "is_present",
    "kept_at",
    "lock_path",
    "missing_identity",
    "partial_path",
    "path_of",
    "remove",
    "resolve",
    "scratch_path",
]

_PREFIX = "local:"


def path_of(weights: Weights) -> Path:
    """The file that holds these weights once they are pulled."""
    return cache_dir() / "models" / f"{weights.name}.gguf"


def partial_path(target: Path) -> Path:
    """Where a pull writes until everything is there and verified."""
    return target.with_name(f"{target.name}.part")


def scratch_path(target: Path) -> Path:
    """A folder for what a source needs on the way; emptied by the next pull."""
    return target.with_name(f"{target.name}.scratch")


def lock_path(target: Path) -> Path:
    """The file that serialises pulls of the same weights."""
    return target.with_name(f"{target.name}.lock")


def is_present(weights: Weights) -> bool:
    """Whether the weights are here, judged by their size: quick enough for a list."""
    path = path_of(weights)
    return path.is_file() and path.stat().st_size == weights.size


def kept_at(path: Path) -> Weights | None:
    """The known weights that belong at this path of the store; None for a user's own file."""
    return next((weights for weights in CATALOGUE if path_of(weights) == path.absolute()), None)


def resolve(spec: str) -> Path:
    """The file that `local:NAME` or `local:PATH` stands for; `local` alone is the default model.

    Raises:
        ModelError: The name is unknown, or the file is not there.
    """
    wanted = _wanted(spec)
    if _looks_like_a_path(wanted):
        return _own_file(wanted)
    weights = find(wanted or DEFAULT)
    path = path_of(weights)
    if not path.is_file():
        raise ModelError(
            f"The weights of {weights.name} are not on this machine.",
            remedy=f"Get them with `beliefrag model pull {weights.name}` ({weights.size / 1e9:.1f} GB), "
            "or name a file of your own: --model local:/path/to/file.gguf",
        )
    return path


def missing_identity(spec: str) -> str | None:
    """The identity of known weights that are not on this machine; None for all other models.

    So that a preview of a run can be had before gigabytes are pulled.

    Raises:
        ModelError: The name is unknown.
    """
    wanted = _wanted(spec)
    if not spec.startswith(_PREFIX) or _looks_like_a_path(wanted):
        return None
    weights = find(wanted or DEFAULT)
    return None if path_of(weights).is_file() else weights.identity


def remove(name: str) -> int:
    """Deletes the weights of that name, and what an unfinished pull left; gives the number of bytes freed.

    Raises:
        ModelError: The name is unknown, nothing is there, or they are being pulled at this moment.
    """
    target = path_of(find(name))
    freed = 0
    if target.parent.is_dir():
        with hold_lock(lock_path(target), wait=False):
            for path in (target, partial_path(target)):
                freed += _delete(path)
            shutil.rmtree(scratch_path(target), ignore_errors=True)
            forget(target)
    if not freed:
        raise ModelError(f"The weights of {name} are not on this machine.", remedy="See `beliefrag model list`.")
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


def _wanted(spec: str) -> str:
    return "" if spec == _PREFIX.rstrip(":") else spec.removeprefix(_PREFIX)


def _looks_like_a_path(text: str) -> bool:
    return text.lower().endswith(".gguf") or text.startswith("~") or "/" in text or "\\" in text


def _own_file(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError:
        path = Path(text)
    if not path.is_file():
        raise ModelError(f"There is no file {path}.", remedy="Check the path after `local:`.")
    return path
