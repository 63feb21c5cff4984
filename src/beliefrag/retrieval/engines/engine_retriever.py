"""A retriever over any engine: settles ties, notices changes, and says how scores are to be read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from beliefrag.errors import CorpusError, RetrievalError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.paths import cache_dir
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import SAMPLE_PASSAGES, make_question, measure_score_scale, query_terms
from beliefrag.retrieval.engines.engine import EngineDescription, IndexState, SearchEngine, id_key
from beliefrag.retrieval.protocol import check_depth
from beliefrag.retrieval.store import PassageRow
from beliefrag.types import Hit, Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever
    from beliefrag.retrieval.protocol import PassageSource

__all__ = ["CHANGES", "EngineRetriever", "FindIds", "check_passages", "link_engine"]

CHANGES = ("refuse", "follow")
"""What to do when the index changes while it is searched: fail, or search on and compare nothing."""
_DIGITS = 6
"""Engines add up the same terms in different orders: scores that agree in this many digits are the same score."""
_DEEPEST = 100_000

_T = TypeVar("_T")
FindIds = Callable[[int], tuple[list[tuple[str, float]], IndexState]]
"""Gives ids and scores of so many best passages, best first, and the state of the index."""


@dataclass(frozen=True)
class EngineRetriever:
    """Searches an index on an engine elsewhere.

    Args:
        engine: The engine.
        follow_changes: Search on when the index changes. Otherwise a search that sees other passages than the first one
            fails: half of a run's numbers would be about another corpus.
    """

    engine: SearchEngine
    follow_changes: bool = False

    @property
    def identity(self) -> str:
        """Names the ranking."""
        return self.engine.identity

    @property
    def description(self) -> EngineDescription:
        """Which engine and index are searched, and whether a changing index is."""
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
        """Where the scores of this corpus lie, measured on the corpus itself."""
        return self.measure_score_scale(map(make_question, self.engine.first(SAMPLE_PASSAGES)))

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measures where the first scores of searches with these questions lie."""
        return measure_score_scale(self.search, questions)

    def search(self, query: str, k: int) -> list[Hit]:
        """Returns the k best passages for the words of the query, best first; equal scores by passage id.

        Raises:
            RetrievalError: k is negative, the engine failed, or the index has changed.
        """
        check_depth(k)
        before = self.state_when_opened
        if k == 0 or not query_terms(query):
            return []
        found = self._find_whole_ties(lambda limit: self.engine.find(query, limit), k, before)
        hits = [Hit(passage, _round(score)) for passage, score in found]
        hits.sort(key=lambda hit: (-hit.score, hit.passage.id))
        return hits[:k]

    def search_ids(self, query: str, k: int) -> list[str]:
        """Returns the ids of what `search` returns, without fetching the passages.

        Raises:
            RetrievalError: The engine failed, or the index has changed.
        """
        return self.rank(lambda limit: self.engine.find_ids(query, limit), k) if query_terms(query) else []

    def rank(self, find: FindIds, k: int) -> list[str]:
        """Returns the ids of the k best passages of any search on the index, best first; equal scores by id.

        Raises:
            RetrievalError: The engine failed, or the index has changed.
        """
        found = self._find_whole_ties(find, k, self.state_when_opened)
        return [each for each, _ in sorted(found, key=lambda pair: (-_round(pair[1]), pair[0]))][:k]

    def _find_whole_ties(
        self, find: Callable[[int], tuple[list[tuple[_T, float]], IndexState]], k: int, before: IndexState
    ) -> list[tuple[_T, float]]:
        """Gives the k best and all that score like the last of them: among those the id decides, not the engine."""
        limit = k + 1
        while True:
            found, now = find(limit)
            self._check_state(before, now)
            cut_in_tie = len(found) == limit > k and _round(found[k - 1][1]) == _round(found[-1][1])
            if not cut_in_tie or limit >= min(_DEEPEST, now.passages):
                return found
            limit = min(16 * limit, _DEEPEST)

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Returns the passages with these ids, in the order given, by one lookup.

        Raises:
            RetrievalError: One of them is not in the index.
        """
        wanted = list(ids)
        found = self.engine.get(list(dict.fromkeys(wanted))) if wanted else {}
        if missing := [each for each in wanted if each not in found]:
            raise RetrievalError(
                f"{self.engine.description.index} holds no passage {missing[0]!r}.",
                remedy="Check that it is the same corpus.",
            )
        return [found[each] for each in wanted]

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Returns the keys and scores of the k best passages without their texts."""
        before = self.state_when_opened
        if not query_terms(query):
            return [], []
        found, now = self.engine.find_ids(query, k)
        self._check_state(before, now)
        return [id_key(each) for each, _ in found], [score for _, score in found]

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Gives key, id, title and text of all passages, some thousand at a time."""
        for page in self.engine.read_passages():
            yield [PassageRow(id_key(each.id), each.id, each.title, each.text, each.source) for each in page]

    def close(self) -> None:
        """Lets the connections go."""
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


def check_passages(retriever: EngineRetriever, source: PassageSource, *, how: str) -> EngineRetriever:
    """Gives the retriever back if its index holds just the passages that the user named, where they named any.

    Args:
        retriever: The opened engine.
        source: The passages.
        how: The command that fills the index.

    Raises:
        CorpusError: It holds other passages.
    """
    if source.is_given and source.open_index().fingerprint != retriever.fingerprint:
        raise CorpusError(
            f"{retriever.description.index} holds {len(retriever):,} passages, and they are not {source}.",
            remedy=f"Fill it with {how}, give fill=true to put these passages into an index of their own, or name no "
            "passages.",
        )
    return retriever


def link_engine(retriever: EngineRetriever) -> LinkedRetriever:
    """Gives linked retrieval over an engine: it searches, and names are followed on this machine.

    The graph of names is made from the passages of the engine when it is first needed, and kept in the cache under
    their fingerprint. A search then is one deep search and one lookup of all passages that it returns or explains.

    Raises:
        SettingsError: Changes are followed, so the graph would not fit the passages for long.
        RetrievalError: The passages cannot be read.
    """
    # Arrays are imported by those who need them only.
    from beliefrag.retrieval.linked.linked_retriever import link_passages  # noqa: PLC0415

    if retriever.follow_changes:
        raise SettingsError(
            "linked=true and changes=follow do not go together: names are followed in the passages as they were.",
            remedy="Leave one of them out.",
        )
    folder = cache_dir() / "names" / hashlib.sha256(str(retriever.description).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "making.lock"):
        return link_passages(retriever, folder)
