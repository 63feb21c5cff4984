"""Every engine in one form, so that one suite of tests can run on all of them."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Protocol

from beliefrag.retrieval import Bm25Index, IndexWriter
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.engines.filling import EngineWriter, Filled, fill
from beliefrag.retrieval.engines.opensearch import OpenSearchIndex, OpenSearchOptions, OpenSearchWriter
from beliefrag.retrieval.engines.postgres import PostgresOptions, PostgresTable, PostgresWriter
from beliefrag.types import Passage
from tests.support.postgres import PostgresServer

_TABLES = count(1)


class EngineUnderTest(Protocol):
    """An index that is empty at first."""

    def open(self) -> Bm25Index | EngineRetriever:
        """Open it for searches."""
        ...

    def fill(self, passages: list[Passage]) -> object:
        """Make it hold exactly these passages."""
        ...


class EmbeddedEngine:
    """The embedded engine, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> Bm25Index:
        return Bm25Index.open(self.folder)

    def fill(self, passages: list[Passage]) -> None:
        before = self.open().first(1_000_000) if self.folder.exists() else []
        with IndexWriter(self.folder) as writer:
            writer.delete({each.id for each in before} - {each.id for each in passages})
            writer.add(passages)
            writer.compact()


class RemoteEngine:
    """An index on an engine elsewhere."""

    target: str

    def open(self) -> EngineRetriever:
        raise NotImplementedError

    def write(self) -> EngineWriter:
        raise NotImplementedError

    def fill(self, passages: list[Passage]) -> Filled:
        return fill(self.write(), Bm25Index.in_memory(passages).read_passages(), lambda _: True)


class PostgresEngine(RemoteEngine):
    """A table of its own, in the database that has one of the two extensions."""

    def __init__(self, server: PostgresServer, extension: str) -> None:
        self.options = PostgresOptions(url=server.database_with(extension), table=f"passages_{next(_TABLES)}")
        self.target = f"postgres:url={self.options.url},table={self.options.table}"

    def open(self) -> EngineRetriever:
        return EngineRetriever(PostgresTable(self.options))

    def write(self) -> PostgresWriter:
        return PostgresWriter(self.options)


class OpenSearchEngine(RemoteEngine):
    """An index on the stand-in for OpenSearch, or on a real server."""

    def __init__(self, url: str) -> None:
        self.options = OpenSearchOptions(url=url, index=f"passages-{next(_TABLES)}-{os.getpid()}", timeout=20)
        self.target = f"opensearch:url={url},index={self.options.index}"

    def open(self) -> EngineRetriever:
        return EngineRetriever(OpenSearchIndex(self.options))

    def write(self) -> OpenSearchWriter:
        return OpenSearchWriter(self.options)
