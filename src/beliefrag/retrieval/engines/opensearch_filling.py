"""Fills an index of OpenSearch or Elasticsearch in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opensearchpy import helpers
from opensearchpy.exceptions import ConflictError, NotFoundError, OpenSearchException, RequestError

from beliefrag.errors import SettingsError
from beliefrag.retrieval.bm25 import passage_terms
from beliefrag.retrieval.engines.engine import content_of
from beliefrag.retrieval.engines.filling import ATTEMPTS, Batch, try_again
from beliefrag.retrieval.engines.leased_filling import STATE, LeasedSession, file_note, read_file_note, source_key
from beliefrag.retrieval.engines.opensearch import (
    MOST_HITS,
    OpenSearchOptions,
    explain_opensearch_errors,
    notes_index,
    open_opensearch,
    passage_from,
)
from beliefrag.retrieval.store import IndexedFile
from beliefrag.retrieval.writer import StoredPassage
from beliefrag.types import Passage

__all__ = ["OpenSearchSession"]

_CHUNK = 500


class OpenSearchSession(LeasedSession):
    """One writer's turn at an index, which is made if it is not there.

    Raises:
        IndexBusy: Another writer is at work.
        RetrievalError: No node can be reached.
    """

    def __init__(self, options: OpenSearchOptions) -> None:
        if options.is_own_index:
            raise SettingsError(
                f"{options.index} is an index of your own, which BeliefRAG only reads.",
                remedy="Leave text=, title=, id= and source= out to make an index.",
            )
        self._index, self._notes = options.index, notes_index(options.index)
        self.name = f"The index {options.index}"
        self._client = open_opensearch(options)
        self._place: dict[str, Any] = {"op_type": "create"}
        with explain_opensearch_errors(options.index):
            self._make(self._index, _passages_body(options))
            self._make(self._notes, _notes_body())
            self._start()

    def _make(self, name: str, body: Mapping[str, Any]) -> None:
        try:
            self._client.indices.create(index=name, body=body)
        except RequestError as problem:
            if problem.error != "resource_already_exists_exception":
                raise

    def _read_note(self) -> str | None:
        try:
            found = self._client.get(index=self._notes, id=STATE)
        except NotFoundError:
            return None
        self._place = {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]}
        note: str = found["_source"]["value"]
        return note

    def _write_note(self, note: str) -> bool:
        try:
            # The write is refused when the note is another one than was read or written last.
            done = self._client.index(index=self._notes, id=STATE, body={"value": note}, refresh="true", **self._place)
        except ConflictError:
            return False
        self._place = {"if_seq_no": done["_seq_no"], "if_primary_term": done["_primary_term"]}
        return True

    def _bulk(self, actions: Sequence[Mapping[str, Any]], *, refresh: bool = False) -> None:
        def write() -> None:
            # A document that the server refuses because it is busy is sent again by the library.
            helpers.bulk(
                self._client,
                actions,
                chunk_size=_CHUNK,
                max_retries=ATTEMPTS,
                initial_backoff=1,
                max_backoff=30,
                ignore_status=(404,),
                refresh="true" if refresh else "false",
            )

        if actions:
            try_again(write, on=(OpenSearchException,))

    def _read_files(self) -> Iterator[tuple[str, IndexedFile]]:
        query = {"query": {"bool": {"must_not": [{"ids": {"values": [STATE]}}]}}}
        for hit in helpers.scan(self._client, query=query, index=self._notes, size=_CHUNK):
            yield read_file_note(hit["_source"]["value"])

    def _write_files(self, files: Mapping[str, IndexedFile | None]) -> None:
        actions: list[Mapping[str, Any]] = []
        for path, record in files.items():
            where = {"_index": self._notes, "_id": f"file-{source_key(path)}"}
            if record is None:
                actions.append({"_op_type": "delete", **where})
            else:
                actions.append({"_op_type": "index", **where, "_source": {"value": file_note(path, record)}})
        self._bulk(actions, refresh=True)

    def _write_passages(self, batch: Batch) -> None:
        gone = [each for each in batch.removed if each not in batch.puts]
        actions: list[Mapping[str, Any]] = [{"_op_type": "delete", "_index": self._index, "_id": each} for each in gone]
        for passage, stored in batch.puts.values():
            value = {
                "id": passage.id,
                "title": passage.title,
                "text": passage.text,
                "terms": " ".join(passage_terms(content_of(passage))),
                "sources": list(stored.sources),
                "source_keys": [source_key(each) for each in stored.sources],
                "digest": f"{stored.digest:x}",
            }
            actions.append({"_op_type": "index", "_index": self._index, "_id": passage.id, "_source": value})
        # What a source holds is looked up by a search, which sees only what was refreshed.
        self._bulk(actions, refresh=True)

    def _read_stored(self, ids: Sequence[str]) -> Mapping[str, StoredPassage]:
        reply = self._client.mget(index=self._index, body={"ids": list(ids)}, _source_includes="digest,sources")
        return {
            each["_id"]: StoredPassage(int(each["_source"]["digest"], 16), tuple(each["_source"]["sources"]))
            for each in reply["docs"]
            if each.get("found")
        }

    def _read_passage(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        try:
            value = self._client.get(index=self._index, id=passage_id)["_source"]
        except NotFoundError:
            return None
        return passage_from(value), tuple(value["sources"])

    def _read_ids_of(self, source: str) -> set[str]:
        query = {"query": {"terms": {"source_keys": [source_key(source)]}}, "_source": False}
        return {hit["_id"] for hit in helpers.scan(self._client, query=query, index=self._index, size=_CHUNK)}

    def _read_digests(self) -> Iterator[int]:
        self._client.indices.refresh(index=self._index)
        query = {"query": {"match_all": {}}, "_source": ["digest"]}
        for hit in helpers.scan(self._client, query=query, index=self._index, size=_CHUNK):
            yield int(hit["_source"]["digest"], 16)

    def _settle(self, dead: int) -> None:
        self._client.indices.refresh(index=self._index)
        if dead:
            self._client.indices.forcemerge(index=self._index, only_expunge_deletes="true")

    def _disconnect(self) -> None:
        self._client.close()

    def _is_engine_error(self, problem: Exception) -> bool:
        return isinstance(problem, OpenSearchException)


def _passages_body(options: OpenSearchOptions) -> dict[str, Any]:
    kept = {"type": "text", "index": False}
    return {
        "settings": {
            "index": {
                "number_of_shards": options.shards,
                "max_result_window": MOST_HITS + 1,
                "similarity": {"beliefrag": {"type": "BM25", "k1": options.k1, "b": options.b}},
            },
            "analysis": {"analyzer": {"terms": {"type": "custom", "tokenizer": "whitespace"}}},
        },
        "mappings": {
            "dynamic": "strict",
            "properties": {
                "id": {"type": "keyword"},
                "title": kept,
                "text": kept,
                "terms": {"type": "text", "analyzer": "terms", "similarity": "beliefrag", "index_options": "freqs"},
                "sources": {"type": "keyword", "index": False, "doc_values": False},
                "source_keys": {"type": "keyword"},
                "digest": {"type": "keyword", "index": False, "doc_values": False},
            },
        },
    }


def _notes_body() -> dict[str, Any]:
    return {
        "settings": {"index": {"number_of_shards": 1}},
        "mappings": {
            "dynamic": "strict",
            "properties": {"value": {"type": "keyword", "index": False, "doc_values": False}},
        },
    }
