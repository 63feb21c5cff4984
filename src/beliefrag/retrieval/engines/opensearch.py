"""OpenSearch and Elasticsearch as search engines: both take the requests that are made here.

An index that `beliefrag index --to opensearch:...` made has the terms of the embedded engine, and statistics are taken
over all shards before scores are (`dfs_query_then_fetch`). An index of the user's own is searched in the fields that
they name, with the words that its analysers make of the text. A query is only ever the text of a `match`, which has no
syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, explain_missing_extra
from beliefrag.retrieval.bm25 import query_terms, query_words
from beliefrag.retrieval.engines.engine import (
    EngineDescription,
    IndexState,
    check_address,
    environment,
    ranking_name,
)
from beliefrag.retrieval.engines.engine_retriever import CHANGES
from beliefrag.retrieval.engines.leased_filling import STATE, read_note
from beliefrag.retrieval.engines.open_engine import open_on_engine
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.types import Passage

with explain_missing_extra("Search on OpenSearch and Elasticsearch", "opensearch"):
    from opensearchpy import OpenSearch, helpers
    from opensearchpy.exceptions import (
        ConnectionError as NoConnection,
    )
    from opensearchpy.exceptions import (
        ConnectionTimeout,
        NotFoundError,
        OpenSearchException,
        TransportError,
    )

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.filling import BatchSession
    from beliefrag.retrieval.protocol import PassageSource

__all__ = [
    "MOST_HITS",
    "OpenSearchIndex",
    "OpenSearchOptions",
    "explain_opensearch_errors",
    "notes_index",
    "open_opensearch",
    "passage_from",
]

MOST_HITS = 100_000
"""How many hits one search of an index of ours may return."""
_PAGE = 1000
_FIELDS = ["id", "title", "text", "sources"]
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
    """A file with the certificates to trust, where those of the system do not do."""
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
    def identity(self) -> str | None:
        """Names the ranking before anything is opened; None where only the index can tell."""
        return None if self.is_own_index or self.linked else ranking_name(self.k1, self.b)


def notes_index(index: str) -> str:
    """Gives the name of the index with the notes about another one."""
    return f"{index}-notes"


def open_opensearch(options: OpenSearchOptions) -> OpenSearch:
    """Makes a client; it connects when it is first used.

    Raises:
        SettingsError: The address cannot be used.
    """
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
def explain_opensearch_errors(what: str) -> Iterator[None]:
    """Turns errors of the client library into ours.

    Raises:
        RetrievalError: The server cannot be reached, did not reply in time, was busy, or refused.
    """
    try:
        yield
    except BeliefRAGError:
        raise
    except ConnectionTimeout as problem:
        raise RetrievalError(
            f"The search in {what} was not done in time.", remedy="Raise timeout=SECONDS, or look at the cluster."
        ) from problem
    except NoConnection as problem:
        reason = " ".join(str(problem.error).split())[:200]
        raise RetrievalError(
            f"The search in {what} failed, because no node can be reached: {reason}.",
            remedy="Check the address and that the server runs.",
        ) from problem
    except TransportError as problem:
        busy = problem.status_code in _BUSY
        raise RetrievalError(
            f"The search in {what} failed with HTTP {problem.status_code}: {_one_line(problem.error)}.",
            remedy="The cluster is busy: try again later, or raise retries=N."
            if busy
            else "Check the index, its fields and your rights.",
        ) from problem
    except OpenSearchException as problem:
        raise RetrievalError(
            f"The search in {what} failed: {_one_line(problem)}.", remedy="Look at the cluster."
        ) from problem


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())[:300].rstrip(".")


def passage_from(value: Mapping[str, Any]) -> Passage:
    """Gives the passage of a document of an index of ours."""
    sources = value["sources"]
    return Passage(value["id"], value["title"], value["text"], sources[0] if sources else "")


class OpenSearchIndex:
    """An index of OpenSearch or Elasticsearch.

    Raises:
        RetrievalError: No node can be reached.
        CorpusError: There is no such index, or it is not finished.
    """

    def __init__(self, options: OpenSearchOptions) -> None:
        self._options = options
        self.seconds = options.timeout
        self._name = options.index
        self._client = open_opensearch(options)
        try:
            with explain_opensearch_errors(self._name):
                version = self._client.info()["version"]
                described = self._client.indices.get(index=self._name)
        except RetrievalError as problem:
            if isinstance(problem.__cause__, NotFoundError):
                raise CorpusError(
                    f"The index {self._name} is not there.", remedy="Make it with `beliefrag index ... --to`."
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

    def _own_identity(self, fields: Mapping[str, Any]) -> str:
        searched = [each for each in (self._options.title, self._options.text) if each]
        if missing := [each for each in searched if each.partition(".")[0] not in fields]:
            raise CorpusError(f"The index {self._name} has no field {missing[0]}.", remedy="Check the names.")
        named = [(each, fields.get(each, {})) for each in searched]
        words = [f"{each}:{how.get('analyzer', 'default')}/{how.get('similarity', 'BM25')}" for each, how in named]
        return f"bm25 of {self.description.engine.split()[0]} {' '.join(words)}"

    def _match(self, query: str) -> dict[str, Any]:
        if not self._options.is_own_index:
            return {"match": {"terms": {"query": " ".join(query_terms(query)), "operator": "or"}}}
        fields = [each for each in (self._options.title, self._options.text) if each]
        return {"multi_match": {"query": " ".join(query_words(query)), "fields": fields, "type": "most_fields"}}

    def _search(self, query: str, limit: int, fields: list[str] | bool) -> tuple[list[dict[str, Any]], IndexState]:
        body = {
            "query": self._match(query),
            "size": limit,
            "_source": fields,
            "timeout": f"{int(self.seconds * 1000)}ms",
        }
        everything = {"query": {"match_all": {}}, "size": 0, "track_total_hits": True}
        requests: list[dict[str, Any]] = [
            {"index": self._name, "search_type": "dfs_query_then_fetch"},
            body,
            {"index": self._name},
            everything,
        ]
        if not self._options.is_own_index:
            requests += [{"index": notes_index(self._name)}, {"query": {"ids": {"values": [STATE]}}, "size": 1}]
        with explain_opensearch_errors(self._name):
            replies = self._client.msearch(body=requests, request_timeout=self.seconds + 5)["responses"]
            for reply in replies:
                self._check_whole(reply)
        count = int(replies[1]["hits"]["total"]["value"])
        if self._options.is_own_index:
            return replies[0]["hits"]["hits"], IndexState(count, f"{count} documents")
        notes = replies[2]["hits"]["hits"]
        state = read_note(f"The index {self._name}", notes[0]["_source"]["value"] if notes else None)
        if count != state.passages and not self._options.changes == "follow":
            raise RetrievalError(
                f"The index {self._name} shows {count:,} of {state.passages:,} passages: a replica lags behind.",
                remedy="Try again when the cluster is green, or refresh the index.",
            )
        return replies[0]["hits"]["hits"], state

    def _check_whole(self, reply: Mapping[str, Any]) -> None:
        """Raises unless every shard has answered, whole and in time."""
        if "error" in reply:
            reason = (
                reply["error"].get("reason", reply["error"]) if isinstance(reply["error"], dict) else reply["error"]
            )
            raise RetrievalError(
                f"The search in {self._name} failed with status {reply.get('status')}: {_one_line(reason)}.",
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
                f"{shards['total'] - shards['successful']} of {shards['total']} shards of {self._name} gave no answer: "
                f"{_one_line(reason)}.",
                remedy="Look at the cluster; an answer from some shards is none.",
            )

    def _passage(self, hit: Mapping[str, Any]) -> Passage:
        value, options = hit["_source"], self._options
        if not options.is_own_index:
            return passage_from(value)
        name = _field(value, options.id) if options.id else hit["_id"]
        title, source = (_field(value, each) if each else "" for each in (options.title, options.source))
        return Passage(str(name), title, _field(value, options.text), source)

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Gives the best passages and the state of the index, in one request."""
        hits, state = self._search(query, limit, True if self._options.is_own_index else _FIELDS)
        return [(self._passage(hit), float(hit["_score"])) for hit in hits], state

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the best passages, and the state of the index, in one request."""
        own, name = self._options.is_own_index, self._options.id
        hits, state = self._search(query, limit, [name] if own and name else [] if own else ["id"])
        ids = [hit["_id"] if not (own and name) else _field(hit["_source"], name) for hit in hits]
        return [(str(each), float(hit["_score"])) for each, hit in zip(ids, hits, strict=True)], state

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Gives the passages with these ids that are there, in one request."""
        with explain_opensearch_errors(self._name):
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
        """Gives the first passages by id, or in the order of the index where that is the user's own."""
        order = [{"id": "asc"}] if not self._options.is_own_index else ["_doc"]
        body = {"query": {"match_all": {}}, "size": count, "sort": order}
        with explain_opensearch_errors(self._name):
            reply = self._client.search(index=self._name, body=body)
            self._check_whole(reply)
        return [self._passage(hit) for hit in reply["hits"]["hits"]]

    def read_passages(self) -> Iterator[list[Passage]]:
        """Gives all passages of one view of the index, some thousand at a time."""
        page: list[Passage] = []
        with explain_opensearch_errors(self._name):
            for hit in helpers.scan(self._client, query={"query": {"match_all": {}}}, index=self._name, size=_PAGE):
                page.append(self._passage(hit))
                if len(page) == _PAGE:
                    yield page
                    page = []
        if page:
            yield page

    def read_state(self) -> IndexState:
        """Gives the state of the index as it is now."""
        with explain_opensearch_errors(self._name):
            if self._options.is_own_index:
                count = int(self._client.count(index=self._name)["count"])
                return IndexState(count, f"{count} documents")
            try:
                note = self._client.get(index=notes_index(self._name), id=STATE)["_source"]["value"]
            except NotFoundError:
                note = None
        return read_note(f"The index {self._name}", note)

    def close(self) -> None:
        """Lets the connections go."""
        self._client.close()


def _field(value: Mapping[str, Any], name: str) -> str:
    found: Any = value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return str(found[0] if isinstance(found, list) and found else found or "")


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
        session=_open_session,
        rename=lambda given, suffix: replace(
            given, index=f"{given.index}-{suffix}", text="", id="", title="", source=""
        ),
        command=lambda given: f"`beliefrag index ... --to opensearch:...,index={given.index}`",
    )


def _open_session(options: OpenSearchOptions) -> BatchSession:
    from beliefrag.retrieval.engines.opensearch_filling import OpenSearchSession  # noqa: PLC0415

    return OpenSearchSession(options)
