"""BeliefRAG: retrieval-augmented answering that knows when to search, when to answer and when to decline.

Importing this package is quick and writes nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from beliefrag._version import __version__

if TYPE_CHECKING:
    from beliefrag.engine.client import BeliefRAG
    from beliefrag.errors import BeliefRAGError
    from beliefrag.outcome import Abstained, Answered, Failed, Outcome, Stopped
    from beliefrag.result import Result
    from beliefrag.retrieval.indexing import index_paths as index
    from beliefrag.retrieval.protocol import Retriever
    from beliefrag.settings import Settings
    from beliefrag.types import Belief, Budget, Hit, Passage, Question

__all__ = [
    "Abstained",
    "Answered",
    "Belief",
    "BeliefRAG",
    "BeliefRAGError",
    "Budget",
    "Failed",
    "Hit",
    "Outcome",
    "Passage",
    "Question",
    "Result",
    "Retriever",
    "Settings",
    "Stopped",
    "__version__",
    "index",
]

_HOMES = {
    "engine.client": ["BeliefRAG"],
    "errors": ["BeliefRAGError"],
    "outcome": ["Abstained", "Answered", "Failed", "Outcome", "Stopped"],
    "result": ["Result"],
    "retrieval.indexing": ["index"],
    "retrieval.protocol": ["Retriever"],
    "settings": ["Settings"],
    "types": ["Belief", "Budget", "Hit", "Passage", "Question"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_OTHER_NAMES = {"index": "index_paths"}
"""What a name is called in its module, where that is another name."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'beliefrag' has no attribute {name!r}")
    return getattr(import_module(f"beliefrag.{_HOME[name]}"), _OTHER_NAMES.get(name, name))
