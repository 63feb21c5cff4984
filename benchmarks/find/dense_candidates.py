"""Ranks as linked retrieval does, with the first passages of dense retrieval as more candidates.

    python -m benchmarks.find.dense_candidates --out ranked/linked_dense.json

The ranker is the shipped one, which was fitted without them. `benchmarks.find.tables` reads the file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.linked import linked_retriever
from beliefrag.retrieval.linked.candidates import Candidates, Limits, QuestionName, Route, Way, gather_candidates
from beliefrag.retrieval.linked.graph import NameGraph
from beliefrag.types import Hit
from benchmarks.find.mixed_corpus import SETS, is_for_fitting, load_mixed_corpus
from benchmarks.find.rank_questions import DEPTH


def search_with_dense(dense: str, source: PassageSource, most: int) -> Callable[[str, int], Sequence[Hit]]:
    """Gives a search as linked retrieval makes it, with the first passages of dense retrieval as more candidates."""
    near = open_retriever(RETRIEVERS.choose(dense, {}), source)
    linked = cast(linked_retriever.LinkedRetriever, open_retriever(RETRIEVERS.choose("linked", {}), source))
    numbers = {linked.graph.passage_id(number): number for number in range(len(linked.graph))}
    more: list[int] = []

    def gather_more(
        hits: Sequence[int],
        scores: Mapping[int, float],
        names: Sequence[QuestionName],
        graph: NameGraph,
        limits: Limits,
    ) -> Candidates:
        found = gather_candidates(hits, scores, names, graph, limits)
        for number in more:
            found.add(number, Route(Way.SEARCH))
        return found

    def search(query: str, k: int) -> Sequence[Hit]:
        more[:] = [numbers[hit.passage.id] for hit in near.search(query, most)]
        linked_retriever.gather_candidates = gather_more  # type: ignore[attr-defined]
        try:
            return linked.search(query, k)
        finally:
            linked_retriever.gather_candidates = gather_candidates  # type: ignore[attr-defined]

    return search


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=500, help="questions of each set")
    parser.add_argument("--dense", type=int, default=10, help="passages of dense retrieval that are candidates too")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    mixed = load_mixed_corpus()
    source = PassageSource(passages=list(mixed.passages.values()))
    search = search_with_dense("dense", source, chosen.dense)
    ranked: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for name in SETS:
        ranked[name] = {}
        for each in [each for each in mixed.questions[name] if not is_for_fitting(name, each)][: chosen.most]:
            hits = search(each.question.text, DEPTH)
            ranked[name][each.id] = [(hit.passage.id, round(hit.score, 6)) for hit in hits]
    record = {"system": "linked_dense", "identity": "linked dense", "passages": len(mixed.passages), "ranked": ranked}
    chosen.out.write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
