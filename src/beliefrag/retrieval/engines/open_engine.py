"""Opens a retriever on an engine: fills an index with given passages where that is wanted, and checks what it holds.

It is the same on every engine; an engine says how its index and its writing session are opened, and what an index of
these passages' own is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval.engines.engine import SearchEngine
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever, check_passages, link_engine
from beliefrag.retrieval.engines.filling import BatchSession
from beliefrag.retrieval.protocol import Retriever
from beliefrag.retrieval.writer import PassageWriter
from beliefrag.types import Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource

__all__ = ["EngineOptions", "open_on_engine"]


class EngineOptions(Protocol):
    """What the options of every engine have."""

    @property
    def changes(self) -> str:
        """What to do when the index changes while it is searched."""
        ...

    @property
    def fill(self) -> bool:
        """Whether to put the given passages into an index of their own."""
        ...

    @property
    def linked(self) -> bool:
        """Whether to follow names between passages."""
        ...


_Options = TypeVar("_Options", bound=EngineOptions)


def open_on_engine(
    options: _Options,
    source: PassageSource,
    *,
    engine: Callable[[_Options], SearchEngine],
    session: Callable[[_Options], BatchSession],
    rename: Callable[[_Options, str], _Options],
    command: Callable[[_Options], str],
    finish: Callable[[EngineRetriever], Retriever] = lambda retriever: retriever,
) -> Retriever:
    """Opens a retriever on an engine.

    Args:
        options: The options of the engine.
        source: The passages that the user named, if any.
        engine: Opens an index to search it.
        session: Opens an index to fill it.
        rename: Gives the options for an index that `beliefrag index` makes, with a suffix to its name.
        command: Gives the command that fills the index.
        finish: Makes another retriever of the opened one, where the options ask for it.

    Raises:
        CorpusError: The index holds other passages than those that were named.
        RetrievalError: The engine cannot be reached.
    """
    if options.fill and source.is_given:
        given = source.open_index()
        options = rename(options, given.fingerprint[:12])
        if not _holds(options, engine, given.fingerprint):
            writing = session(options)
            with PassageWriter(writing) as writer:
                writer.add(
                    Passage(row.id, row.title, row.text, row.source) for rows in given.read_rows() for row in rows
                )
                writer.commit()
                writing.finish()
    retriever = EngineRetriever(engine(options), follow_changes=options.changes == "follow")
    check_passages(retriever, source, how=command(options))
    return link_engine(retriever) if options.linked else finish(retriever)


def _holds(options: _Options, engine: Callable[[_Options], SearchEngine], fingerprint: str) -> bool:
    """Says whether the index is there, and complete."""
    try:
        opened = engine(options)
    except (CorpusError, RetrievalError):
        return False
    try:
        return opened.read_state().fingerprint == fingerprint
    except (CorpusError, RetrievalError):
        return False
    finally:
        opened.close()
