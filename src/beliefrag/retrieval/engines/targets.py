"""Which engines can be filled, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from beliefrag.errors import SettingsError
from beliefrag.retrieval.engines.filling import BatchSession
from beliefrag.retrieval.protocol import RETRIEVERS

__all__ = ["open_session"]

_SESSIONS = {
    "milvus": "milvus_filling:MilvusSession",
    "opensearch": "opensearch_filling:OpenSearchSession",
    "postgres": "postgres_filling:PostgresSession",
}
"""Each engine, and the file and class that fill it."""


def open_session(to: str, options: Mapping[str, Mapping[str, Any]] | None = None) -> BatchSession:
    """Opens an index on an engine for one writer; it is made if it is not there.

    Args:
        to: `NAME:key=value,...`, as a retriever is named.
        options: Further options of retrievers by name, as in the settings file.

    Raises:
        SettingsError: The name or an option cannot be used, or that retriever cannot be filled.
        CorpusError: The index is another one, or another writer is at work.
        RetrievalError: The engine cannot be reached.
    """
    choice = RETRIEVERS.choose(to, options)
    if choice.name not in _SESSIONS:
        raise SettingsError(
            f"Documents cannot be put into {choice.name!r}.", remedy=f"Known engines: {', '.join(_SESSIONS)}."
        )
    module, _, name = _SESSIONS[choice.name].partition(":")
    session: BatchSession = getattr(import_module(f"beliefrag.retrieval.engines.{module}"), name)(choice.options)
    return session
