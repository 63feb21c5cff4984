"""Every engine in one form, so that one suite of tests can run on all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from beliefrag.retrieval import Bm25Index, IndexWriter
from beliefrag.retrieval.dense import EmbeddingModel
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.engines.hybrid_retriever import EngineHybridRetriever
from beliefrag.retrieval.engines.milvus import MilvusCollection, MilvusOptions
from beliefrag.retrieval.engines.milvus_filling import MilvusSession
from beliefrag.retrieval.engines.milvus_vectors import MilvusVectors
from beliefrag.retrieval.engines.opensearch import OpenSearchIndex, OpenSearchOptions
from beliefrag.retrieval.engines.opensearch_filling import OpenSearchSession
from beliefrag.retrieval.engines.postgres import PostgresOptions, PostgresTable
from beliefrag.retrieval.engines.postgres_filling import PostgresSession
from beliefrag.retrieval.writer import PassageWriter
from beliefrag.types import Passage
from tests.support.embedding import word_model
from tests.support.postgres import PostgresServer


class EngineUnderTest(Protocol):
    """An index that is empty at first."""

    forgets_deleted: bool
    """Whether its statistics are those of a fresh index once passages were deleted."""

    def open(self) -> Bm25Index | EngineRetriever:
        """Opens it for searches."""
        ...

    def write(self) -> AbstractContextManager[PassageWriter]:
        """Opens it for one writer; all is ready for searches when the block ends."""
        ...


class AnyEngine(Protocol):
    """An index that is empty at first, and that may also search by vectors and so find passages without a word of the
    query."""

    forgets_deleted: bool

    def open(self) -> Bm25Index | EngineRetriever | EngineHybridRetriever:
        """Opens it for searches."""
        ...

    def write(self) -> AbstractContextManager[PassageWriter]:
        """Opens it for one writer; all is ready for searches when the block ends."""
        ...


class EmbeddedEngine:
    """The embedded engine, in a folder."""

    forgets_deleted = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> Bm25Index:
        return Bm25Index.open(self.folder)

    @contextmanager
    def write(self) -> Iterator[PassageWriter]:
        with IndexWriter(self.folder) as writer:
            yield writer
            writer.compact(force=True)


_TABLES = count(1)


class PostgresEngine:
    """A table of its own, in the database that has one of the two extensions."""

    forgets_deleted = True

    def __init__(self, server: PostgresServer, extension: str) -> None:
        self.url = server.database_with(extension)
        self.options = PostgresOptions(url=self.url, table=f"passages_{next(_TABLES)}")

    def open(self) -> EngineRetriever:
        return EngineRetriever(PostgresTable(self.options))

    @contextmanager
    def write(self) -> Iterator[PassageWriter]:
        session = PostgresSession(self.options)
        with PassageWriter(session) as writer:
            yield writer
            writer.commit()
            session.finish()


class MilvusEngine:
    """A collection in a file of Milvus Lite, which counts deleted passages until it merges their segment."""

    forgets_deleted = False

    def __init__(self, file: Path) -> None:
        self.options = MilvusOptions(url=str(file))

    def open(self) -> EngineRetriever:
        return EngineRetriever(MilvusCollection(self.options))

    @contextmanager
    def write(self) -> Iterator[PassageWriter]:
        session = MilvusSession(self.options)
        with PassageWriter(session) as writer:
            yield writer
            writer.commit()
            session.finish()


class MilvusHybridEngine:
    """The same with vectors of a small embedding."""

    forgets_deleted = False

    def __init__(self, options: MilvusOptions, model: EmbeddingModel | None = None) -> None:
        self.options = options
        self.model = model or word_model()

    def open(self) -> EngineHybridRetriever:
        words = EngineRetriever(collection := MilvusCollection(self.options))
        return EngineHybridRetriever(words, MilvusVectors(collection, self.model), self.model)

    @contextmanager
    def write(self) -> Iterator[PassageWriter]:
        session = MilvusSession(self.options, self.model)
        with PassageWriter(session) as writer:
            yield writer
            writer.commit()
            session.finish()


class OpenSearchEngine:
    """An index on the stand-in for OpenSearch, or on a real server."""

    forgets_deleted = True

    def __init__(self, url: str) -> None:
        self.options = OpenSearchOptions(url=url, index=f"passages-{next(_TABLES)}-{os.getpid()}", timeout=20)

    def open(self) -> EngineRetriever:
        return EngineRetriever(OpenSearchIndex(self.options))

    @contextmanager
    def write(self) -> Iterator[PassageWriter]:
        session = OpenSearchSession(self.options)
        with PassageWriter(session) as writer:
            yield writer
            writer.commit()
            session.finish()


def fill(engine: AnyEngine, passages: list[Passage]) -> None:
    """Puts passages into an index."""
    with engine.write() as writer:
        writer.add(passages)
