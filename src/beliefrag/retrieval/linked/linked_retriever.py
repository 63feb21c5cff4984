"""Linked retrieval: search, follow names, and rank what was found by how likely each passage is needed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from beliefrag.errors import RetrievalError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import printable_path
from beliefrag.retrieval.filters import Filter
from beliefrag.retrieval.languages import ENGLISH, query_languages
from beliefrag.retrieval.linked.graph import (
    SEARCHED,
    Arrays,
    Candidates,
    NameGraph,
    Route,
    Way,
    gather_candidates,
    links_among,
    names_in_question,
    write_arrays,
)
from beliefrag.retrieval.linked.ranking import (
    Doubles,
    Ranker,
    Rerank,
    boost_linked,
    candidate_features,
    load_ranker,
    number_titles,
    read_question,
)
from beliefrag.retrieval.linked.words import Floats, Long, split_passages, split_text
from beliefrag.retrieval.protocol import RETRIEVERS, check_depth, close_retriever
from beliefrag.retrieval.store import IndexIncomplete
from beliefrag.types import Hit, Passage, Provenance

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
    from beliefrag.retrieval.linked.build import MapBlocks
    from beliefrag.retrieval.protocol import PassageSource

    SearchedPassages: TypeAlias = Bm25Index | EngineRetriever

FORMAT = 5
"""The version of the graph; a graph of another version is built again."""
_FOLDER = "names-{}"
"""The folder of a graph in an index folder, with the fingerprint of its passages."""
_DEEP_SEARCH = 1000
_MOST_CHARACTERS = 4000


def write_graph(index: Path, opened: SearchedPassages, map_blocks: MapBlocks = map) -> bool:
    """Build the graph of an index, whose lock the caller holds, if it is missing; return whether it was missing."""
    folder = index / _FOLDER.format(opened.fingerprint)
    try:
        Arrays.open(folder, FORMAT)
        missing = False
    except (OSError, ValueError, KeyError):
        from beliefrag.retrieval.linked.build import build_graph  # noqa: PLC0415

        missing = True
        write_arrays(folder, FORMAT, lambda arrays: build_graph(opened.read_rows(), arrays, map_blocks))
    for old in index.glob(_FOLDER.format("*")):
        if old != folder:
            # A reader that has mapped the old files keeps them until it closes.
            shutil.rmtree(old, ignore_errors=True)
    return missing


def graph_in_memory(opened: SearchedPassages) -> NameGraph:
    """Build the graph of an index in memory."""
    from beliefrag.retrieval.linked.build import build_graph  # noqa: PLC0415

    arrays = Arrays()
    build_graph(opened.read_rows(), arrays)
    return NameGraph(arrays)


def _open_graph(index: Path, fingerprint: str) -> NameGraph:
    """Open the graph of an index; raise IndexIncomplete if it is missing."""
    try:
        return NameGraph(Arrays.open(index / _FOLDER.format(fingerprint), FORMAT))
    except (OSError, ValueError, KeyError) as problem:
        raise IndexIncomplete(
            f"The index {printable_path(index)} has no graph of names for its passages.",
            remedy="Make it with `beliefrag index`: name the same documents and the same folder.",
        ) from problem


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a search, their features, and their order."""

    candidates: Candidates
    passages: list[int]
    features: Floats
    again: Rerank
    order: list[int]
    """Indices of the best candidates in `passages`, best first."""
    probabilities: list[float]


@dataclass(frozen=True)
class LinkedRetriever:
    """Search an index by BM25, follow names, and score the candidates by the probability that they are needed."""

    index: SearchedPassages
    graph: NameGraph
    ranker: Ranker

    score_scale = ScoreScale(location=0.5, scale=0.2)
    """A probability of 0.9 reads as relevance 0.88, and 0.1 as 0.12."""

    @property
    def identity(self) -> str:
        """The engine and the ranker."""
        return _identity(self.ranker, self.index.identity)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages."""
        return self.index.fingerprint

    def where(self, wanted: Filter) -> LinkedRetriever:
        """Return the same retriever, whose searches and links lead to the passages that a filter describes alone."""
        index = self.index.where(wanted)
        keys = np.array(index.limited_keys(), np.int64)
        return replace(self, index=index, graph=self.graph.limited_to(keys))

    def close(self) -> None:
        """Close the retriever below."""
        close_retriever(self.index)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k passages that are most likely needed, best first, with how each was found."""
        check_depth(k)
        ranking = self.rank(query)
        if ranking is None or not k:
            return []
        best = [ranking.passages[place] for place in ranking.order[:k]]
        routes = [ranking.candidates.found[number] for number in best]
        ids = [self.graph.passage_id(number) for number in best]
        sources = [self.graph.passage_id(route.source) for route in routes if route.source >= 0]
        wanted = list(dict.fromkeys([*ids, *sources]))
        passages = dict(zip(wanted, self.index.get(wanted), strict=True))
        hits = [
            Hit(passages[name], probability, self._explain(route, passages[name], query, passages))
            for name, route, probability in zip(ids, routes, ranking.probabilities, strict=False)
        ]
        if k > len(hits):
            known, lowest = {hit.passage.id for hit in hits}, hits[-1].score if hits else 0.0
            rest = [hit.passage for hit in self.index.search(query, k) if hit.passage.id not in known]
            for place, passage in enumerate(rest[: k - len(hits)], start=1):
                hits.append(Hit(passage, lowest / (1 + place), Provenance(Way.SEARCH)))
        return hits

    def rank(self, query: str) -> Ranking | None:
        """Rank the candidates for a query; return None if nothing is found."""
        found, found_scores = self.index.search_keys(query, _DEEP_SEARCH)
        if not found:
            return None
        keys, scores = np.array(found, np.int64), np.array(found_scores)
        numbers = self.graph.numbers(keys)
        if (numbers < 0).any():
            raise RetrievalError(
                "The graph of names does not belong to this index.", remedy="Make it again with `beliefrag index`."
            )
        order = np.lexsort((keys, -scores))
        hits: list[int] = numbers[order].tolist()
        score = dict(zip(hits, scores[order].tolist(), strict=True))
        text = query[:_MOST_CHARACTERS]
        question = read_question(text, self.graph)
        names = names_in_question(question.tokens, question.token_rarity, self.graph)
        candidates = gather_candidates(hits, score, names, self.graph)
        passages = list(candidates.found)
        links = links_among(passages, names, self.graph)
        features, matches = candidate_features(question, candidates, hits[:SEARCHED], len(names), links, self.graph)
        again = Rerank(matches.weights, matches.passage_soft, number_titles(matches.passages), links)
        places, probabilities = self.ranker.rank(features, again.features)
        places, probabilities = boost_linked(places, probabilities, passages, links, matches, self.graph)
        if query_languages(query, getattr(self.index, "languages", None))[:1] not in ([], [ENGLISH]):
            places, probabilities = _in_order_of_search(places, probabilities, min(SEARCHED, len(hits)))
        return Ranking(candidates, passages, features, again, places.tolist(), probabilities.tolist())

    def _explain(self, route: Route, passage: Passage, query: str, passages: Mapping[str, Passage]) -> Provenance:
        if route.way is Way.SEARCH:
            return Provenance(route.way)
        if route.way is Way.NAMED:
            tokens = split_text(query[:_MOST_CHARACTERS])
            return Provenance(route.way, name=query[tokens.starts[route.start] : tokens.ends[route.end - 1]])
        source = self.graph.passage_id(route.source)
        # The name of a backlink is in the passage itself.
        holder = passage if route.way is Way.BACKLINK else passages[source]
        words = split_passages([(holder.title, holder.text)])
        name = words.text[words.starts[route.start] : words.ends[route.end - 1]]
        return Provenance(route.way, source, " ".join(name.split()))


def _in_order_of_search(places: Long, probabilities: Doubles, searched: int) -> tuple[Long, Doubles]:
    """Return the candidates in the order in which they were found: the ranker was fitted on English alone."""
    dropped = np.setdiff1d(np.arange(searched), places)
    lowest = np.full(len(dropped), probabilities.min(initial=1.0))
    return np.sort(np.concatenate((places, dropped))), np.concatenate((probabilities, lowest))


def _identity(ranker: Ranker, searched: str = Bm25Index.identity) -> str:
    return f"linked {ranker.name} steps=1 over {searched}"


def link_passages(searched: SearchedPassages, folder: Path) -> LinkedRetriever:
    """Return linked retrieval over remote passages, whose graph is kept in a folder that the caller has locked."""
    write_graph(folder, searched)
    return LinkedRetriever(searched, _open_graph(folder, searched.fingerprint), _shipped_ranker())


@cache
def _shipped_ranker() -> Ranker:
    return load_ranker()


@dataclass(frozen=True, slots=True)
class LinkedOptions:
    """The options of linked retrieval."""

    ranker: str = ""

    def load_ranker(self) -> Ranker:
        """Load the chosen ranker."""
        return load_ranker(Path(self.ranker)) if self.ranker else _shipped_ranker()

    @property
    def identity(self) -> str:
        """The identity of the ranking, before anything is opened."""
        return _identity(self.load_ranker())


@RETRIEVERS.register(
    "linked",
    title="Linked",
    summary="Searches with BM25, follows names between passages, and ranks by a fitted model. Costs no token.",
    options=LinkedOptions,
)
def _open_linked(options: LinkedOptions, source: PassageSource) -> LinkedRetriever:
    ranker, index, folder = options.load_ranker(), source.open_index(), source.folder
    if folder is None:
        graph = graph_in_memory(index)
    else:
        try:
            graph = _open_graph(folder, index.fingerprint)
        except IndexIncomplete:
            fresh = source.upgrade_index()
            if fresh is None:
                raise
            index, graph = fresh, _open_graph(folder, fresh.fingerprint)
    return LinkedRetriever(index, graph, ranker)
