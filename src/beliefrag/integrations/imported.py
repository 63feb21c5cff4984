"""A retriever of LangChain, LlamaIndex or your own, by its import path: `--retriever imported:path=my_search:store`.

What the path names is the retriever itself, or a function without arguments that returns it.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beliefrag.errors import SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource


@dataclass(frozen=True, slots=True)
class ImportedOptions:
    """The options of an imported retriever; they are those of `FromLangChain` and `FromLlamaIndex`."""

    path: str = ""
    """MODULE:NAME, found where Python finds modules and in the working folder."""
    identity: str | None = None
    """Names the ranking so that a calibration of another one is refused."""
    scores: str = ""
    """For a vector store of LangChain: relevance, similarity, distance or rank."""
    score_key: str = ""
    """For a retriever of LangChain: the metadata entry that holds a score."""
    location: float | None = None
    scale: float | None = None
    """Where the scores lie, and how far they spread; without them scores are ignored."""

    def __post_init__(self) -> None:
        if (self.location is None) != (self.scale is None):
            raise ValueError("location and scale belong together")


@RETRIEVERS.register(
    "imported",
    title="Imported",
    summary="Searches with a retriever of LangChain, LlamaIndex or your own, named by its import path.",
    options=ImportedOptions,
)
def _open_imported(options: ImportedOptions, source: PassageSource) -> Retriever:
    found = _import_object(options.path)
    library = _library_of(found)
    place, spread = options.location, options.scale
    scale = ScoreScale(place, spread) if place is not None and spread is not None else None
    if library == "langchain_core":
        from beliefrag.integrations.langchain import FromLangChain  # noqa: PLC0415

        given: dict[str, Any] = {"scores": options.scores or None, "score_key": options.score_key or None}
        return FromLangChain(found, **given, scale=scale, identity=options.identity)
    if options.scores or options.score_key:
        raise SettingsError(
            f"scores and score_key are for LangChain, and {options.path} is not one of its objects.",
            remedy="Leave them out.",
        )
    if library == "llama_index":
        from beliefrag.integrations.llamaindex import FromLlamaIndex  # noqa: PLC0415

        return FromLlamaIndex(found, scale=scale, identity=options.identity)
    retriever: Retriever = found
    return retriever


def _library_of(found: object) -> str:
    """Return the library whose base classes an object has; empty for an object of neither."""
    packages = [kind.__module__.partition(".")[0] for kind in type(found).__mro__]
    return next((each for each in packages if each in ("langchain_core", "llama_index")), "")


def _import_object(path: str) -> Any:
    module, _, name = path.partition(":")
    if not module or not name:
        raise SettingsError(f"{path!r} is not an import path.", remedy="Write it as path=MODULE:NAME.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = attrgetter(name)(importlib.import_module(module))
        makes_one = callable(found) and not _library_of(found) and not hasattr(found, "search")
        return found() if makes_one else found
    except Exception as error:
        raise SettingsError(
            f"{path} gives no retriever, {type(error).__name__}: {' '.join(str(error).split())}.",
            remedy="It must be a retriever, or a function without arguments that returns one, in a module that can be "
            "imported from this folder.",
        ) from error
