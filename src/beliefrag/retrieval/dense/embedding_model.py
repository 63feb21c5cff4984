"""The embedding model of dense retrieval: which weights it has, what it is called, and what makes vectors with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from beliefrag.errors import RetrievalError
from beliefrag.paths import cache_dir
from beliefrag.retrieval.dense.embedder import Embed, Floats, GgufEmbedder
from beliefrag.retrieval.dense.onnx_embedder import OnnxEmbedder, find_tokenizer, import_onnx

__all__ = [
    "DEFAULT_WEIGHTS",
    "DenseOptions",
    "EmbeddingModel",
    "OpenModel",
    "load_model",
    "name_model",
    "open_embedder",
    "searched_text",
]

DEFAULT_WEIGHTS = "all-minilm-l6-v2"
"""The weights of dense retrieval where no others are named."""

_ONNX = ".onnx"
_KNOWN = {DEFAULT_WEIGHTS: (".gguf", 25), "gte-small": (_ONNX, 134)}
"""The weights that `beliefrag model pull` fetches for dense retrieval: how their file ends, and its size in MB."""


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """The options of dense and hybrid retrieval."""

    weights: str = ""
    """all-minilm-l6-v2 (the default), gte-small, or a file with an embedding model in GGUF or ONNX format."""

    @property
    def name(self) -> str:
        """The known name of the weights; empty for a file of one's own."""
        name = self.weights or DEFAULT_WEIGHTS
        return name if name in _KNOWN else ""

    @property
    def path(self) -> Path:
        """Where the weights lie.

        Raises:
            RetrievalError: They are not on this machine.
        """
        if not self.name:
            # A link stays one: its name says what the file is, and the tokenizer stands beside it.
            path = Path(self.weights).absolute()
            if path.is_file():
                return path
            raise RetrievalError(
                f"There are no weights {self.weights} for dense retrieval.",
                remedy=f"Check the path, or name one of {', '.join(_KNOWN)}.",
            )
        suffix, size = _KNOWN[self.name]
        path = cache_dir() / "models" / f"{self.name}{suffix}"
        if path.is_file():
            return path.absolute()
        raise RetrievalError(
            f"The weights of {self.name}, which dense retrieval needs, are not on this machine.",
            remedy=f"Get them with `beliefrag model pull {self.name}` ({size} MB), or name a file: "
            "--retriever dense:weights=FILE",
        )

    def check(self) -> None:
        """Checks that the weights, and what reads them, are on this machine.

        Raises:
            RetrievalError: The weights or their tokenizer are not.
            MissingExtra: They are in ONNX format, and what reads that is not installed.
        """
        if _is_onnx(path := self.path):
            import_onnx()
            find_tokenizer(path)


@dataclass(frozen=True)
class EmbeddingModel:
    """An embedding model, in this process or on workers."""

    name: str
    """The weights and the beginning of their hash: vectors of another name are never compared with these."""
    embed: Embed
    """Gives the vectors of some texts, in this process."""
    embed_on_workers: Callable[[Iterable[list[str]]], Iterator[Floats]] | None = None
    """Gives the vectors of blocks of texts in their order, on workers; None where there are none."""
    workers: int = 1
    """How many blocks are embedded at the same time."""

    def embed_blocks(self, blocks: Iterable[list[str]]) -> Iterator[Floats]:
        """Gives the vectors of blocks of texts, in their order."""
        return self.embed_on_workers(blocks) if self.embed_on_workers else map(self.embed, blocks)

    @cached_property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        (vectors,) = self.embed_blocks([["."]])
        return int(vectors.shape[1])


OpenModel = Callable[[DenseOptions], EmbeddingModel]
"""Opens the model that the options name."""


def searched_text(title: str, text: str) -> str:
    """Gives the text of a passage that its vector stands for."""
    return f"{title}. {text}" if title else text


@lru_cache(maxsize=8)
def _hash_file(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_weights(path: Path) -> str:
    """Gives the SHA-256 of a file with weights; where the tokenizer is a file of its own, that of both hashes.

    Raises:
        RetrievalError: There is no tokenizer.
    """
    files = (path, find_tokenizer(path)) if _is_onnx(path) else (path,)
    stamps = [(each, each.stat()) for each in files]
    hashes = [_hash_file(each, stamp.st_size, stamp.st_mtime_ns) for each, stamp in stamps]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def open_embedder(path: Path, threads: int | None = None) -> Embed:
    """Loads what makes vectors with these weights.

    Raises:
        RetrievalError: The weights cannot be loaded.
        MissingExtra: They are in ONNX format, and what reads that is not installed.
    """
    return OnnxEmbedder(path, threads) if _is_onnx(path) else GgufEmbedder(path, threads)


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == _ONNX


def name_model(path: Path) -> str:
    """Gives the name of the model that a file holds."""
    return f"{path.stem} {hash_weights(path)[:8]}"


@lru_cache(maxsize=2)
def _load(path: Path, name: str) -> EmbeddingModel:
    return EmbeddingModel(name, open_embedder(path))


def load_model(options: DenseOptions) -> EmbeddingModel:
    """Loads the model into this process; one that is loaded already is used again.

    Raises:
        RetrievalError: The weights are not there, or they cannot be loaded.
        MissingExtra: They need a library that is not installed.
    """
    path = options.path
    return _load(path, name_model(path))
