"""What the engines share: options, errors, and a retriever that orders ties by id and fails if the index changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import PositiveFloat

from beliefrag.errors import CorpusError, RetrievalError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import SAMPLE_PASSAGES, Bm25Index, make_question, measure_score_scale, query_terms
from beliefrag.retrieval.filters import LANGUAGE, Filter
from beliefrag.retrieval.languages import language_of
from beliefrag.retrieval.protocol import Retriever, check_depth
from beliefrag.retrieval.store import PassageRow
from beliefrag.settings import cache_dir
from beliefrag.types import Hit, Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.opensearch import OpenSearchIndex
    from beliefrag.retrieval.engines.postgres import PostgresTable
    from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever
    from beliefrag.retrieval.protocol import PassageSource


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options that every engine has."""

    url: str = ""
    """The address, without a password."""
    id: str = ""
    title: str = ""
    text: str = ""
    source: str = ""
    """The fields of an index of your own. Without `text`, the index is one that `beliefrag index` made."""
    timeout: PositiveFloat = 30.0
    changes: Literal["refuse", "follow"] = "refuse"
    """What to do when the index changes while it is searched: fail, or search on and compare nothing."""
    linked: bool = False
    """Follow names between passages, as the retriever `linked` does."""

    @property
    def is_own(self) -> bool:
        """Whether the index was made by another program."""
        return bool(self.text)

    @property
    def identity(self) -> str | None:
        """Names the ranking before anything is opened; None if only the index can tell."""
        return None if self.is_own or self.linked else Bm25Index.identity

    def check_fillable(self) -> None:
        """Raise SettingsError if the index is the user's own."""
        if self.is_own:
            raise SettingsError(
                "BeliefRAG only reads an index or table of your own.",
                remedy="Leave text=, title=, id= and source= out to make one.",
            )


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Which engine with its version, and which index, a run searched: what its record names."""

    engine: str
    index: str

    def __str__(self) -> str:
        return f"{self.index} on {self.engine}"


class IndexState(NamedTuple):
    """What an index holds at one moment."""

    passages: int
    fingerprint: str


def content_of(passage: Passage) -> str:
    """Return the text that is searched: title and text."""
    return f"{passage.title}\n{passage.text}"


def metadata_of(passage: Passage) -> tuple[str, ...]:
    """Return the metadata of a passage and its language, each value as `NAME=VALUE`."""
    values = [f"{name}={value}" for name, value in passage.metadata if name != LANGUAGE]
    return (*values, f"{LANGUAGE}={language_of(passage)}")


def read_metadata(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return metadata from what an engine holds of it; the language is for searches."""
    pairs = (each.partition("=")[::2] for each in values)
    return tuple((name, value) for name, value in pairs if name != LANGUAGE)


def check_filterable(options: EngineOptions) -> None:
    """Raise SettingsError if the index is the user's own: its fields are not known."""
    if options.is_own:
        raise SettingsError(
            "An index or table of your own has no metadata that a filter can use.", remedy="Leave the filter out."
        )


def id_key(passage_id: str) -> int:
    """Return the number by which a graph of names knows a passage of an engine."""
    return int.from_bytes(hashlib.sha256(passage_id.encode()).digest()[:8]) >> 1


def check_address(url: str, *, schemes: Sequence[str], variable: str) -> SplitResult:
    """Return the parts of an engine's address."""
    parts = urlsplit(url)
    if parts.scheme not in schemes:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else url
        raise SettingsError(
            f"{shown!r} is not an address of this engine.",
            remedy=f"Give url={schemes[0]}://HOST:PORT/... on the command line or in the settings file.",
        )
    if parts.password or "password=" in parts.query.lower():
        raise SettingsError(
            f"The address of {parts.hostname} holds a password.",
            remedy=f"Leave it out of the address and set {variable} in the environment.",
        )
    return parts


def one_line(problem: object) -> str:
    """Return an error of an engine in one short line without a full stop."""
    return " ".join(str(problem).split())[:300].rstrip(".") or type(problem).__name__


SearchEngine: TypeAlias = "OpenSearchIndex | PostgresTable"
"""An index that is open to be searched. Threads may share it. A late or partial reply is a RetrievalError."""
_DIGITS = 6
"""Engines add up the same terms in different orders: scores that agree in this many digits are the same score."""
_DEEPEST = 100_000


@dataclass(frozen=True)
class EngineRetriever:
    """Searches an index on an engine elsewhere; fails when it changes, unless changes are followed."""

    engine: SearchEngine
    follow_changes: bool = False

    @property
    def identity(self) -> str:
        """Names the ranking."""
        return self.engine.identity

    @property
    def description(self) -> EngineDescription:
        """The engine and index that are searched, and whether a changing index is."""
        description = self.engine.description
        if self.follow_changes:
            return replace(description, index=f"{description.index} (changes are followed)")
        return description

    @cached_property
    def state_when_opened(self) -> IndexState:
        """The state of the index when it was opened."""
        return self.engine.read_state()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages as they were when the index was opened."""
        return self.state_when_opened.fingerprint

    def __len__(self) -> int:
        return self.state_when_opened.passages

    @cached_property
    def score_scale(self) -> ScoreScale:
        """Where the scores of this corpus lie."""
        return self.measure_score_scale(map(make_question, self.engine.first(SAMPLE_PASSAGES)))

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measure where the first scores of searches with these questions lie."""
        return measure_score_scale(self.search, questions)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best passages for the words of the query, best first; equal scores by passage id."""
        check_depth(k)
        before = self.state_when_opened
        if k == 0 or not query_terms(query):
            return []
        limit = k + 1
        while True:
            found, now = self.engine.find(query, limit)
            self._check_state(before, now)
            # Among equal scores the id decides, not the engine: all that tie with the last one are needed.
            cut_in_tie = len(found) == limit > k and _round(found[k - 1][1]) == _round(found[-1][1])
            if not cut_in_tie or limit >= min(_DEEPEST, now.passages):
                break
            limit = min(16 * limit, _DEEPEST)
        hits = [Hit(passage, _round(score)) for passage, score in found]
        hits.sort(key=lambda hit: (-hit.score, hit.passage.id))
        return hits[:k]

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids, in the order given, by one lookup."""
        wanted = list(ids)
        found = self.engine.get(list(dict.fromkeys(wanted))) if wanted else {}
        if missing := [each for each in wanted if each not in found]:
            raise RetrievalError(
                f"{self.engine.description.index} holds no passage {missing[0]!r}.",
                remedy="Check that it is the same corpus.",
            )
        return [found[each] for each in wanted]

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Return the keys and scores of the k best passages without their texts."""
        before = self.state_when_opened
        if not query_terms(query):
            return [], []
        found, now = self.engine.find_ids(query, k)
        self._check_state(before, now)
        return [id_key(each) for each, _ in found], [score for _, score in found]

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Yield key, id, title and text of all passages, some thousand at a time."""
        for page in self.engine.read_passages():
            yield [PassageRow(id_key(each.id), each.id, each.title, each.text, each.source) for each in page]

    def where(self, wanted: Filter) -> EngineRetriever:
        """Return the same index, of which searches find the passages that a filter describes."""
        return replace(self, engine=self.engine.where(wanted))

    def limited_keys(self) -> list[int]:
        """Return the keys of the passages that searches are limited to."""
        return [id_key(each) for each in self.engine.limited_ids()]

    def close(self) -> None:
        """Close the connections."""
        self.engine.close()

    def _check_state(self, before: IndexState, now: IndexState) -> None:
        if now != before and not self.follow_changes:
            raise RetrievalError(
                f"{self.description.index} changed during the run: it had {before.passages:,} passages "
                f"({before.fingerprint}) and has {now.passages:,} ({now.fingerprint}).",
                remedy="Run again, or give changes=follow to search an index that changes.",
            )


def _round(score: float) -> float:
    return float(f"{score:.{_DIGITS}g}")


def open_on_engine(options: EngineOptions, source: PassageSource, engine: SearchEngine) -> Retriever:
    """Return a retriever on an engine, which must hold the passages that are given, if any."""
    retriever = EngineRetriever(engine, follow_changes=options.changes == "follow")
    if source.is_given and source.open_index().fingerprint != retriever.fingerprint:
        raise CorpusError(
            f"{retriever.description.index} holds {len(retriever):,} passages, and they are not {source}.",
            remedy="Fill it with `beliefrag index ... --to`, or name no passages.",
        )
    return link_engine(retriever) if options.linked else retriever


def link_engine(retriever: EngineRetriever) -> LinkedRetriever:
    """Return linked retrieval over an engine, with the graph of names of its passages in the cache of this machine."""
    from beliefrag.retrieval.linked.linked_retriever import link_passages  # noqa: PLC0415

    if retriever.follow_changes:
        raise SettingsError(
            "linked=true needs passages that do not change, and changes=follow allows changes.",
            remedy="Leave one of them out.",
        )
    folder = cache_dir() / "names" / hashlib.sha256(str(retriever.description).encode()).hexdigest()[:32]
    with hold_lock(folder / "making.lock"):
        return link_passages(retriever, folder)
