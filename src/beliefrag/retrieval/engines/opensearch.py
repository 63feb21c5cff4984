"""OpenSearch and Elasticsearch: searching an index, and filling one.

An index of ours has the terms of the embedded engine, and beside it lies one with a note: how many passages there are,
the sum of their digests, and whether the last run was finished. An index of the user's own is searched in the fields
that they name. A query is only ever the text of a `match`, which has no syntax.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, explain_missing_extra
from beliefrag.retrieval.bm25 import Bm25Index, passage_terms, query_terms, query_words
from beliefrag.retrieval.engines.engine_retriever import (
    EngineDescription,
    EngineOptions,
    IndexState,
    check_address,
    check_filterable,
    one_line,
    open_on_engine,
    read_metadata,
)
from beliefrag.retrieval.engines.filling import Changes, Held
from beliefrag.retrieval.filters import FILE, PATH, Both, Either, Filter, Not, matching_values
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.retrieval.store import EMPTY, CorpusState
from beliefrag.retrieval.writer import IndexBusy
from beliefrag.types import Passage

with explain_missing_extra("Search on OpenSearch and Elasticsearch", "opensearch"):
    from opensearchpy import OpenSearch, helpers
    from opensearchpy.exceptions import (
        ConflictError,
        ConnectionTimeout,
        NotFoundError,
        OpenSearchException,
        RequestError,
        TransportError,
    )
    from opensearchpy.exceptions import ConnectionError as NoConnection

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource

_FORMAT = 2
_PAGE = 1000
_RETRIES = 3
_CONNECTIONS = 8
_OUR_FIELDS = ("title", "text", "sources")
_METADATA = "metadata"
_STATE = "state"
_BUSY = (429, 502, 503, 504)

IndexName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,200}$")]


@dataclass(frozen=True, slots=True)
class OpenSearchOptions(EngineOptions):
    """The options of search on OpenSearch and Elasticsearch; credentials come from BELIEFRAG_OPENSEARCH_... ."""

    index: IndexName = "passages"
    certificates: str = ""
    """A file with the certificates to trust, if those of the system are not enough."""

    @property
    def notes(self) -> str:
        """The index with the note about an index of ours."""
        return f"{self.index}-notes"


def _make_client(options: OpenSearchOptions) -> OpenSearch:
    parts = check_address(options.url, schemes=("https", "http"), variable="BELIEFRAG_OPENSEARCH_PASSWORD")
    user, password, key = (
        os.environ.get(f"BELIEFRAG_OPENSEARCH_{name}", "") for name in ("USER", "PASSWORD", "API_KEY")
    )
    return OpenSearch(
        hosts=[options.url],
        http_auth=(user, password) if user else None,
        headers={"authorization": f"ApiKey {key}"} if key else None,
        timeout=options.timeout,
        max_retries=_RETRIES,
        retry_on_status=_BUSY,
        retry_on_timeout=False,
        pool_maxsize=_CONNECTIONS,
        use_ssl=parts.scheme == "https",
        verify_certs=parts.scheme == "https",
        ca_certs=options.certificates or None,
    )


@contextmanager
def _explain_errors(what: str) -> Iterator[None]:
    """Turn errors of the client library into ours; `what` was being done."""
    try:
        yield
    except BeliefRAGError:
        raise
    except OpenSearchException as problem:
        reason, remedy = one_line(problem), "Look at the cluster."
        if isinstance(problem, ConnectionTimeout):
            reason, remedy = "it was not done in time", "Raise timeout=SECONDS, or look at the cluster."
        elif isinstance(problem, NoConnection):
            reason = f"no node can be reached: {one_line(problem.error)}"
            remedy = "Check the address and that the server runs."
        elif isinstance(problem, TransportError):
            busy = problem.status_code in _BUSY
            reason = f"HTTP {problem.status_code}: {one_line(problem.error)}"
            remedy = "The cluster is busy: try again later." if busy else "Check the index and your rights."
        raise RetrievalError(f"{what} failed: {reason}.", remedy=remedy) from problem


def _read_note(options: OpenSearchOptions, note: str | None) -> IndexState:
    """Return the state that a note records; raise CorpusError without a complete index."""
    name = f"The index {options.index}"
    value = json.loads(note) if note else {}
    if value.get("format") != _FORMAT:
        problem = "was made by another version" if value else "does not exist, or was not made by BeliefRAG"
        raise CorpusError(f"{name} {problem}.", remedy="Make it with `beliefrag index ... --to`.")
    if not value["complete"]:
        raise CorpusError(
            f"{name} is being filled, or filling it was interrupted.",
            remedy="Wait until that is done, or run `beliefrag index ... --to` again to finish it.",
        )
    state = CorpusState(value["passages"], int(value["total"], 16))
    return IndexState(state.passages, state.fingerprint)


def _fetch_state(client: OpenSearch, options: OpenSearchOptions) -> IndexState:
    try:
        return _read_note(options, client.get(index=options.notes, id=_STATE)["_source"]["value"])
    except NotFoundError:
        return _read_note(options, None)


def _fetch_documents(client: OpenSearch, index: str, ids: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    """Return the documents with these ids that an index holds; raise RetrievalError if a shard does not reply."""
    documents: list[dict[str, Any]] = client.mget(index=index, body={"ids": list(ids)}, **options)["docs"]
    if failed := next((each for each in documents if "error" in each), None):
        raise RetrievalError(
            f"The document {failed['_id']!r} of {index} cannot be read: {one_line(failed['error'])}.",
            remedy="Check the cluster; partial results are rejected.",
        )
    return [each for each in documents if each.get("found")]


class OpenSearchIndex:
    """An index of OpenSearch or Elasticsearch, opened to be searched."""

    def __init__(self, options: OpenSearchOptions) -> None:
        self._options = options
        self._name = options.index
        self._client = _make_client(options)
        self._limits: list[dict[str, Any]] = []
        self._fields = (options.title, options.text, options.source) if options.is_own else _OUR_FIELDS
        with self._explain():
            version = self._client.info()["version"]
            described = self._client.indices.get(index=self._name, ignore_unavailable=True)
        if len(described) != 1:
            problem = f"is an alias of {len(described)} indexes" if described else "does not exist"
            remedy = "Make it with `beliefrag index ... --to`, or name one index or an alias of one."
            raise CorpusError(f"The index {self._name} {problem}.", remedy=remedy)
        engine = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
        self.description = EngineDescription(f"{engine} {version['number']}", self._name)
        [inside] = described.values()
        if options.is_own:
            fields = inside["mappings"].get("properties", {})
            words = " ".join(self._describe_field(each, fields) for each in self._searched)
            self.identity = f"bm25 of {engine} {words}"
        else:
            self.read_state()
            self.identity = Bm25Index.identity

    def _explain(self) -> AbstractContextManager[None]:
        return _explain_errors(f"The search in {self._name}")

    @property
    def _searched(self) -> list[str]:
        return [each for each in (self._options.title, self._options.text) if each]

    def _describe_field(self, name: str, fields: Mapping[str, Any]) -> str:
        if name.partition(".")[0] not in fields:
            raise CorpusError(f"The index {self._name} has no field {name}.", remedy="Check the names.")
        how = fields.get(name, {})
        return f"{name}:{how.get('analyzer', 'default')}/{how.get('similarity', 'BM25')}"

    def _match(self, query: str) -> dict[str, Any]:
        if not self._options.is_own:
            match = {"match": {"terms": {"query": " ".join(query_terms(query)), "operator": "or"}}}
            return {"bool": {"must": [match], "filter": self._limits}} if self._limits else match
        words = " ".join(query_words(query))
        return {"multi_match": {"query": words, "fields": self._searched, "type": "most_fields"}}

    def where(self, wanted: Filter) -> OpenSearchIndex:
        """Return the same index, of which searches find the passages that a filter describes."""
        check_filterable(self._options)
        view = copy.copy(self)
        view._limits = [*self._limits, self._condition(wanted)]
        return view

    def _condition(self, wanted: Filter) -> dict[str, Any]:
        match wanted:
            case Both():
                return {"bool": {"filter": list(map(self._condition, wanted.parts))}}
            case Either():
                return {"bool": {"should": list(map(self._condition, wanted.parts)), "minimum_should_match": 1}}
            case Not():
                return {"bool": {"must_not": [self._condition(wanted.part)]}}
        is_source = wanted.name in (PATH, FILE)
        field, prefix = ("sources", "") if is_source else (_METADATA, f"{wanted.name}=")
        held = (each.removeprefix(prefix) for each in self._values_of(field) if each.startswith(prefix))
        return {"terms": {field: [f"{prefix}{value}" for value in matching_values(wanted, held)]}}

    def _values_of(self, field: str) -> Iterator[str]:
        """Yield the distinct values of a field, page by page."""
        after: dict[str, Any] = {}
        while True:
            values = {"size": _PAGE, "sources": [{"held": {"terms": {"field": field}}}], **after}
            with self._explain():
                body = {"size": 0, "aggs": {"held": {"composite": values}}}
                reply = self._client.search(index=self._name, body=body)
                self._check_whole(reply)
            found = reply["aggregations"]["held"]
            yield from (each["key"]["held"] for each in found["buckets"])
            if len(found["buckets"]) < _PAGE:
                return
            after = {"after": found["after_key"]}

    def limited_ids(self) -> list[str]:
        """Return the ids of the passages that searches are limited to."""
        query = {"query": {"bool": {"filter": self._limits}}, "_source": False}
        with self._explain():
            return [hit["_id"] for hit in helpers.scan(self._client, query=query, index=self._name, size=_PAGE)]

    def _search(self, query: str, limit: int, fields: Sequence[str]) -> tuple[list[dict[str, Any]], IndexState]:
        options, here = self._options, {"index": self._name}
        timeout = f"{int(options.timeout * 1000)}ms"
        requests: list[dict[str, Any]] = [
            {**here, "search_type": "dfs_query_then_fetch"},
            {"query": self._match(query), "size": limit, "_source": list(filter(None, fields)), "timeout": timeout},
            here,
            {"query": {"match_all": {}}, "size": 0, "track_total_hits": True},
        ]
        if not options.is_own:
            requests += [{"index": options.notes}, {"query": {"ids": {"values": [_STATE]}}, "size": 1}]
        with self._explain():
            replies = self._client.msearch(body=requests, request_timeout=options.timeout + 5)["responses"]
            for reply in replies:
                self._check_whole(reply)
        count, hits = int(replies[1]["hits"]["total"]["value"]), replies[0]["hits"]["hits"]
        if options.is_own:
            return hits, IndexState(count, f"{count} documents")
        notes = replies[2]["hits"]["hits"]
        state = _read_note(options, notes[0]["_source"]["value"] if notes else None)
        if count != state.passages and options.changes != "follow":
            raise RetrievalError(
                f"The index {self._name} shows {count:,} of {state.passages:,} passages: a replica lags behind.",
                remedy="Try again when the cluster is green, or refresh the index.",
            )
        return hits, state

    def _check_whole(self, reply: Mapping[str, Any]) -> None:
        """Raise unless every shard has replied, completely and in time."""
        remedy = "Check the cluster; partial results are rejected."
        if "error" in reply:
            error = reply["error"]
            reason = error.get("reason", error) if isinstance(error, dict) else error
            problem, remedy = f"status {reply.get('status')}: {one_line(reason)}", "Check the index and its fields."
        elif reply.get("timed_out"):
            problem, remedy = "it was not done in time on every shard", "Raise timeout=SECONDS."
        else:
            shards = reply["_shards"]
            total, lost = shards["total"], shards["total"] - shards["successful"]
            if not (lost or shards["failed"]):
                return
            failures = shards.get("failures") or [{}]
            reason = failures[0].get("reason", {}).get("reason", "no reason is given")
            problem = f"{lost} of {total} shards failed: {one_line(reason)}"
        raise RetrievalError(f"The search in {self._name} failed: {problem}.", remedy=remedy)

    def _passage(self, hit: Mapping[str, Any]) -> Passage:
        metadata = () if self._options.is_own else read_metadata(hit["_source"].get(_METADATA, ()))
        title, text, source = (_field(hit["_source"], each) for each in self._fields)
        return Passage(self._id(hit), title, text, source, metadata=metadata)

    def _id(self, hit: Mapping[str, Any]) -> str:
        # The id of a document of ours is that of its passage.
        return _field(hit["_source"], self._options.id) if self._options.id else str(hit["_id"])

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Return the best passages and the state of the index, in one request."""
        hits, state = self._search(query, limit, (self._options.id, *self._fields, _METADATA))
        return [(self._passage(hit), float(hit["_score"])) for hit in hits], state

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Return ids and scores of the best passages, and the state of the index, in one request."""
        hits, state = self._search(query, limit, [self._options.id])
        return [(self._id(hit), float(hit["_score"])) for hit in hits], state

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages with these ids that the index holds, in one request."""
        if self._options.id:
            found = self._fetch({"terms": {self._options.id: list(ids)}}, len(ids), ["_doc"])
        else:
            with self._explain():
                found = [self._passage(each) for each in _fetch_documents(self._client, self._name, ids)]
        return {passage.id: passage for passage in found}

    def first(self, count: int) -> list[Passage]:
        """Return the first passages by id, or in the order of the index if that is the user's own."""
        return self._fetch({"match_all": {}}, count, ["_doc"] if self._options.is_own else [{"id": "asc"}])

    def _fetch(self, query: dict[str, Any], count: int, order: list[Any]) -> list[Passage]:
        with self._explain():
            reply = self._client.search(index=self._name, body={"query": query, "size": count, "sort": order})
            self._check_whole(reply)
            return [self._passage(hit) for hit in reply["hits"]["hits"]]

    def read_passages(self) -> Iterator[list[Passage]]:
        """Yield all passages of one view of the index, some thousand at a time."""
        with self._explain():
            hits = helpers.scan(self._client, query={"query": {"match_all": {}}}, index=self._name, size=_PAGE)
            while page := [self._passage(hit) for hit in islice(hits, _PAGE)]:
                yield page

    def read_state(self) -> IndexState:
        """Return the current state of the index."""
        with self._explain():
            if not self._options.is_own:
                return _fetch_state(self._client, self._options)
            count = int(self._client.count(index=self._name)["count"])
            return IndexState(count, f"{count} documents")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _field(value: Mapping[str, Any], name: str) -> str:
    found: Any = value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return str(found[0] if isinstance(found, list) and found else found or "")


class OpenSearchWriter:
    """An index that is open to be filled; it is made if it does not exist.

    From the first write to the end of a run the note says that the index is incomplete, and searches are refused.
    """

    def __init__(self, options: OpenSearchOptions) -> None:
        options.check_fillable()
        self._options = options
        self._client = _make_client(options)
        self._note: dict[str, Any] | None = None
        with self.explain_errors():
            bodies = json.loads(files(__package__).joinpath("opensearch.json").read_text("utf-8"))
            for name, content in ((options.index, "passages"), (options.notes, "notes")):
                try:
                    self._client.indices.create(index=name, body=bodies[content])
                except RequestError as problem:
                    if problem.error != "resource_already_exists_exception":
                        raise
            with suppress(NotFoundError):
                note = json.loads(self._client.get(index=options.notes, id=_STATE)["_source"]["value"])
                if note.get("format") != _FORMAT:
                    what = f"The index {options.index} was made by another version of BeliefRAG."
                    raise CorpusError(what, remedy=f"Delete it and {options.notes}, or name another index.")

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the client library into ours."""
        return _explain_errors(f"Filling the index {self._options.index}")

    def find(self, ids: Sequence[str]) -> Mapping[str, Held]:
        """Return what the index holds under these ids."""
        found = _fetch_documents(self._client, self._options.index, ids, _source_includes="digest,sources,metadata")
        return {each["_id"]: _held(each["_source"]) for each in found}

    def write(self, changes: Changes) -> None:
        """Write some changes by the ids of the passages."""
        self._note = self._note or self._write_note(EMPTY, complete=False)
        actions: list[dict[str, Any]] = [{"_op_type": "delete", "_id": each} for each in changes.removed]
        actions += [
            {"_op_type": "update", "_id": each, "doc": {"sources": list(sources)}}
            for each, sources in changes.sources.items()
        ]
        for passage, held in changes.puts:
            value = {
                "id": passage.id,
                "title": passage.title,
                "text": passage.text,
                "terms": " ".join(passage_terms(passage)),
                "sources": list(held.sources),
                "digest": f"{held.digest:x}",
                _METADATA: list(held.metadata),
            }
            actions.append({"_op_type": "index", "_id": passage.id, "_source": value})
        # Raising at once would keep the library from sending refused documents again.
        for ok, item in helpers.streaming_bulk(
            self._client, actions, index=self._options.index, max_retries=5, initial_backoff=1, raise_on_error=False
        ):
            [(kind, reply)] = item.items()
            if not ok and (kind, reply["status"]) != ("delete", 404):
                raise RetrievalError(
                    f"The index {self._options.index} refused the passage {reply['_id']!r} "
                    f"with HTTP {reply['status']}: {one_line(reply.get('error'))}.",
                    remedy="Check the index and the cluster, then run again.",
                )

    def read_all(self) -> Iterator[tuple[str, Held]]:
        """Yield what the index holds."""
        self._client.indices.refresh(index=self._options.index)
        query = {"query": {"match_all": {}}, "_source": ["digest", "sources", _METADATA]}
        for hit in helpers.scan(self._client, query=query, index=self._options.index, size=_PAGE):
            yield hit["_id"], _held(hit["_source"])

    def finish(self, state: CorpusState, dead: int) -> None:
        """Make all that was written visible, and note that the index is complete."""
        self._client.indices.refresh(index=self._options.index)
        if dead:
            self._client.indices.forcemerge(index=self._options.index, only_expunge_deletes="true")
        if not self._note:
            with suppress(CorpusError):
                if _fetch_state(self._client, self._options) == IndexState(state.passages, state.fingerprint):
                    return
        try:
            self._write_note(state, complete=True, **(self._note or {}))
        except ConflictError:
            self._write_note(state, complete=False)
            raise IndexBusy(
                f"The index {self._options.index} is being filled by another process.",
                remedy="Wait until that one has finished, then run again.",
            ) from None

    def _write_note(self, state: CorpusState, *, complete: bool, **place: Any) -> dict[str, Any]:
        value = {"format": _FORMAT, "passages": state.passages, "total": f"{state.total:x}", "complete": complete}
        done = self._client.index(
            index=self._options.notes, id=_STATE, body={"value": json.dumps(value)}, refresh="true", **place
        )
        return {"if_seq_no": done["_seq_no"], "if_primary_term": done["_primary_term"]}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _held(value: Mapping[str, Any]) -> Held:
    return Held(int(value["digest"], 16), tuple(value["sources"]), tuple(value[_METADATA]))


@RETRIEVERS.register(
    "opensearch",
    title="OpenSearch",
    summary="Searches an index of OpenSearch or Elasticsearch by BM25.",
    options=OpenSearchOptions,
)
def _open_index(options: OpenSearchOptions, source: PassageSource) -> Retriever:
    return open_on_engine(options, source, OpenSearchIndex(options))
