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

__all__ = [
    "DEFAULT_WEIGHTS",
    "DenseOptions",
    "EmbeddingModel",
    "OpenModel",
    "load_model",
    "name_model",
    "searched_text",
]

DEFAULT_WEIGHTS = "all-minilm-l6-v2"
"""The weights that `beliefrag model pull` fetches for dense retrieval."""


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """The options of dense and hybrid retrieval."""

    weights: str = ""
    """A file with an embedding model in GGUF format; by default the one that `beliefrag model pull` fetches."""

    @property
    def path(self) -> Path:
        """Where the weights lie.

        Raises:
            RetrievalError: They are not on this machine.
        """
        path = Path(self.weights) if self.weights else cache_dir() / "models" / f"{DEFAULT_WEIGHTS}.gguf"
        if path.is_file():
            return path.resolve()
        if self.weights:
            raise RetrievalError(f"There are no weights {path} for dense retrieval.", remedy="Check the path.")
        raise RetrievalError(
            f"The weights of {DEFAULT_WEIGHTS}, which dense retrieval needs, are not on this machine.",
            remedy=f"Get them with `beliefrag model pull {DEFAULT_WEIGHTS}` (25 MB), or name a file: "
            "--retriever dense:weights=FILE.gguf",
        )

    def check(self) -> None:
        """Checks that the weights are on this machine.

        Raises:
            RetrievalError: They are not.
        """
        self.path.stat()


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
    """Gives the SHA-256 of a file with weights."""
    stamp = path.stat()
    return _hash_file(path, stamp.st_size, stamp.st_mtime_ns)


def name_model(path: Path) -> str:
    """Gives the name of the model that a file holds."""
    return f"{path.stem} {hash_weights(path)[:8]}"


@lru_cache(maxsize=2)
def _load(path: Path, name: str) -> EmbeddingModel:
    return EmbeddingModel(name, GgufEmbedder(path))


def load_model(options: DenseOptions) -> EmbeddingModel:
    """Loads the model into this process; one that is loaded already is used again.

    Raises:
        RetrievalError: The weights are not there, or they cannot be loaded.
    """
    path = options.path
    return _load(path, name_model(path))
