"""Milvus as a search engine, from the in-process Milvus Lite to a cluster: its BM25 function, also with vectors.

Milvus Lite has only the tokenizer `standard` and passes over a stemmer without a word. So the terms are made here, as
the embedded engine makes them, and Milvus only splits them at spaces. pymilvus writes ids into a filter expression
without quoting them; the primary key is therefore made of hexadecimal digits, and ids are ordinary fields.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, SettingsError, explain_missing_extra
from beliefrag.retrieval.bm25 import query_terms, query_words
from beliefrag.retrieval.engines.engine import (
    EngineDescription,
    IndexState,
    check_address,
    environment,
    ranking_name,
)
from beliefrag.retrieval.engines.engine_retriever import CHANGES, EngineRetriever
from beliefrag.retrieval.engines.leased_filling import STATE, read_note
from beliefrag.retrieval.engines.open_engine import open_on_engine
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.types import Passage

with explain_missing_extra("Search on Milvus", "milvus"):
    from pymilvus import DataType, MilvusClient
    from pymilvus.exceptions import MilvusException

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.embedding_model import DenseOptions
    from beliefrag.retrieval.engines.filling import BatchSession
    from beliefrag.retrieval.protocol import PassageSource

__all__ = [
    "MilvusCollection",
    "MilvusOptions",
    "explain_milvus_errors",
    "notes_of",
    "open_client",
    "passage_of",
    "primary_key",
]

_PAGE = 1000
_DEEPEST = 16_384
"""Milvus returns no more hits of one search."""
FIELDS = ["id", "title", "text", "sources"]
_LOGGERS = ("pymilvus", "pymilvus.milvus_client")
"""What pymilvus writes its log with: it gives both a handler of their own."""


@dataclass(frozen=True, slots=True)
class MilvusOptions:
    """The options of search on Milvus. A user and password, or a token, come from BELIEFRAG_MILVUS_TOKEN."""

    url: str = ""
    """The address of a server, http://HOST:19530, or a file of Milvus Lite that ends in .db."""
    collection: str = "passages"
    id: str = "id"
    title: str = ""
    """In a collection of your own: the field with the title, if there is one."""
    text: str = ""
    """In a collection of your own: the field with the text. Without it, it is one that `beliefrag index` made."""
    source: str = ""
    vector: str = ""
    """In a collection of your own: the sparse vector field that its BM25 function fills."""
    hybrid: bool = False
    """Join BM25 and search by vectors by ranks, as the retriever `hybrid` does; a new collection gets vectors."""
    dense: str = ""
    """In a collection of your own, with hybrid: the dense vector field. Give the weights that its vectors are of."""
    weights: str = ""
    """With hybrid: gte-small, or a file with an embedding model (GGUF, ONNX), in place of all-minilm-l6-v2."""
    approximate: bool = False
    """With hybrid, for a new collection: let Milvus search vectors by an index of its choice, which a large collection
    needs. Without it the vector of every passage is compared."""
    k1: float = 1.2
    b: float = 0.75
    """k1 and b of BM25, for a new collection."""
    timeout: float = 30.0
    """How many seconds a search may take."""
    changes: str = "refuse"
    """What to do when the collection changes while it is searched: refuse, or follow."""
    fill: bool = False
    """Put the passages that are given into a collection of their own."""
    linked: bool = False
    """Follow names between passages, as the retriever `linked` does."""

    def __post_init__(self) -> None:
        if self.changes not in CHANGES:
            raise ValueError(f"changes must be one of {', '.join(CHANGES)}")
        if not self.collection.isidentifier() or not self.collection.isascii():
            raise ValueError("collection must be a name of letters, digits and underscores")
        if bool(self.text) != bool(self.vector):
            raise ValueError("a collection of your own needs both text and vector")
        if not self.hybrid and (self.dense or self.weights or self.approximate):
            raise ValueError("dense, weights and approximate need hybrid=true")
        if self.hybrid and self.linked:
            raise ValueError("linked and hybrid do not go together, so leave one of them out")
        if self.hybrid and bool(self.text) != bool(self.dense):
            raise ValueError("dense names the vector field of a collection of your own, which also needs text")
        if self.is_own_collection and self.approximate:
            raise ValueError("approximate is for a new collection, not for one of your own")

    @property
    def is_own_collection(self) -> bool:
        """Whether the collection is the user's own, made by somebody else."""
        return bool(self.text)

    @property
    def embedding(self) -> DenseOptions | None:
        """The embedding model; None where vectors are not searched."""
        from beliefrag.retrieval.dense.embedding_model import DenseOptions  # noqa: PLC0415

        return DenseOptions(self.weights) if self.hybrid else None

    @property
    def identity(self) -> str | None:
        """Says nothing before anything is opened: only the collection and the version of Milvus can tell."""
        return None


def primary_key(passage_id: str) -> str:
    """Gives the primary key of a passage: it sorts like the id, and has only hexadecimal digits."""
    identifier = passage_id.encode()
    return identifier[:8].ljust(8, b"\0").hex() + hashlib.sha256(identifier).hexdigest()[:24]


def notes_of(collection: str) -> str:
    """Gives the name of the collection with the notes about another one."""
    return f"{collection}_notes"


def open_client(options: MilvusOptions) -> MilvusClient:
    """Connects to a server, or opens a file of Milvus Lite.

    Raises:
        SettingsError: The address cannot be used.
        RetrievalError: The server cannot be reached.
    """
    address = options.url
    if not address.endswith(".db"):
        check_address(address, schemes=("http", "https", "tcp", "unix"), variable="BELIEFRAG_MILVUS_TOKEN")
    elif not Path(address).absolute().parent.is_dir():
        raise SettingsError(f"There is no folder for the file {address}.", remedy="Make the folder first.")
    _quieten_client()
    with explain_milvus_errors(options.collection):
        return MilvusClient(address, token=environment("BELIEFRAG_MILVUS_TOKEN") or "", timeout=options.timeout)


def _quieten_client() -> None:
    """Keeps the client library from writing tracebacks to standard error beside our one line, unless --debug is on."""
    wanted = logging.getLogger("beliefrag").isEnabledFor(logging.DEBUG)
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING if wanted else logging.CRITICAL)


@contextmanager
def explain_milvus_errors(what: str) -> Iterator[None]:
    """Turns errors of the client library into ours.

    Raises:
        RetrievalError: The server cannot be reached, did not reply in time, or refused.
    """
    try:
        yield
    except BeliefRAGError:
        raise
    except (MilvusException, ConnectionError, TimeoutError) as problem:
        words = " ".join(str(getattr(problem, "message", "") or problem).split())[:300].rstrip(".")
        raise RetrievalError(
            f"The search in {what} failed: {words}.",
            remedy="Check that Milvus runs; a token is read from BELIEFRAG_MILVUS_TOKEN.",
        ) from problem


def passage_of(row: Any, fields: Sequence[str] = FIELDS) -> Passage:
    """Gives the passage of a row of our own collection."""
    sources = json.loads(row["sources"])
    return Passage(row["id"], row["title"], row["text"], sources[0] if sources else "")


class MilvusCollection:
    """A collection with a BM25 function.

    Raises:
        RetrievalError: The server cannot be reached.
        CorpusError: There is no such collection, or it is not finished.
    """

    def __init__(self, options: MilvusOptions) -> None:
        self.options = options
        self.seconds = options.timeout
        self._client = open_client(options)
        self._name = options.collection
        with explain_milvus_errors(self._name):
            version = self._client.get_server_version()
            if not self._client.has_collection(self._name):
                raise CorpusError(
                    f"The collection {self._name} is not there.", remedy="Make it with `beliefrag index ... --to`."
                )
            self._client.load_collection(self._name)
        self.description = EngineDescription(f"Milvus {version}", self._name)
        if options.is_own_collection:
            self._vector, self._pick = (
                options.vector,
                [each for each in (options.id, options.title, options.text, options.source) if each],
            )
            self.identity = self._own_identity(version)
        else:
            self._vector, self._pick = "sparse", FIELDS
            self.read_state()
            self.identity = self._our_identity(version)

    def _our_identity(self, version: str) -> str:
        with explain_milvus_errors(self._name):
            described = self._client.describe_index(self._name, "sparse")
        numbers = described.get("params", described)
        if "bm25_k1" not in numbers or "bm25_b" not in numbers:
            raise CorpusError(
                f"Milvus {version} does not say with which k1 and b it ranks {self._name}.",
                remedy="Make the collection again with another version.",
            )
        # Milvus Lite takes the rarity of a word from each segment for itself.
        words = "en_stem, statistics by segment" if "lite" in version else ""
        return ranking_name(float(numbers["bm25_k1"]), float(numbers["bm25_b"]), words)

    def _own_identity(self, version: str) -> str:
        with explain_milvus_errors(self._name):
            described = self._client.describe_collection(self._name)
        fields = self.describe_fields()
        if missing := [each for each in self._pick if each not in fields]:
            raise CorpusError(f"The collection {self._name} has no field {missing[0]}.", remedy="Check the names.")
        self._has_numbers_as_ids = fields[self.options.id]["type"] == DataType.INT64
        inputs = [
            each["input_field_names"]
            for each in described.get("functions", [])
            if self._vector in each["output_field_names"]
        ]
        analysed = inputs[0][0] if inputs else self.options.text
        analyser = str(fields.get(analysed, {}).get("params", {}).get("analyzer_params", "standard"))
        if "lite" in version and "stem" in analyser:
            raise CorpusError(
                f"The collection {self._name} names a stemmer, which Milvus Lite passes over.",
                remedy="Use a Milvus server, or let `beliefrag index --to milvus:...` make the collection.",
            )
        return f"bm25 milvus {analysed}:{analyser}"

    def describe_fields(self) -> dict[str, Any]:
        """Gives what Milvus says about each field, by its name."""
        with explain_milvus_errors(self._name):
            return {each["name"]: each for each in self._client.describe_collection(self._name)["fields"]}

    def describe_vector_index(self, field: str) -> tuple[str, str]:
        """Gives the kind and the metric of the index on a vector field.

        Raises:
            CorpusError: There is no index on it.
        """
        with explain_milvus_errors(self._name):
            for name in self._client.list_indexes(self._name, field_name=field):
                described = self._client.describe_index(self._name, name)
                return str(described["index_type"]), str(described["metric_type"])
        raise CorpusError(
            f"The field {field} of the collection {self._name} has no index.", remedy="Make one on it in Milvus first."
        )

    def _passage(self, row: Any) -> Passage:
        if not self.options.is_own_collection:
            return passage_of(row)
        options = self.options
        title, source = (str(row[each] or "") if each else "" for each in (options.title, options.source))
        return Passage(str(row[options.id]), title, str(row[options.text] or ""), source)

    def _search(self, query: str, limit: int, fields: list[str]) -> list[Any]:
        words = query_words(query) if self.options.is_own_collection else query_terms(query)
        return self.search_field(" ".join(words), field=self._vector, metric="BM25", limit=limit, fields=fields)

    def search_field(
        self, data: str | list[float], *, field: str, metric: str, limit: int, fields: list[str]
    ) -> list[Any]:
        """Gives the best rows of a search by one vector field.

        Args:
            data: The words, or the vector, to search for.
            field: The vector field.
            metric: The metric of its index.
            limit: How many rows are wanted.
            fields: The fields that are wanted of each.

        Raises:
            RetrievalError: The search failed, or it is too deep for Milvus.
        """
        if limit > _DEEPEST + 1:
            raise RetrievalError(
                f"Milvus returns at most {_DEEPEST:,} passages, and {limit - 1:,} were asked for.",
                remedy="Ask for fewer.",
            )
        with explain_milvus_errors(self._name):
            found = self._client.search(
                self._name,
                data=[data],
                anns_field=field,
                limit=min(limit, _DEEPEST),
                output_fields=fields,
                search_params={"metric_type": metric},
                timeout=self.seconds,
                consistency_level="Strong",
            )
        return list(found[0])

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Gives the best passages; the state is read before and after, and must be the same."""
        before = self.read_state()
        rows = self._search(query, limit, self._pick)
        after = self.read_state()
        # Milvus Lite gives the scores with a minus sign, a server without one; the order says which is best.
        found = [(self._passage(row["entity"]), abs(float(row["distance"]))) for row in rows]
        return found, after if before == after else replace(after, fingerprint=f"{after.fingerprint} (changing)")

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the best passages, and the state of the collection after the search."""
        name = self.options.id
        rows = self._search(query, limit, [name])
        return [(str(row["entity"][name]), abs(float(row["distance"]))) for row in rows], self.read_state()

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Gives the passages with these ids that are there, in one lookup."""
        found: dict[str, Passage] = {}
        own = self.options.is_own_collection
        field: str = self.options.id if own else "key"
        keys: list[str] | list[int] = list(ids) if own else [primary_key(each) for each in ids]
        if own and self._has_numbers_as_ids:
            keys = [int(each) for each in ids]
        with explain_milvus_errors(self._name):
            for start in range(0, len(keys), _PAGE):
                # JSON quotes a text as an expression of Milvus does.
                filter_ = f"{field} in {json.dumps(keys[start : start + _PAGE])}"
                rows = self._client.query(self._name, filter=filter_, output_fields=self._pick, timeout=self.seconds)
                found.update((passage.id, passage) for passage in map(self._passage, rows))
        return found

    def first(self, count: int) -> list[Passage]:
        """Gives the first passages by primary key, which sorts like the id."""
        rows: list[Passage] = []
        for page in self.read_passages():
            rows += page
            if len(rows) >= count:
                break
        return sorted(rows[:count], key=lambda passage: passage.id)

    def read_passages(self) -> Iterator[list[Passage]]:
        """Gives all passages, some thousand at a time."""
        with explain_milvus_errors(self._name):
            pages = self._client.query_iterator(self._name, batch_size=_PAGE, output_fields=self._pick)
            try:
                while rows := pages.next():
                    yield [self._passage(row) for row in rows]
            finally:
                pages.close()

    def read_state(self) -> IndexState:
        """Gives the state of the collection as it is now."""
        with explain_milvus_errors(self._name):
            if self.options.is_own_collection:
                rows = self._client.query(
                    self._name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=self.seconds
                )
                count = int(rows[0]["count(*)"])
                return IndexState(count, f"{count} passages")
        return read_note(f"The collection {self._name}", self._read_note())

    def read_note_value(self, name: str) -> str:
        """Gives what the note beside the collection says under a name; empty where it says nothing."""
        return str(json.loads(self._read_note() or "{}").get(name, ""))

    def _read_note(self) -> str | None:
        notes = notes_of(self._name)
        with explain_milvus_errors(self._name):
            if not self._client.has_collection(notes):
                return None
            rows = self._client.query(
                notes,
                filter=f'name == "{STATE}"',
                output_fields=["value"],
                consistency_level="Strong",
                timeout=self.seconds,
            )
        return str(rows[0]["value"]) if rows else None

    def close(self) -> None:
        """Lets the connection go."""
        self._client.close()


@RETRIEVERS.register(
    "milvus",
    title="Milvus",
    summary="Searches a collection of Milvus or Milvus Lite by BM25, or by BM25 and vectors.",
    options=MilvusOptions,
)
def _open_milvus(options: MilvusOptions, source: PassageSource) -> Retriever:
    return open_on_engine(
        options,
        source,
        engine=MilvusCollection,
        session=_open_session,
        rename=_rename,
        command=lambda given: f"`beliefrag index ... --to milvus:...,collection={given.collection}`",
        finish=lambda retriever: _join_vectors(retriever, options) if options.hybrid else retriever,
    )


def _rename(options: MilvusOptions, suffix: str) -> MilvusOptions:
    if options.embedding:
        from beliefrag.retrieval.dense.embedding_model import hash_weights  # noqa: PLC0415

        suffix += f"_{hash_weights(options.embedding.path)[:8]}"
    return replace(options, collection=f"{options.collection}_{suffix}", text="", vector="", dense="")


def _join_vectors(retriever: EngineRetriever, options: MilvusOptions) -> Retriever:
    # Arrays and the runtime of the embedding model are loaded for those who need them only.
    from beliefrag.retrieval.dense.embedding_model import load_model  # noqa: PLC0415
    from beliefrag.retrieval.engines.hybrid_retriever import EngineHybridRetriever  # noqa: PLC0415
    from beliefrag.retrieval.engines.milvus_vectors import MilvusVectors  # noqa: PLC0415

    assert options.embedding is not None
    assert isinstance(retriever.engine, MilvusCollection)
    try:
        model = load_model(options.embedding)
        return EngineHybridRetriever(retriever, MilvusVectors(retriever.engine, model), model)
    except BeliefRAGError:
        retriever.close()
        raise


def _open_session(options: MilvusOptions) -> BatchSession:
    from beliefrag.retrieval.engines.milvus_filling import MilvusSession  # noqa: PLC0415

    return MilvusSession(options)
