"""Asks whether gte-small finds more than words alone, on the corpus of one set. No model is asked here.

    beliefrag model pull gte-small
    python -m benchmarks.find.gte --set nq

The vectors are made first, which takes a tenth of a second a passage, and kept. Questions are those that nothing was
fitted on. Multi-hop sets: all supporting passages are among the first five; the others: a passage with the answer is.
Intervals are 95 %.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from beliefrag.bench import load_dataset
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.runs.statistics import Estimate, mean_estimate
from beliefrag.types import Hit
from benchmarks.find.dense_candidates import search_with_dense
from benchmarks.find.measures import Ranking, found_among
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, MixedCorpus, data_folder, is_for_fitting

_FIRST = 5
_MORE = 10
_MOST = 500
_SYSTEMS = {
    "bm25": "bm25",
    "linked": "linked",
    "gte": "dense:weights=gte-small",
    "bm25 and gte": "hybrid:weights=gte-small",
}


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    chosen = parser.parse_args()
    found = measure(chosen.set)
    print(json.dumps(found, indent=1))
    if chosen.out:
        held = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
        chosen.out.write_text(json.dumps(held | {chosen.set: found}, indent=1) + "\n", encoding="utf-8")


def measure(name: str) -> dict[str, object]:
    """Ranks with BM25, linked retrieval and gte-small, alone and together."""
    dataset = load_dataset(data_folder() / name)
    mixed = MixedCorpus({passage.id: passage for passage in dataset.passages}, {name: dataset.questions})
    source = PassageSource(passages=list(dataset.passages))
    searches: dict[str, Callable[[str, int], Sequence[Hit]]] = {
        system: open_retriever(RETRIEVERS.choose(written, {}), source).search for system, written in _SYSTEMS.items()
    }
    searches["linked, gte as candidates"] = search_with_dense(_SYSTEMS["gte"], source, _MORE)
    questions = [each for each in dataset.questions if not is_for_fitting(name, each)][:_MOST]
    ranked = {
        system: {each.id: [(hit.passage.id, 0.0) for hit in search(each.question.text, _FIRST)] for each in questions}
        for system, search in searches.items()
    }
    values = {
        system: {
            each.id: found_among(Ranking(system, "", {name: rows}), name, each, mixed, _FIRST) for each in questions
        }
        for system, rows in ranked.items()
    }
    return {
        "questions": len(questions),
        "passages": len(dataset.passages),
        "measure": "all supporting among 5" if name in MULTI_HOP else "answer among 5",
        "systems": {system: _plain(mean_estimate(each)) for system, each in values.items()},
        "minus linked": {
            system: _plain(mean_estimate({one: each[one] - values["linked"][one] for one in each}))
            for system, each in values.items()
            if system != "linked"
        },
    }


def _plain(estimate: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 3) for each in (estimate.value, estimate.low, estimate.high)]


if __name__ == "__main__":
    main()
