"""BeliefRAG: retrieval-augmented answering that knows when to search, when to answer and when to decline.

Importing this package is quick and writes nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from beliefrag._version import __version__

if TYPE_CHECKING:
    from beliefrag import bench, calibrate, studies
    from beliefrag.calibrate import tune
    from beliefrag.client import BeliefRAG
    from beliefrag.errors import BeliefRAGError
    from beliefrag.record import Episode, Outcome, Step
    from beliefrag.retrieval.indexing import index_paths as index
    from beliefrag.retrieval.protocol import Retriever
    from beliefrag.settings import Settings
    from beliefrag.types import Belief, Budget, Hit, Passage, Question, Turn

__all__ = [
    "Belief",
    "BeliefRAG",
    "BeliefRAGError",
    "Budget",
    "Episode",
    "Hit",
    "Outcome",
    "Passage",
    "Question",
    "Retriever",
    "Settings",
    "Step",
    "Turn",
    "__version__",
    "bench",
    "calibrate",
    "index",
    "studies",
    "tune",
]

_EXPORTS = {
    "Belief": "types",
    "BeliefRAG": "client",
    "BeliefRAGError": "errors",
    "Budget": "types",
    "Episode": "record",
    "Hit": "types",
    "Outcome": "record",
    "Passage": "types",
    "Question": "types",
    "Retriever": "retrieval.protocol",
    "Settings": "settings",
    "Step": "record",
    "Turn": "types",
    "index": "retrieval.indexing:index_paths",
    "tune": "calibrate",
}
"""Each name and the module that has it, with the name that it has there where that is another one."""
_MODULES = ("bench", "calibrate", "studies")
"""Modules that are exported whole."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"beliefrag.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'beliefrag' has no attribute {name!r}")
    module, _, other_name = _EXPORTS[name].partition(":")
    return getattr(import_module(f"beliefrag.{module}"), other_name or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
