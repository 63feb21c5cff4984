"""Linked retrieval: searches, follows names, and ranks what it found by how likely each passage is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from beliefrag.errors import RetrievalError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import printable_path
from beliefrag.retrieval.linked.arrays import ArrayFolder, MemoryArrays, write_folder
from beliefrag.retrieval.linked.build import FORMAT, MapBlocks, build_graph
from beliefrag.retrieval.linked.candidates import (
    Candidates,
    Limits,
    Route,
    Way,
    follow_second_step,
    gather_candidates,
    links_among,
    names_in_question,
)
from beliefrag.retrieval.linked.features import Matches, QuestionWords, candidate_features, read_question
from beliefrag.retrieval.linked.graph import NameGraph
from beliefrag.retrieval.linked.link_boost import boost_linked
from beliefrag.retrieval.linked.ranker import Ranker, load_ranker
from beliefrag.retrieval.linked.rerank import Rerank
from beliefrag.retrieval.linked.tokens import split_passages, split_text
from beliefrag.retrieval.protocol import RETRIEVERS, check_depth, close_retriever
from beliefrag.retrieval.store import IndexIncomplete, PassageRow
from beliefrag.types import Hit, Passage, Provenance

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.dense_retriever import DenseRetriever
    from beliefrag.retrieval.protocol import PassageSource

GRAPH_FOLDER = "names-{}"
"""The folder of a graph inside an index folder: it carries the fingerprint of the passages that it was made from."""

SCORE_SCALE = ScoreScale(location=0.5, scale=0.2)
"""A probability of one half is neither a good match nor a bad one; 0.9 reads as relevance 0.88, 0.1 as 0.12."""

_DEEP_SEARCH = 1000
_SECOND_STEP_FROM = 6
_MOST_CHARACTERS = 4000
"""Of a longer question or query only the beginning is looked at for names."""


class SearchedPassages(Protocol):
    """Passages that linked retrieval can search: the embedded index, or an index on an engine elsewhere."""

    @property
    def identity(self) -> str:
        """Names the ranking."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages."""
        ...

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns the k best passages."""
        ...

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Returns the keys and scores of the k best passages."""
        ...

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Returns the passages with these ids, in the order given."""
        ...

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Gives key, id, title, text, source and links of all passages."""
        ...


def graph_folder(index: Path, fingerprint: str) -> Path:
    """Gives the folder of the graph of an index whose passages have this fingerprint."""
    return index / GRAPH_FOLDER.format(fingerprint)


def write_graph(index: Path, opened: SearchedPassages, map_blocks: MapBlocks = map) -> bool:
    """Makes the graph of an index unless it is there, removes older ones, and says whether it was made.

    The caller holds the index's lock as its writer. A kill leaves the graph whole or absent, never in part. Names are
    found by `map_blocks`, which is `map` in this process.
    """
    folder = graph_folder(index, opened.fingerprint)
    made = not _is_current(folder)
    if made:
        write_folder(folder, lambda arrays: build_graph(opened.read_rows(), arrays, map_blocks))
    for old in index.glob(GRAPH_FOLDER.format("*")):
        if old != folder:
            # A reader that has mapped the old files keeps them until it closes.
            shutil.rmtree(old, ignore_errors=True)
    return made


def _is_current(folder: Path) -> bool:
    try:
        arrays = ArrayFolder(folder)
        return arrays.header.get("format") == FORMAT and arrays.is_whole()
    except (OSError, ValueError, KeyError):
        return False


def graph_in_memory(opened: Bm25Index) -> NameGraph:
    """Makes the graph of an index that lives in memory."""
    arrays = MemoryArrays()
    build_graph(opened.read_rows(), arrays)
    return NameGraph(arrays)


def open_graph(index: Path, fingerprint: str) -> NameGraph:
    """Opens the graph beside an index.

    Raises:
        IndexIncomplete: There is none for these passages: the index is older, or its last update was cut off.
    """
    folder = graph_folder(index, fingerprint)
    try:
        arrays = ArrayFolder(folder)
        if arrays.header.get("format") == FORMAT:
            return NameGraph(arrays)
        problem: Exception | None = None
    except (OSError, ValueError, KeyError) as error:
        problem = error
    raise IndexIncomplete(
        f"The index {printable_path(index)} has no graph of names for its passages.",
        remedy=f"Make it with `beliefrag index --upgrade --out {printable_path(index)}`.",
    ) from problem


@dataclass(frozen=True, slots=True)
class Ranking:
    """All that a linked search looked at: for packing, fitting and explanations."""

    question: QuestionWords
    candidates: Candidates
    features: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    matches: Matches
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

    The score of a hit is the probability that the passage is needed. What the search found stays in the list only
    where nothing better was found along names: the list does not grow.
    """

    index: SearchedPassages
    graph: NameGraph
    ranker: Ranker
    steps: int = 1
    limits: Limits = field(default_factory=Limits)
    near: DenseRetriever | None = None
    """Its first passages are candidates too; None for candidates by words and names alone."""

    score_scale = SCORE_SCALE

    @property
    def identity(self) -> str:
        """Names the engine below, the ranker, the steps and the embedding model."""
        return _identity(self.ranker.name, self.steps, self.near.model.name if self.near else "", self.index.identity)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages."""
        return self.index.fingerprint

    def close(self) -> None:
        """Closes the passages below, where they are on an engine elsewhere."""
        close_retriever(self.index)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns the k passages that are most likely needed, most likely first, each with how it was found.

        Raises:
            RetrievalError: k is negative, or the index is damaged.
        """
        check_depth(k)
        ranking = self.rank(query)
        if ranking is None or not k:
            return []
        best, probabilities = ranking.order[:k], ranking.probabilities[:k]
        numbers = ranking.passages
        ids = [self.graph.passage_id(numbers[place]) for place in best]
        routes = [ranking.candidates.found[numbers[place]] for place in best]
        sources = [self.graph.passage_id(route.source) for route in routes if route.source >= 0]
        # One lookup for all, which may go to an engine elsewhere.
        wanted = list(dict.fromkeys([*ids, *sources]))
        passages = dict(zip(wanted, self.index.get(wanted), strict=True))
        hits = [
            Hit(passages[name], probability, self._explain(route, passages[name], query, passages))
            for name, route, probability in zip(ids, routes, probabilities, strict=True)
        ]
        # More were asked for than there are candidates: the search's own order fills up, below all that were ranked.
        if k > len(hits):
            hits += self._fill_up(query, k, {hit.passage.id for hit in hits}, hits[-1].score if hits else 0.0)
        return hits

    def rank(self, query: str) -> Ranking | None:
        """Ranks the candidates for a query; None when nothing is found for it."""
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
        question = read_question(text, split_text(text), self.graph)
        names = names_in_question(question.tokens, question.token_rarity, self.graph)
        candidates = gather_candidates(hits, score, names, self.graph, self.limits)
        for number in self._find_near(text):
            candidates.add(number, Route(Way.DENSE))
        first = hits[: self.limits.search]

        def look() -> Ranking:
            links = links_among(list(candidates.found), names, self.graph, self.limits)
            features, matches = candidate_features(question, candidates, first, names, links, self.graph)
            again = Rerank(question.weights, matches.passage_soft, matches.titles, links)
            places, probabilities = boost_linked(
                list(candidates.found),
                *self.ranker.rank(features, again.features),
                links,
                question,
                matches,
                self.graph,
            )
            return Ranking(question, candidates, features, matches, again, places.tolist(), probabilities.tolist())

        ranking = look()
        if self.steps > 1:
            before = len(candidates.found)
            best = [ranking.passages[place] for place in ranking.order[:_SECOND_STEP_FROM]]
            follow_second_step(best, candidates, score, self.graph, self.limits)
            if len(candidates.found) > before:
                ranking = look()
        return ranking

    def _find_near(self, text: str) -> Iterator[int]:
        if self.near is not None:
            for hit in self.near.search(text, self.limits.near):
                yield self._numbers[hit.passage.id]

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
        # The name of a backlink stands in the passage itself, that of a link in the passage that it leads from.
        holder = passage if route.way is Way.BACKLINK else passages[source]
        words = split_passages([(holder.title, holder.text)])
        name = words.text[words.starts[route.start] : words.ends[route.end - 1]]
        return Provenance(route.way, source, " ".join(name.split()))


def _identity(ranker: str, steps: int, near: str, searched: str = Bm25Index.identity) -> str:
    return f"linked {ranker} steps={steps} over {searched}{f' and dense {near}' if near else ''}"


def link_passages(searched: SearchedPassages, folder: Path) -> LinkedRetriever:
    """Gives linked retrieval over passages elsewhere, whose graph of names is kept in a folder here.

    The caller lets one process at a time in.
    """
    write_graph(folder, searched)
    return LinkedRetriever(searched, open_graph(folder, searched.fingerprint), _shipped_ranker())


@lru_cache(maxsize=1)
def _shipped_ranker() -> Ranker:
    return load_ranker()


@dataclass(frozen=True, slots=True)
class LinkedOptions:
    """The options of linked retrieval."""

    steps: int = 1
    """How many steps along names are taken from what the search found: 1 or 2."""
    ranker: str = ""
    """A file with a ranker of one's own; the shipped one by default."""
    dense: str = ""
    """The weights of an embedding model whose nearest passages are candidates too; none by default."""

    def __post_init__(self) -> None:
        if self.steps not in {1, 2}:
            raise ValueError("steps must be 1 or 2")

    @property
    def identity(self) -> str:
        """Names the ranking before anything is opened."""
        ranker = load_ranker(Path(self.ranker)) if self.ranker else _shipped_ranker()
        near = ""
        if self.dense:
            from beliefrag.retrieval.dense.embedding_model import DenseOptions, name_model  # noqa: PLC0415

            near = name_model(DenseOptions(self.dense).path)
        return _identity(ranker.name, self.steps, near)


@RETRIEVERS.register(
    "linked",
    title="Linked",
    summary="Searches with BM25, follows names between passages, and ranks by a fitted model. Costs no token.",
    options=LinkedOptions,
)
def _open_linked(options: LinkedOptions, source: PassageSource) -> LinkedRetriever:
    ranker = load_ranker(Path(options.ranker)) if options.ranker else _shipped_ranker()
    index, folder = source.open_index(), source.folder
    if folder is None:
        return LinkedRetriever(index, graph_in_memory(index), ranker, options.steps, near=_open_near(options, source))
    try:
        graph = open_graph(folder, index.fingerprint)
    except IndexIncomplete:
        fresh = source.upgrade_index()
        if fresh is None:
            raise
        index, graph = fresh, open_graph(folder, fresh.fingerprint)
    return LinkedRetriever(index, graph, ranker, options.steps, near=_open_near(options, source))


def _open_near(options: LinkedOptions, source: PassageSource) -> DenseRetriever | None:
    if not options.dense:
        return None
    # The runtime of an embedding model is loaded for those who ask for it.
    from beliefrag.retrieval.dense.dense_retriever import open_dense  # noqa: PLC0415
    from beliefrag.retrieval.dense.embedding_model import DenseOptions  # noqa: PLC0415

    return open_dense(DenseOptions(options.dense), source)
