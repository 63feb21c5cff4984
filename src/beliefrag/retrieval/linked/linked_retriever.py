"""Linked retrieval: search, follow names, and rank what was found by how likely each passage is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from beliefrag.errors import RetrievalError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import printable_path
from beliefrag.retrieval.linked.candidates import (
    NEAR,
    SEARCHED,
    Candidates,
    QuestionName,
    Route,
    Way,
    follow_second_step,
    gather_candidates,
    links_among,
    names_in_question,
)
from beliefrag.retrieval.linked.graph import Arrays, NameGraph, write_arrays
from beliefrag.retrieval.linked.ranking import (
    QuestionWords,
    Ranker,
    Rerank,
    boost_linked,
    candidate_features,
    load_ranker,
    read_question,
)
from beliefrag.retrieval.linked.words import Floats, split_passages, split_text
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever, check_depth, close_retriever
from beliefrag.retrieval.store import IndexIncomplete, PassageRow
from beliefrag.types import Hit, Passage, Provenance

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.dense_retriever import DenseRetriever
    from beliefrag.retrieval.linked.build import MapBlocks
    from beliefrag.retrieval.protocol import PassageSource

FORMAT = 5
"""The version of the graph. One of another version is built again."""
_FOLDER = "names-{}"
"""The folder of a graph inside an index folder: it carries the fingerprint of the passages that it was made from."""
_DEEP_SEARCH = 1000
_SECOND_STEP_FROM = 6
_MOST_CHARACTERS = 4000
"""Of a longer question or query only the beginning is looked at for names."""


class SearchedPassages(Retriever, Protocol):
    """Passages that linked retrieval can search: the embedded index, or an index on an engine elsewhere."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages."""
        ...

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Return the keys and scores of the k best passages."""
        ...

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids, in the order given."""
        ...

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Yield all passages, block by block."""
        ...


def write_graph(index: Path, opened: SearchedPassages, map_blocks: MapBlocks = map) -> bool:
    """Make the graph of an index, whose lock the caller holds, unless it is there; return whether it was made."""
    from beliefrag.retrieval.linked.build import build_graph  # noqa: PLC0415

    folder = index / _FOLDER.format(opened.fingerprint)
    try:
        Arrays.open(folder, FORMAT)
        made = False
    except (OSError, ValueError, KeyError):
        made = True
        write_arrays(folder, FORMAT, lambda arrays: build_graph(opened.read_rows(), arrays, map_blocks))
    for old in index.glob(_FOLDER.format("*")):
        if old != folder:
            # A reader that has mapped the old files keeps them until it closes.
            shutil.rmtree(old, ignore_errors=True)
    return made


def graph_in_memory(opened: SearchedPassages) -> NameGraph:
    """Make the graph of an index that lives in memory."""
    from beliefrag.retrieval.linked.build import build_graph  # noqa: PLC0415

    arrays = Arrays()
    build_graph(opened.read_rows(), arrays)
    return NameGraph(arrays)


def open_graph(index: Path, fingerprint: str) -> NameGraph:
    """Open the graph beside an index; raise IndexIncomplete if its passages have none."""
    try:
        return NameGraph(Arrays.open(index / _FOLDER.format(fingerprint), FORMAT))
    except (OSError, ValueError, KeyError) as problem:
        raise IndexIncomplete(
            f"The index {printable_path(index)} has no graph of names for its passages.",
            remedy=f"Make it with `beliefrag index --upgrade --out {printable_path(index)}`.",
        ) from problem


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a search with what the ranker saw of them, and the order that it gave them."""

    candidates: Candidates
    features: Floats
    again: Rerank
    order: list[int]
    """Places of the best candidates in `passages`, best first."""
    probabilities: list[float]

    @property
    def passages(self) -> list[int]:
        """The numbers of all candidates."""
        return list(self.candidates.found)


@dataclass(frozen=True)
class LinkedRetriever:
    """Searches an index by BM25, follows names one step or two, and ranks the candidates by a fitted model.

    The score of a hit is the probability that the passage is needed.
    """

    index: SearchedPassages
    graph: NameGraph
    ranker: Ranker
    steps: int = 1
    near: DenseRetriever | None = None
    """Its first passages are candidates too; None for candidates by words and names alone."""

    score_scale = ScoreScale(location=0.5, scale=0.2)
    """A probability of one half is neither a good match nor a bad one; 0.9 reads as relevance 0.88, 0.1 as 0.12."""

    @property
    def identity(self) -> str:
        """Names the engine below, the ranker, the steps and the embedding model."""
        return _identity(self.ranker.name, self.steps, self.near.model.name if self.near else "", self.index.identity)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages."""
        return self.index.fingerprint

    def close(self) -> None:
        """Close the passages below, where they are on an engine elsewhere."""
        close_retriever(self.index)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k passages that are most likely needed, most likely first, each with how it was found."""
        check_depth(k)
        ranking = self.rank(query)
        if ranking is None or not k:
            return []
        numbers = ranking.passages
        best = [numbers[place] for place in ranking.order[:k]]
        routes = [ranking.candidates.found[number] for number in best]
        ids = [self.graph.passage_id(number) for number in best]
        sources = [self.graph.passage_id(route.source) for route in routes if route.source >= 0]
        # One lookup for all, which may go to an engine elsewhere.
        wanted = list(dict.fromkeys([*ids, *sources]))
        passages = dict(zip(wanted, self.index.get(wanted), strict=True))
        hits = [
            Hit(passages[name], probability, self._explain(route, passages[name], query, passages))
            for name, route, probability in zip(ids, routes, ranking.probabilities, strict=False)
        ]
        # More were asked for than there are candidates: the search's own order fills up, below all that were ranked.
        if k > len(hits):
            hits += self._fill_up(query, k, {hit.passage.id for hit in hits}, hits[-1].score if hits else 0.0)
        return hits

    def rank(self, query: str) -> Ranking | None:
        """Rank the candidates for a query; None if nothing is found for it."""
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
        for hit in self.near.search(text, NEAR) if self.near else ():
            candidates.add(self._numbers[hit.passage.id], Route(Way.DENSE))
        ranking = self._rank_candidates(question, names, hits[:SEARCHED], candidates)
        if self.steps > 1:
            before = len(candidates.found)
            best = [ranking.passages[place] for place in ranking.order[:_SECOND_STEP_FROM]]
            follow_second_step(best, candidates, score, self.graph)
            if len(candidates.found) > before:
                ranking = self._rank_candidates(question, names, hits[:SEARCHED], candidates)
        return ranking

    def _rank_candidates(
        self, question: QuestionWords, names: list[QuestionName], hits: list[int], candidates: Candidates
    ) -> Ranking:
        links = links_among(list(candidates.found), names, self.graph)
        features, matches = candidate_features(question, candidates, hits, names, links, self.graph)
        again = Rerank.from_matches(question, matches, links)
        places, probabilities = self.ranker.rank(features, again.features)
        places, probabilities = boost_linked(places, probabilities, candidates, links, question, matches, self.graph)
        return Ranking(candidates, features, again, places.tolist(), probabilities.tolist())

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.graph.passage_id(number): number for number in range(len(self.graph))}

    def _fill_up(self, query: str, k: int, known: set[str], lowest: float) -> Iterator[Hit]:
        rest = [hit.passage for hit in self.index.search(query, k) if hit.passage.id not in known]
        for place, passage in enumerate(rest[: k - len(known)], start=1):
            yield Hit(passage, lowest / (1 + place), Provenance(Way.SEARCH))

    def _explain(self, route: Route, passage: Passage, query: str, passages: Mapping[str, Passage]) -> Provenance:
        if route.way in (Way.SEARCH, Way.DENSE):
            return Provenance(route.way)
        if route.way is Way.NAMED:
            tokens = split_text(query[:_MOST_CHARACTERS])
            return Provenance(route.way, name=query[tokens.starts[route.start] : tokens.ends[route.end - 1]])
        source = self.graph.passage_id(route.source)
        # A backlink's name is in the passage itself, a link's in the passage that it leads from.
        holder = passage if route.way is Way.BACKLINK else passages[source]
        words = split_passages([(holder.title, holder.text)])
        name = words.text[words.starts[route.start] : words.ends[route.end - 1]]
        return Provenance(route.way, source, " ".join(name.split()))


def _identity(ranker: str, steps: int, near: str, searched: str | None = Bm25Index.identity) -> str:
    return f"linked {ranker} steps={steps} over {searched}{f' and dense {near}' if near else ''}"


def link_passages(searched: SearchedPassages, folder: Path) -> LinkedRetriever:
    """Return linked retrieval over passages elsewhere, whose graph is kept in a folder that the caller has locked."""
    write_graph(folder, searched)
    return LinkedRetriever(searched, open_graph(folder, searched.fingerprint), _shipped_ranker())


@cache
def _shipped_ranker() -> Ranker:
    return load_ranker()


@dataclass(frozen=True, slots=True)
class LinkedOptions:
    """The options of linked retrieval."""

    steps: int = 1
    """How many steps along names are taken from what the search found: 1 or 2."""
    ranker: str = ""
    """A file with a ranker that `beliefrag calibrate ranker` has fitted; the shipped one by default."""
    dense: str = ""
    """The weights of an embedding model whose nearest passages are candidates too; none by default."""

    def __post_init__(self) -> None:
        if self.steps not in {1, 2}:
            raise ValueError("steps must be 1 or 2")

    def load_ranker(self) -> Ranker:
        """Load the ranker that was chosen."""
        return load_ranker(Path(self.ranker)) if self.ranker else _shipped_ranker()

    @property
    def identity(self) -> str:
        """Names the ranking before anything is opened."""
        near = ""
        if self.dense:
            from beliefrag.retrieval.dense.embedding_model import DenseOptions, name_model  # noqa: PLC0415

            near = name_model(DenseOptions(self.dense).path)
        return _identity(self.load_ranker().name, self.steps, near)


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
            graph = open_graph(folder, index.fingerprint)
        except IndexIncomplete:
            fresh = source.upgrade_index()
            if fresh is None:
                raise
            index, graph = fresh, open_graph(folder, fresh.fingerprint)
    near = None
    if options.dense:
        # The runtime of an embedding model is loaded for those who ask for it.
        from beliefrag.retrieval.dense.dense_retriever import open_dense  # noqa: PLC0415
        from beliefrag.retrieval.dense.embedding_model import DenseOptions  # noqa: PLC0415

        near = open_dense(DenseOptions(options.dense), source)
    return LinkedRetriever(index, graph, ranker, options.steps, near=near)
