"""The protocol of a retriever, the registry of retrievers by name, and the passages that they are opened over.

CONTRIBUTING.md shows how to write one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.retrieval.documents import printable_path
from beliefrag.settings import cache_dir
from beliefrag.types import Hit, Passage, Reading

if TYPE_CHECKING:
    from beliefrag.retrieval.bm25 import Bm25Index
    from beliefrag.retrieval.indexing import IndexReport, OnProgress


IGNORE_SCORES = None
"""The score scale of a retriever whose scores mean nothing: relevance stays at one half."""
_ONE_SOURCE = "Name documents, or an index made with 'beliefrag index'."


@runtime_checkable
class Retriever(Protocol):
    """Finds passages: an index here, an engine elsewhere, or a wrapper around another retriever."""

    @property
    def identity(self) -> str | None:
        """The name of the ranking (engine, embedding, settings), for calibrations that only hold with it, or None."""
        ...

    @property
    def score_scale(self) -> ScoreScale | None:
        """Where the first scores of ordinary searches lie, and how far they spread, or `IGNORE_SCORES`."""
        ...

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return at most k hits, best first.

        Called in a worker thread, so it may block; it must be safe to call from several threads at once.

        Raises:
            RetrievalError: The search failed. Finding nothing is not a failure: return an empty sequence.
        """
        ...


class PassageSource:
    """The passages that a retriever searches: documents, an index or passages in memory; opened when first needed."""

    def __init__(
        self,
        *,
        docs: str | Path | Iterable[str | Path] | None = None,
        index: str | Path | None = None,
        passages: Iterable[Passage] | None = None,
        progress: OnProgress | None = None,
        reading: Reading = Reading(),
    ) -> None:
        given = sum(each is not None for each in (docs, index, passages))
        if given > 1:
            raise SettingsError(f"Needs one source of passages, and {given} were given.", remedy=_ONE_SOURCE)
        named = [docs] if isinstance(docs, str | Path) else docs
        self._docs = None if named is None else [Path(path) for path in named]
        self._index = None if index is None else Path(index)
        self._passages = passages
        self._progress = progress
        self._reading = reading
        self._opened: Bm25Index | None = None
        self.report: IndexReport | None = None
        """What was read and what was skipped, once the documents were read."""

    def __str__(self) -> str:
        if self._docs is not None:
            return f"the documents {', '.join(map(printable_path, self._docs))}"
        return f"the index {printable_path(self._index)}" if self._index is not None else "the passages"

    @property
    def is_given(self) -> bool:
        """Whether there are any passages here."""
        return not (self._docs is None and self._index is None and self._passages is None)

    @property
    def is_used(self) -> bool:
        """Whether a retriever has opened the index."""
        return self._opened is not None

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the passages, once they are opened."""
        return self._opened.fingerprint if self._opened else None

    @property
    def documents(self) -> str:
        """A key of the documents by their places, which stays when they change; empty for passages in memory."""
        from beliefrag.retrieval.indexing import docs_index_path  # noqa: PLC0415

        named = self._docs if self._docs is not None else [self._index] if self._index is not None else []
        return docs_index_path(named, "").name if named else ""

    @property
    def folder(self) -> Path | None:
        """The folder of the index, beside which a retriever may keep files of its own; None for passages in memory."""
        from beliefrag.retrieval.indexing import docs_index_path  # noqa: PLC0415

        return docs_index_path(self._docs, cache_dir()) if self._docs is not None else self._index

    def open_index(self) -> Bm25Index:
        """Return the passages as a BM25 index, or raise `SettingsError` without a source."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def upgrade_index(self) -> Bm25Index | None:
        """Add the graph of names to the index of documents in the cache, and open it again; None for other sources."""
        from beliefrag.retrieval.bm25 import Bm25Index  # noqa: PLC0415
        from beliefrag.retrieval.indexing import wait_while_busy  # noqa: PLC0415
        from beliefrag.retrieval.writer import IndexWriter  # noqa: PLC0415

        folder = self.folder
        if self._docs is None or folder is None:
            return None

        def add_graph() -> None:
            with IndexWriter(folder) as writer:
                writer.write_graph()

        wait_while_busy(add_graph)
        self._opened = Bm25Index.open(folder)
        return self._opened

    def _open(self) -> Bm25Index:
        # The engine registers itself here, so this module cannot import it at its top.
        from beliefrag.retrieval.bm25 import Bm25Index  # noqa: PLC0415
        from beliefrag.retrieval.indexing import docs_index  # noqa: PLC0415

        if self._passages is not None:
            return Bm25Index.in_memory(self._passages)
        if self._index is not None:
            return Bm25Index.open(self._index)
        if self._docs is not None:
            index, self.report = docs_index(self._docs, cache_dir(), progress=self._progress, reading=self._reading)
            return index
        raise SettingsError("Needs one source of passages, and none were given.", remedy=_ONE_SOURCE)


RETRIEVERS: Registry[Retriever, PassageSource] = Registry(
    "retriever",
    "beliefrag.retrievers",
    {
        "bm25": "beliefrag.retrieval.bm25",
        "dense": "beliefrag.retrieval.dense.dense_retriever",
        "hybrid": "beliefrag.retrieval.dense.dense_retriever",
        "linked": "beliefrag.retrieval.linked.linked_retriever",
        "postgres": "beliefrag.retrieval.engines.postgres",
        "opensearch": "beliefrag.retrieval.engines.opensearch",
    },
)
"""Every retriever that `--retriever NAME` can choose."""


def check_depth(k: int) -> None:
    """Raise `RetrievalError` if a search is to return a negative number of passages."""
    if k < 0:
        raise RetrievalError(f"A search cannot return {k} passages.", remedy="Ask for 0 or more.")


def check_retriever(retriever: object) -> Retriever:
    """Return the retriever, or raise `SettingsError` if it lacks a member of `Retriever`."""
    missing = ""
    if not callable(getattr(retriever, "search", None)):
        missing = "a method search(query, k)."
    elif not isinstance(getattr(retriever, "score_scale", "missing"), ScoreScale | None):
        missing = "an attribute score_scale: a beliefrag.retrieval.ScoreScale, or IGNORE_SCORES."
    elif not hasattr(retriever, "identity"):
        missing = "an attribute identity: a short text that names the ranking and its settings, or None."
    if missing:
        raise SettingsError(f"A {type(retriever).__name__} is not a retriever.", remedy=f"Give it {missing}")
    return cast("Retriever", retriever)


def correct_words(retriever: Retriever, text: str) -> str:
    """Return a question without the slips of typing that the retriever knows how to correct."""
    own = getattr(getattr(retriever, "index", retriever), "correct_words", None)
    return str(own(text)) if callable(own) else text


def close_retriever(retriever: object) -> None:
    """Release what a retriever that we opened holds open, such as connections to an engine."""
    close = getattr(retriever, "close", None)
    if callable(close):
        close()


def known_identity(choice: ExtensionChoice[Retriever, PassageSource]) -> str | None:
    """Return the identity of a chosen retriever before documents are read, where its options know it."""
    identity = getattr(choice.options, "identity", None)
    return identity if isinstance(identity, str) else None


def describe_engine(retriever: Retriever) -> str | None:
    """Name the engine elsewhere, its version and the index that a retriever searches; None for one on this machine."""
    description = getattr(getattr(retriever, "index", retriever), "description", None)
    return str(description) if description is not None else None


def open_retriever(choice: ExtensionChoice[Retriever, PassageSource], source: PassageSource) -> Retriever:
    """Open the retriever that was chosen; `SettingsError` if it does not use the passages that were given."""
    retriever = check_retriever(choice.build(source))
    if source.is_given and not source.is_used:
        raise SettingsError(
            f"The retriever {choice.name!r} searches passages of its own and does not use {source}.",
            remedy="Leave the documents, passages or index out, or choose another retriever.",
        )
    return retriever
