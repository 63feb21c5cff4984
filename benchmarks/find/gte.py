"""Asks whether gte-small finds more than words alone, on the corpus of one set. No model is asked here.

    python -m benchmarks.find.gte --set nq --vectors nq.npz

`benchmarks/find/gte_vectors.py` makes the vectors. Questions are those that nothing was fitted on. Multi-hop sets: all
supporting passages are among the first five; the others: a passage with the answer is. Intervals are 95 %.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from beliefrag.bench import load_dataset
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.dense.rank_joining import join_by_ranks
from beliefrag.runs.statistics import Estimate, mean_estimate
from benchmarks.find.measures import Ranking, found_among
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, MixedCorpus, data_folder, is_for_fitting

_FIRST = 5
_DEEP = 100
_MOST = 500


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    chosen = parser.parse_args()
    found = measure(chosen.set, chosen.vectors)
    print(json.dumps(found, indent=1))
    if chosen.out:
        held = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
        chosen.out.write_text(json.dumps(held | {chosen.set: found}, indent=1) + "\n", encoding="utf-8")


def measure(name: str, file: Path) -> dict[str, object]:
    """Ranks with BM25, linked retrieval, gte-small, and BM25 and gte-small joined by ranks."""
    dataset = load_dataset(data_folder() / name)
    mixed = MixedCorpus({passage.id: passage for passage in dataset.passages}, {name: dataset.questions})
    source = PassageSource(passages=list(dataset.passages))
    words = {system: open_retriever(RETRIEVERS.choose(system, {}), source) for system in ("bm25", "linked")}
    held = np.load(file)
    ids, vectors = held["ids"].tolist(), held["vectors"]
    asked = dict(zip(held["question_ids"].tolist(), held["question_vectors"], strict=True))
    questions = [each for each in dataset.questions if not is_for_fitting(name, each)][:_MOST]
    ranked: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for each in questions:
        hits = {system: engine.search(each.question.text, _DEEP) for system, engine in words.items()}
        orders = {system: [hit.passage.id for hit in found] for system, found in hits.items()}
        orders["gte"] = [ids[at] for at in np.argsort(-(vectors @ asked[each.id]), kind="stable")[:_DEEP]]
        joined = join_by_ranks({system: orders[system] for system in ("bm25", "gte")}, _FIRST)
        orders["bm25 and gte"] = [hit.id for hit in joined]
        for system, order in orders.items():
            ranked.setdefault(system, {})[each.id] = [(one, 0.0) for one in order[:_FIRST]]
    values = {
        system: {
            each.id: found_among(Ranking(system, "", {name: rows}), name, each, mixed, _FIRST) for each in questions
        }
        for system, rows in ranked.items()
    }
    return {
        "questions": len(questions),
        "passages": len(ids),
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
