"""OpenSearch and Elasticsearch: searching an index, and filling one. Both take the requests that are made here.

An index that `beliefrag index --to opensearch:...` made has the terms of the embedded engine, and statistics are taken
over all shards before scores are (`dfs_query_then_fetch`). An index of the user's own is searched in the fields that
they name, with the words that its analysers make of the text. A query is only ever the text of a `match`, which has no
syntax. Beside an index of ours lies one with a note: how many passages there are, the sum of their digests, and whether
the last run was finished.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, SettingsError, explain_missing_extra
from beliefrag.retrieval.bm25 import passage_terms, query_terms, query_words
from beliefrag.retrieval.engines.engine import (
    CHANGES,
    EngineDescription,
    IndexState,
    check_address,
    content_of,
    environment,
    one_line,
    ranking_name,
)
from beliefrag.retrieval.engines.engine_retriever import open_on_engine
from beliefrag.retrieval.engines.filling import Changes, Held
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.retrieval.store import CorpusState
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

__all__ = ["OpenSearchIndex", "OpenSearchOptions", "OpenSearchWriter"]

FORMAT = 1
_MOST_HITS = 100_000
"""How many hits one search of an index of ours may return."""
_PAGE = 1000
_ATTEMPTS = 5
_FIELDS = ["id", "title", "text", "sources"]
_STATE = "state"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,200}")
_BUSY = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class OpenSearchOptions:
    """The options of search on OpenSearch and Elasticsearch.

    User and password come from BELIEFRAG_OPENSEARCH_USER and BELIEFRAG_OPENSEARCH_PASSWORD, or an API key from
    BELIEFRAG_OPENSEARCH_API_KEY.
    """

    url: str = ""
    """The address, as https://HOST:9200."""
    index: str = "passages"
    id: str = ""
    """In an index of your own: the field with the id; without it, the id of the document."""
    title: str = ""
    """In an index of your own: the field with the title, if there is one."""
    text: str = ""
    """In an index of your own: the field with the text. Without it, the index is one that `beliefrag index` made."""
    source: str = ""
    shards: int = 1
    """How many shards a new index has."""
    k1: float = 1.2
    b: float = 0.75
    """k1 and b of BM25, for a new index."""
    timeout: float = 30.0
    """How many seconds a search may take."""
    retries: int = 3
    """How often a request is tried again when the server is busy or cannot be reached."""
    connections: int = 8
    certificates: str = ""
    """A file with the certificates to trust, if those of the system are not enough."""
    changes: str = "refuse"
    """What to do when the index changes while it is searched: refuse, or follow."""
    fill: bool = False
    """Put the passages that are given into an index of their own."""
    linked: bool = False
    """Follow names between passages, as the retriever `linked` does."""

    def __post_init__(self) -> None:
        if self.changes not in CHANGES:
            raise ValueError(f"changes must be one of {', '.join(CHANGES)}")
        if not _NAME.fullmatch(self.index):
            raise ValueError("index must be a name of lower-case letters, digits, dots, dashes and underscores")
        if self.timeout <= 0 or self.shards < 1 or self.retries < 0 or self.connections < 1:
            raise ValueError("timeout, shards and connections must be above 0, and retries not below")

    @property
    def is_own_index(self) -> bool:
        """Whether the index is the user's own, made by somebody else."""
        return bool(self.text)

    @property
    def notes(self) -> str:
        """The index with the note about an index of ours."""
        return f"{self.index}-notes"

    @property
    def identity(self) -> str | None:
        """Names the ranking before anything is opened; None if only the index can tell."""
        return None if self.is_own_index or self.linked else ranking_name(self.k1, self.b)


def _make_client(options: OpenSearchOptions) -> OpenSearch:
    parts = check_address(options.url, schemes=("https", "http"), variable="BELIEFRAG_OPENSEARCH_PASSWORD")
    user, password = environment("BELIEFRAG_OPENSEARCH_USER"), environment("BELIEFRAG_OPENSEARCH_PASSWORD")
    key = environment("BELIEFRAG_OPENSEARCH_API_KEY")
    return OpenSearch(
        hosts=[options.url],
        http_auth=(user, password or "") if user else None,
        headers={"authorization": f"ApiKey {key}"} if key else None,
        timeout=options.timeout,
        max_retries=options.retries,
        retry_on_status=_BUSY,
        retry_on_timeout=False,
        pool_maxsize=options.connections,
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
            reason, remedy = (
                f"HTTP {problem.status_code}: {one_line(problem.error)}",
                "Check the index and your rights.",
            )
            if problem.status_code in _BUSY:
                remedy = "The cluster is busy: try again later, or raise retries=N."
        raise RetrievalError(f"{what} failed: {reason}.", remedy=remedy) from problem


def _read_note(options: OpenSearchOptions, note: str | None) -> IndexState:
    """Return the state that a note records.

    Raises:
        CorpusError: There is no such index, it is incomplete, or it is of another version.
    """
    name = f"The index {options.index}"
    if note is None:
        raise CorpusError(
            f"{name} does not exist, or was not made by BeliefRAG.", remedy="Make it with `beliefrag index ... --to`."
        )
    value = json.loads(note)
    if value["format"] != FORMAT:
        raise CorpusError(f"{name} has format {value['format']}, not {FORMAT}.", remedy="Make it again.")
    if not value["complete"]:
        raise CorpusError(
            f"{name} is being filled, or filling it was cut off.",
            remedy="Wait until that is done, or run `beliefrag index ... --to` again to finish it.",
        )
    state = CorpusState(value["passages"], int(value["total"], 16))
    return IndexState(state.passages, state.fingerprint)


def _fetch_state(client: OpenSearch, options: OpenSearchOptions) -> IndexState:
    try:
        return _read_note(options, client.get(index=options.notes, id=_STATE)["_source"]["value"])
    except NotFoundError:
        return _read_note(options, None)


class OpenSearchIndex:
    """An index of OpenSearch or Elasticsearch, opened to be searched.

    Raises:
        RetrievalError: No node can be reached.
        CorpusError: There is no such index, or it is incomplete.
    """

    def __init__(self, options: OpenSearchOptions) -> None:
        self._options = options
        self._name = options.index
        self._client = _make_client(options)
        try:
            with self._explain():
                version = self._client.info()["version"]
                described = self._client.indices.get(index=self._name)
        except RetrievalError as problem:
            if isinstance(problem.__cause__, NotFoundError):
                raise CorpusError(
                    f"The index {self._name} does not exist.", remedy="Make it with `beliefrag index ... --to`."
                ) from problem
            raise
        engine = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
        self.description = EngineDescription(f"{engine} {version['number']}", self._name)
        if len(described) != 1:
            raise CorpusError(
                f"{self._name} stands for {len(described)} indexes.", remedy="Name one index, or an alias of one."
            )
        inside = next(iter(described.values()))
        if options.is_own_index:
            self.identity = self._own_identity(inside["mappings"].get("properties", {}))
        else:
            self.read_state()
            similarity = inside["settings"]["index"].get("similarity", {}).get("beliefrag", {})
            self.identity = ranking_name(float(similarity.get("k1", 1.2)), float(similarity.get("b", 0.75)))

    def _explain(self) -> AbstractContextManager[None]:
        return _explain_errors(f"The search in {self._name}")

    @property
    def _own_fields(self) -> list[str]:
        return [each for each in (self._options.title, self._options.text) if each]

    def _own_identity(self, fields: Mapping[str, Any]) -> str:
        if missing := [each for each in self._own_fields if each.partition(".")[0] not in fields]:
            raise CorpusError(f"The index {self._name} has no field {missing[0]}.", remedy="Check the names.")
        named = [(each, fields.get(each, {})) for each in self._own_fields]
        words = [f"{each}:{how.get('analyzer', 'default')}/{how.get('similarity', 'BM25')}" for each, how in named]
        return f"bm25 of {self.description.engine.split()[0]} {' '.join(words)}"

    def _match(self, query: str) -> dict[str, Any]:
        if not self._options.is_own_index:
            return {"match": {"terms": {"query": " ".join(query_terms(query)), "operator": "or"}}}
        words = " ".join(query_words(query))
        return {"multi_match": {"query": words, "fields": self._own_fields, "type": "most_fields"}}

    def _search(self, query: str, limit: int, fields: list[str] | bool) -> tuple[list[dict[str, Any]], IndexState]:
        options, here = self._options, {"index": self._name}
        timeout = f"{int(options.timeout * 1000)}ms"
        requests: list[dict[str, Any]] = [
            {**here, "search_type": "dfs_query_then_fetch"},
            {"query": self._match(query), "size": limit, "_source": fields, "timeout": timeout},
            here,
            {"query": {"match_all": {}}, "size": 0, "track_total_hits": True},
        ]
        if not options.is_own_index:
            requests += [{"index": options.notes}, {"query": {"ids": {"values": [_STATE]}}, "size": 1}]
        with self._explain():
            replies = self._client.msearch(body=requests, request_timeout=options.timeout + 5)["responses"]
            for reply in replies:
                self._check_whole(reply)
        count, hits = int(replies[1]["hits"]["total"]["value"]), replies[0]["hits"]["hits"]
        if options.is_own_index:
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
        if "error" in reply:
            error = reply["error"]
            reason = error.get("reason", error) if isinstance(error, dict) else error
            raise RetrievalError(
                f"The search in {self._name} failed with status {reply.get('status')}: {one_line(reason)}.",
                remedy="Check the index and its fields.",
            )
        if reply.get("timed_out"):
            raise RetrievalError(
                f"The search in {self._name} was not done in time on every shard.", remedy="Raise timeout=SECONDS."
            )
        shards = reply["_shards"]
        if shards["failed"] or shards["successful"] < shards["total"]:
            failures = shards.get("failures") or [{}]
            reason = failures[0].get("reason", {}).get("reason", "no reason is given")
            raise RetrievalError(
                f"{shards['total'] - shards['successful']} of {shards['total']} shards of {self._name} failed: "
                f"{one_line(reason)}.",
                remedy="Look at the cluster; partial results are rejected.",
            )

    def _passage(self, hit: Mapping[str, Any]) -> Passage:
        value, options = hit["_source"], self._options
        if not options.is_own_index:
            return Passage(value["id"], value["title"], value["text"], next(iter(value["sources"]), ""))
        title, source = (_field(value, each) if each else "" for each in (options.title, options.source))
        return Passage(self._own_id(hit), title, _field(value, options.text), source)

    def _own_id(self, hit: Mapping[str, Any]) -> str:
        return _field(hit["_source"], self._options.id) if self._options.id else str(hit["_id"])

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Return the best passages and the state of the index, in one request."""
        hits, state = self._search(query, limit, True if self._options.is_own_index else _FIELDS)
        return [(self._passage(hit), float(hit["_score"])) for hit in hits], state

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Return ids and scores of the best passages, and the state of the index, in one request."""
        # The id of a document of ours is that of its passage.
        hits, state = self._search(query, limit, [self._options.id] if self._options.id else [])
        return [(self._own_id(hit), float(hit["_score"])) for hit in hits], state

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages with these ids that the index holds, in one request."""
        with self._explain():
            if self._options.id:
                body = {"query": {"terms": {self._options.id: list(ids)}}, "size": len(ids)}
                reply = self._client.search(index=self._name, body=body)
                self._check_whole(reply)
                found = [self._passage(hit) for hit in reply["hits"]["hits"]]
            else:
                reply = self._client.mget(index=self._name, body={"ids": list(ids)})
                found = [self._passage(each) for each in reply["docs"] if each.get("found")]
        return {passage.id: passage for passage in found}

    def first(self, count: int) -> list[Passage]:
        """Return the first passages by id, or in the order of the index if that is the user's own."""
        order = [{"id": "asc"}] if not self._options.is_own_index else ["_doc"]
        body = {"query": {"match_all": {}}, "size": count, "sort": order}
        with self._explain():
            reply = self._client.search(index=self._name, body=body)
            self._check_whole(reply)
        return [self._passage(hit) for hit in reply["hits"]["hits"]]

    def read_passages(self) -> Iterator[list[Passage]]:
        """Yield all passages of one view of the index, some thousand at a time."""
        page: list[Passage] = []
        with self._explain():
            for hit in helpers.scan(self._client, query={"query": {"match_all": {}}}, index=self._name, size=_PAGE):
                page.append(self._passage(hit))
                if len(page) == _PAGE:
                    yield page
                    page = []
        if page:
            yield page

    def read_state(self) -> IndexState:
        """Return the current state of the index."""
        with self._explain():
            if self._options.is_own_index:
                count = int(self._client.count(index=self._name)["count"])
                return IndexState(count, f"{count} documents")
            return _fetch_state(self._client, self._options)

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

    There are no transactions. Every write names the passage by its id, so a run that was cut off is simply run again;
    from the first write to the end of the run a note says that the index is incomplete, and searches are refused.

    Raises:
        RetrievalError: No node can be reached.
    """

    def __init__(self, options: OpenSearchOptions) -> None:
        if options.is_own_index:
            raise SettingsError(
                f"{options.index} is an index of your own, which BeliefRAG only reads.",
                remedy="Leave text=, title=, id= and source= out to make an index.",
            )
        self._options = options
        self._client = _make_client(options)
        self._place: dict[str, Any] = {}
        self._is_marked = False
        with self.explain_errors():
            for name, body in ((options.index, _passages_body(options)), (options.notes, _NOTES_BODY)):
                try:
                    self._client.indices.create(index=name, body=body)
                except RequestError as problem:
                    if problem.error != "resource_already_exists_exception":
                        raise

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the client library into ours."""
        return _explain_errors(f"Filling the index {self._options.index}")

    def find(self, ids: Sequence[str]) -> Mapping[str, Held]:
        """Return what the index holds under these ids."""
        reply = self._client.mget(index=self._options.index, body={"ids": list(ids)}, _source_includes="digest,sources")
        return {each["_id"]: _held(each["_source"]) for each in reply["docs"] if each.get("found")}

    def write(self, changes: Changes) -> None:
        """Write some changes by the ids of the passages."""
        if not self._is_marked:
            self._mark_incomplete()
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
                "terms": " ".join(passage_terms(content_of(passage))),
                "sources": list(held.sources),
                "digest": f"{held.digest:x}",
            }
            actions.append({"_op_type": "index", "_id": passage.id, "_source": value})
        # Raising at once would keep the library from sending documents again that a busy server refused.
        for ok, item in helpers.streaming_bulk(
            self._client,
            actions,
            index=self._options.index,
            max_retries=_ATTEMPTS,
            initial_backoff=1,
            max_backoff=30,
            raise_on_error=False,
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
        query = {"query": {"match_all": {}}, "_source": ["digest", "sources"]}
        for hit in helpers.scan(self._client, query=query, index=self._options.index, size=_PAGE):
            yield hit["_id"], _held(hit["_source"])

    def finish(self, state: CorpusState, dead: int) -> None:
        """Make all that was written visible, and note that the index is complete.

        Raises:
            IndexBusy: Another writer has begun since, so nobody knows what the index holds.
        """
        self._client.indices.refresh(index=self._options.index)
        if dead:
            self._client.indices.forcemerge(index=self._options.index, only_expunge_deletes="true")
        if not self._is_marked:
            with suppress(CorpusError):
                if _fetch_state(self._client, self._options) == IndexState(state.passages, state.fingerprint):
                    return
            self._mark_incomplete()
        try:
            self._write_note(state, complete=True, **self._place)
        except ConflictError:
            self._write_note(state, complete=False)
            raise IndexBusy(
                f"The index {self._options.index} is being filled by another process.",
                remedy="Wait until that one has finished, then run again.",
            ) from None

    def _mark_incomplete(self) -> None:
        self._place = self._write_note(CorpusState(0, 0), complete=False)
        self._is_marked = True

    def _write_note(self, state: CorpusState, *, complete: bool, **place: Any) -> dict[str, Any]:
        value = {"format": FORMAT, "passages": state.passages, "total": f"{state.total:x}", "complete": complete}
        done = self._client.index(
            index=self._options.notes, id=_STATE, body={"value": json.dumps(value)}, refresh="true", **place
        )
        return {"if_seq_no": done["_seq_no"], "if_primary_term": done["_primary_term"]}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _held(value: Mapping[str, Any]) -> Held:
    return Held(int(value["digest"], 16), tuple(value["sources"]))


def _passages_body(options: OpenSearchOptions) -> dict[str, Any]:
    kept = {"type": "text", "index": False}
    return {
        "settings": {
            "index": {
                "number_of_shards": options.shards,
                "max_result_window": _MOST_HITS + 1,
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
                "digest": {"type": "keyword", "index": False, "doc_values": False},
            },
        },
    }


_NOTES_BODY = {
    "settings": {"index": {"number_of_shards": 1}},
    "mappings": {
        "dynamic": "strict",
        "properties": {"value": {"type": "keyword", "index": False, "doc_values": False}},
    },
}


@RETRIEVERS.register(
    "opensearch",
    title="OpenSearch",
    summary="Searches an index of OpenSearch or Elasticsearch by BM25.",
    options=OpenSearchOptions,
)
def _open_index(options: OpenSearchOptions, source: PassageSource) -> Retriever:
    return open_on_engine(
        options,
        source,
        engine=OpenSearchIndex,
        writer=OpenSearchWriter,
        rename=lambda given, suffix: replace(
            given, index=f"{given.index}-{suffix}", text="", id="", title="", source=""
        ),
    )
