"""Asks how often the needed passages are among the first five, with each set searched in its own corpus.

    python -m benchmarks.find.own_corpora --retriever bm25 linked --out own_corpora.json
    beliefrag model pull gte-small
    python -m benchmarks.find.own_corpora --set nq --retriever dense:weights=gte-small --out own_corpora.json

Questions are those that nothing was fitted on. Multi-hop sets: all supporting passages are among the first five, and
which share of them is; the others: a passage with the answer is. Vectors are made first, which takes a tenth of a
second a passage, and kept. What the file has already stays in it. Intervals are 95 %. No language model is asked.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from beliefrag.bench import load_dataset
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.runs.statistics import Estimate, mean_estimate
from benchmarks.find.measures import Ranking, found_among, recall_among
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, MixedCorpus, data_folder, is_for_fitting

_FIRST = 5
_MOST = 500
_BASE = "linked"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, nargs="+", default=list(SETS))
    parser.add_argument("--retriever", nargs="+", default=["bm25", _BASE], help="each as NAME or NAME:key=value,...")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    held: dict[str, Any] = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
    for name in chosen.set:
        systems = [_BASE, *(each for each in chosen.retriever if each != _BASE)]
        found = measure(name, systems)
        held[name] = held.get(name, {}) | found
        chosen.out.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(found))


def measure(name: str, systems: list[str]) -> dict[str, object]:
    """Rank with each system, and return its figures and its differences to the first."""
    dataset = load_dataset(data_folder() / name)
    mixed = MixedCorpus({passage.id: passage for passage in dataset.passages}, {name: dataset.questions})
    source = PassageSource(passages=list(dataset.passages))
    questions = [each for each in dataset.questions if not is_for_fitting(name, each)][:_MOST]
    found: dict[str, object] = {"questions": len(questions), "passages": len(dataset.passages)}
    base: dict[str, float] = {}
    for system in systems:
        search = open_retriever(RETRIEVERS.choose(system, {}), source).search
        hits = {each.id: search(each.question.text, _FIRST) for each in questions}
        ranking = Ranking(system, "", {name: {one: [(hit.passage.id, 0.0) for hit in hits[one]] for one in hits}})
        among = {each.id: found_among(ranking, name, each, mixed, _FIRST) for each in questions}
        base = base or among
        figures = {"all supporting among 5" if name in MULTI_HOP else "answer among 5": _plain(mean_estimate(among))}
        if name in MULTI_HOP:
            recall = {each.id: recall_among(ranking, name, each, _FIRST) for each in questions}
            figures["share of supporting among 5"] = _plain(mean_estimate(recall))
        if base is not among:
            figures["minus linked"] = _plain(mean_estimate({one: among[one] - base[one] for one in among}))
        found[system] = figures
    return found


def _plain(estimate: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 3) for each in (estimate.value, estimate.low, estimate.high)]


if __name__ == "__main__":
    main()
