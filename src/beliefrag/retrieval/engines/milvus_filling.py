"""Fills a collection of Milvus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pymilvus import DataType, Function, FunctionType, MilvusClient
from pymilvus.exceptions import MilvusException

from beliefrag.errors import CorpusError, ModelError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.retrieval.bm25 import passage_terms
from beliefrag.retrieval.dense.embedding_model import EmbeddingModel, load_model, searched_text
from beliefrag.retrieval.engines.engine import content_of
from beliefrag.retrieval.engines.filling import Batch, try_again
from beliefrag.retrieval.engines.leased_filling import STATE, LeasedSession, file_note, read_file_note, source_key
from beliefrag.retrieval.engines.milvus import (
    FIELDS,
    MilvusOptions,
    explain_milvus_errors,
    notes_of,
    open_client,
    passage_of,
    primary_key,
)
from beliefrag.retrieval.engines.milvus_vectors import EMBEDDING, check_embedding, round_vectors
from beliefrag.retrieval.store import IndexedFile
from beliefrag.retrieval.writer import StoredPassage
from beliefrag.types import Passage

__all__ = ["MilvusSession"]

_MOST_BYTES = 65_535
_CHUNK = 500
_ALL = 16_384
_SECONDS_TO_SETTLE = 1.0
_EMBEDDED_TOGETHER = 128
"""Passages of a batch with vectors, for each processor: some ten seconds of work."""
_BLOCK = 16
"""Passages that a worker embeds at a time."""


class MilvusSession(LeasedSession):
    """One writer's turn at a collection, which is made if it is not there.

    A file of Milvus Lite is locked for as long as the session lasts. A server has no compare-and-set: there the lease
    is a note that is written, and read again a second later, so two writers that start within that second are told
    apart, but a writer that was suspended for longer than its lease is not.

    Args:
        options: The collection.
        model: Makes the vectors, with hybrid=true; without it, the model is loaded that the options name.

    Raises:
        IndexBusy: Another writer is at work.
        CorpusError: The collection has no vectors and shall get some, or has vectors of another model.
        RetrievalError: The server cannot be reached, or the weights are not on this machine.
    """

    def __init__(self, options: MilvusOptions, model: EmbeddingModel | None = None) -> None:
        if options.is_own_collection:
            raise SettingsError(
                f"{options.collection} is a collection of your own, which BeliefRAG only reads.",
                remedy="Leave text= and vector= out to make a collection.",
            )
        self._options = options
        self._model: EmbeddingModel | None = None
        if options.embedding:
            self._model = model or load_model(options.embedding)
            self._about = {EMBEDDING: self._model.name}
            # Embedding takes long, and the lease must not end meanwhile.
            self.batch = _EMBEDDED_TOGETHER * self._model.workers
        self.name = f"The collection {options.collection}"
        self._notes = notes_of(options.collection)
        self._is_file = options.url.endswith(".db")
        self._closing = ExitStack()
        self._last_note: str | None = None
        if self._is_file:
            lock = Path(options.url).absolute().with_suffix(".lock")
            try:
                self._closing.enter_context(hold_lock(lock, wait=False))
            except ModelError as problem:
                raise self._busy() from problem
        try:
            self._client = open_client(options)
            self._closing.callback(self._client.close)
            with explain_milvus_errors(options.collection):
                _make_collections(self._client, options, self._model.dimensions if self._model else 0)
                self._check_vectors()
                self._start()
        except BaseException:
            self._closing.close()
            raise

    def _check_vectors(self) -> None:
        """Checks that the collection holds the vectors that this session will write, or none if it will write none."""
        fields = [each["name"] for each in self._client.describe_collection(self._options.collection)["fields"]]
        note = self._read_note()
        # A collection that was made, and not written to yet, has no note.
        made_by = json.loads(note).get(EMBEDDING, "") if note else self._about.get(EMBEDDING, "")
        if self._model:
            check_embedding(self._options.collection, made_by if EMBEDDING in fields else "", self._model.name)
        elif EMBEDDING in fields:
            raise CorpusError(
                f"{self.name} holds vectors of {made_by or 'a model'}, and passages without vectors cannot be added.",
                remedy="Give hybrid=true, or name another collection.",
            )

    def _read_note(self) -> str | None:
        rows = self._client.query(
            self._notes, filter=f'name == "{STATE}"', output_fields=["value"], consistency_level="Strong"
        )
        self._last_note = rows[0]["value"] if rows else None
        return self._last_note

    def _write_note(self, note: str) -> bool:
        before = self._last_note
        if self._read_note() != before:
            return False
        self._put_notes({STATE: note})
        if not self._held and not self._is_file:
            time.sleep(_SECONDS_TO_SETTLE)
            return self._read_note() == note
        self._last_note = note
        return True

    def _put_notes(self, notes: Mapping[str, str]) -> None:
        rows = [{"name": name, "value": value, "unused": [0.0, 0.0]} for name, value in notes.items()]
        for start in range(0, len(rows), _CHUNK):
            self._client.upsert(self._notes, rows[start : start + _CHUNK])

    def _read_files(self) -> Iterator[tuple[str, IndexedFile]]:
        pages = self._client.query_iterator(self._notes, batch_size=_CHUNK, output_fields=["name", "value"])
        try:
            while rows := pages.next():
                yield from (read_file_note(row["value"]) for row in rows if row["name"] != STATE)
        finally:
            pages.close()

    def _write_files(self, files: Mapping[str, IndexedFile | None]) -> None:
        kept = {source_key(path): file_note(path, record) for path, record in files.items() if record}
        gone = [source_key(path) for path, record in files.items() if record is None]

        def write() -> None:
            self._put_notes(kept)
            if gone:
                self._client.delete(self._notes, filter=f"name in {json.dumps(gone)}")

        try_again(write, on=(MilvusException,))

    def _write_passages(self, batch: Batch) -> None:
        rows = [_to_row(passage, stored) for passage, stored in batch.puts.values()]
        if self._model:
            for row, vector in zip(rows, self._make_vectors(batch, self._model), strict=True):
                row[EMBEDDING] = vector
        gone = [primary_key(each) for each in batch.removed if each not in batch.puts]

        def write() -> None:
            for start in range(0, len(gone), _CHUNK):
                self._client.delete(
                    self._options.collection, filter=f"key in {json.dumps(gone[start : start + _CHUNK])}"
                )
            for start in range(0, len(rows), _CHUNK):
                self._client.upsert(self._options.collection, rows[start : start + _CHUNK])

        try_again(write, on=(MilvusException,))

    def _make_vectors(self, batch: Batch, model: EmbeddingModel) -> list[list[float]]:
        """Gives the vectors of the passages of a batch; what has only got another source keeps its vector."""
        held = [primary_key(each) for each in batch.removed if each in batch.puts]
        kept = {
            row["id"]: row[EMBEDDING]
            for row in (self._query(f"key in {json.dumps(held)}", ["id", "digest", EMBEDDING]) if held else [])
            if row["digest"] == f"{batch.puts[row['id']][1].digest:x}"
        }
        new = {name: searched_text(each.title, each.text) for name, (each, _) in batch.puts.items() if name not in kept}
        texts = list(new.values())
        blocks = [texts[low : low + _BLOCK] for low in range(0, len(texts), _BLOCK)]
        made = [vector for vectors in model.embed_blocks(blocks) for vector in round_vectors(vectors)]
        kept |= zip(new, made, strict=True)
        return [kept[name] for name in batch.puts]

    def _query(self, filter_: str, fields: list[str]) -> list[dict[str, Any]]:
        return list(
            self._client.query(
                self._options.collection, filter=filter_, output_fields=fields, consistency_level="Strong", limit=_ALL
            )
        )

    def _read_stored(self, ids: Sequence[str]) -> Mapping[str, StoredPassage]:
        keys = [primary_key(each) for each in ids]
        rows = self._query(f"key in {json.dumps(keys)}", ["id", "digest", "sources"])
        return {row["id"]: StoredPassage(int(row["digest"], 16), tuple(json.loads(row["sources"]))) for row in rows}

    def _read_passage(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        rows = self._query(f'key in ["{primary_key(passage_id)}"]', FIELDS)
        return (passage_of(rows[0]), tuple(json.loads(rows[0]["sources"]))) if rows else None

    def _read_ids_of(self, source: str) -> set[str]:
        rows = self._query(f'array_contains(source_keys, "{source_key(source)}")', ["id"])
        if len(rows) == _ALL:
            raise CorpusError(
                f"More than {_ALL:,} passages of {self.name} come from {source!r}.",
                remedy="Split the file, or make the collection again.",
            )
        return {row["id"] for row in rows}

    def _read_digests(self) -> Iterator[int]:
        pages = self._client.query_iterator(self._options.collection, batch_size=_CHUNK, output_fields=["digest"])
        try:
            while rows := pages.next():
                yield from (int(row["digest"], 16) for row in rows)
        finally:
            pages.close()

    def _settle(self, dead: int) -> None:
        self._client.flush(self._options.collection)
        if dead:
            self._client.compact(self._options.collection)

    def _disconnect(self) -> None:
        self._closing.close()

    def _is_engine_error(self, problem: Exception) -> bool:
        return isinstance(problem, MilvusException)


def _to_row(passage: Passage, stored: StoredPassage) -> dict[str, object]:
    row: dict[str, object] = {
        "key": primary_key(passage.id),
        "id": passage.id,
        "title": passage.title,
        "text": passage.text,
        "terms": " ".join(passage_terms(content_of(passage))),
        "sources": json.dumps(stored.sources),
        "source_keys": [source_key(each) for each in stored.sources],
        "digest": f"{stored.digest:x}",
    }
    if any(len(value.encode()) > _MOST_BYTES for value in row.values() if isinstance(value, str)):
        raise CorpusError(
            f"Passage {passage.id!r} is longer than the {_MOST_BYTES:,} bytes that Milvus holds in a field.",
            remedy="Cut it into shorter passages.",
        )
    return row


def _make_collections(client: MilvusClient, options: MilvusOptions, dimensions: int) -> None:
    if not client.has_collection(notes_of(options.collection)):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("name", DataType.VARCHAR, is_primary=True, max_length=64)
        schema.add_field("value", DataType.VARCHAR, max_length=_MOST_BYTES)
        # Every collection of Milvus must have a vector.
        schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)
        indexes = client.prepare_index_params()
        indexes.add_index("unused", index_type="FLAT", metric_type="L2")
        client.create_collection(notes_of(options.collection), schema=schema, index_params=indexes)
    if not client.has_collection(options.collection):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=40)
        schema.add_field("id", DataType.VARCHAR, max_length=512)
        for name in ("title", "text", "sources"):
            schema.add_field(name, DataType.VARCHAR, max_length=_MOST_BYTES)
        schema.add_field("digest", DataType.VARCHAR, max_length=64)
        schema.add_field("source_keys", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=1024, max_length=32)
        analyser = {"tokenizer": "standard"}
        schema.add_field(
            "terms", DataType.VARCHAR, max_length=_MOST_BYTES, enable_analyzer=True, analyzer_params=analyser
        )
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                name="bm25",
                input_field_names=["terms"],
                output_field_names=["sparse"],
                function_type=FunctionType.BM25,
            )
        )
        indexes = client.prepare_index_params()
        numbers: dict[str, object] = {"bm25_k1": options.k1, "bm25_b": options.b}
        # The client sends options one by one; Milvus Lite reads them only in one piece, and passes over them otherwise.
        params = {"params": numbers} if options.url.endswith(".db") else numbers
        indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=params)
        if dimensions:
            schema.add_field(EMBEDDING, DataType.FLOAT_VECTOR, dim=dimensions)
            # The vectors have the length 1, so the inner product is the cosine.
            kind = "AUTOINDEX" if options.approximate else "FLAT"
            indexes.add_index(EMBEDDING, index_type=kind, metric_type="IP")
        client.create_collection(options.collection, schema=schema, index_params=indexes)
    for name in (options.collection, notes_of(options.collection)):
        client.load_collection(name)
