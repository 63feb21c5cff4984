"""Which engines can be filled, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from beliefrag.errors import SettingsError
from beliefrag.retrieval.engines.filling import BatchSession
from beliefrag.retrieval.protocol import RETRIEVERS

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.embedding_model import DenseOptions, EmbeddingModel

__all__ = ["EngineTarget", "choose_target"]

_SESSIONS = {
    "milvus": "milvus_filling:MilvusSession",
    "opensearch": "opensearch_filling:OpenSearchSession",
    "postgres": "postgres_filling:PostgresSession",
}
"""Each engine, and the file and class that fill it."""


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """An index on an engine that shall be filled."""

    engine: str
    options: Any

    @property
    def vectors(self) -> DenseOptions | None:
        """The embedding model whose vectors the index holds; None for an index without vectors."""
        options: DenseOptions | None = getattr(self.options, "embedding", None)
        return options

    def open_session(self, model: EmbeddingModel | None = None) -> BatchSession:
        """Opens the index for one writer; it is made if it is not there.

        Args:
            model: Makes the vectors, for an index that holds vectors.

        Raises:
            CorpusError: The index is another one, or another writer is at work.
            RetrievalError: The engine cannot be reached.
        """
        module, _, name = _SESSIONS[self.engine].partition(":")
        kind = getattr(import_module(f"beliefrag.retrieval.engines.{module}"), name)
        session: BatchSession = kind(self.options, model) if model else kind(self.options)
        return session


def choose_target(to: str, options: Mapping[str, Mapping[str, Any]] | None = None) -> EngineTarget:
    """Gives the index that is named.

    Args:
        to: `NAME:key=value,...`, as a retriever is named.
        options: Further options of retrievers by name, as in the settings file.

    Raises:
        SettingsError: The name or an option cannot be used, or that retriever cannot be filled.
    """
    choice = RETRIEVERS.choose(to, options)
    if choice.name not in _SESSIONS:
        raise SettingsError(
            f"Documents cannot be put into {choice.name!r}.", remedy=f"Known engines: {', '.join(_SESSIONS)}."
        )
    return EngineTarget(choice.name, choice.options)
