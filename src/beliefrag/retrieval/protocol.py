"""The protocol of a retriever, and the registry of the retrievers that can be chosen by name.

A new retriever is one file: a class with the three members of `Retriever`, and a function that opens it from its
options and a `PassageSource`, registered in `RETRIEVERS`. CONTRIBUTING.md shows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.types import Hit

if TYPE_CHECKING:
    from beliefrag.retrieval.passage_source import PassageSource

__all__ = [
    "IGNORE_SCORES",
    "RETRIEVERS",
    "Retriever",
    "check_depth",
    "check_retriever",
    "close_retriever",
    "describe_engine",
    "known_identity",
    "open_retriever",
]

IGNORE_SCORES = None
"""The score scale of a retriever whose scores have no say.

Relevance then stays at one half, which moves the belief in reliability neither up nor down.
"""


@runtime_checkable
class Retriever(Protocol):
    """Finds passages: an index here, an engine elsewhere, or a wrapper around another retriever."""

    @property
    def identity(self) -> str | None:
        """Names the ranking (engine, embedding, settings).

        A calibration that was fitted with another ranking is refused. With None nobody can know whether it fits, and
        the answer says so.
        """
        ...

    @property
    def score_scale(self) -> ScoreScale | None:
        """Says which score is a good match: where the first scores of ordinary searches lie, and how far they spread.

        A cosine of 0.7 is excellent with one embedding and noise with the next. When nobody has measured it, give
        `IGNORE_SCORES`.
        """
        ...

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns at most k hits, best first.

        Called in a worker thread, so it may block; it must be safe to call from several threads at once.

        Raises:
            RetrievalError: The search failed. Finding nothing is not a failure: return an empty sequence.
        """
        ...


RETRIEVERS: Registry[Retriever, PassageSource] = Registry(
    "retriever",
    "beliefrag.retrievers",
    {
        "bm25": "beliefrag.retrieval.bm25",
        "dense": "beliefrag.retrieval.dense.dense_retriever",
        "hybrid": "beliefrag.retrieval.dense.dense_retriever",
        "linked": "beliefrag.retrieval.linked",
        "postgres": "beliefrag.retrieval.engines.postgres",
        "opensearch": "beliefrag.retrieval.engines.opensearch",
        "imported": "beliefrag.integrations.imported",
    },
)
"""Every retriever that `--retriever NAME` can choose."""


def check_depth(k: int) -> None:
    """Checks how many passages a search is to return.

    Raises:
        RetrievalError: The number is negative.
    """
    if k < 0:
        raise RetrievalError(f"A search cannot return {k} passages.", remedy="Ask for 0 or more.")


def check_retriever(retriever: object) -> Retriever:
    """Gives the retriever back if it can be used.

    Raises:
        SettingsError: It has no method `search`, or it does not say how its scores are to be read.
    """
    name = type(retriever).__name__
    if not callable(getattr(retriever, "search", None)):
        raise SettingsError(
            f"A {name} is not a retriever: it has no method search(query, k).", remedy="Give one that has."
        )
    if not isinstance(getattr(retriever, "score_scale", "nothing is said"), ScoreScale | None):
        raise SettingsError(
            f"The retriever {name} does not say how its scores are to be read.",
            remedy="Give it an attribute score_scale: a beliefrag.retrieval.ScoreScale, or IGNORE_SCORES if its "
            "scores have no say.",
        )
    if not hasattr(retriever, "identity"):
        raise SettingsError(
            f"The retriever {name} does not say what ranks its passages.",
            remedy="Give it an attribute identity: a short text that names the ranking and its settings, or None.",
        )
    return cast("Retriever", retriever)


def close_retriever(retriever: object) -> None:
    """Lets go what a retriever holds open, such as connections to an engine; most hold nothing.

    It is for whoever has opened the retriever: one that a user has given is the user's to close.
    """
    close = getattr(retriever, "close", None)
    if callable(close):
        close()


def known_identity(choice: ExtensionChoice[Retriever, PassageSource]) -> str | None:
    """Gives the identity of a chosen retriever before it is opened, where its options have an attribute `identity`.

    With it, a calibration that does not fit is refused before documents are read.
    """
    identity = getattr(choice.options, "identity", None)
    return identity if isinstance(identity, str) else None


def describe_engine(retriever: Retriever) -> str | None:
    """Names the engine elsewhere, its version and the index that a retriever searches; None for one on this machine."""
    below = getattr(retriever, "index", retriever)
    description = getattr(below, "description", None)
    return str(description) if description is not None else None


def open_retriever(choice: ExtensionChoice[Retriever, PassageSource], source: PassageSource) -> Retriever:
    """Opens the retriever that was chosen.

    Raises:
        SettingsError: It needs passages and none were given, it does not use those that were given, or it does not
            say how its scores are to be read.
        CorpusError: The documents or the index cannot be used.
        RetrievalError: The engine elsewhere cannot be reached.
    """
    retriever = check_retriever(choice.build(source))
    if source.is_given and not source.is_used:
        raise SettingsError(
            f"The retriever {choice.name!r} searches passages of its own and does not use {source}.",
            remedy="Leave the documents, passages or index out, or choose another retriever.",
        )
    return retriever
