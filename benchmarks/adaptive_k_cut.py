"""What the buffer of Adaptive-k brings: passages kept and evidence recall with it, without it, and of the plain top 5.

    python -m benchmarks.adaptive_k_cut --n 200 --out docs/results/adaptive_k_cut.json

The first questions of MuSiQue, in its own corpus with BM25. No model is asked.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from beliefrag.methods.adaptive_k import AdaptiveK
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Budget, Passage
from benchmarks.verifier_forms import load

__all__ = ["CUTS", "average_cuts", "measure_cuts"]

CUTS = {"bare": AdaptiveK(buffer=0, tail=0.0), "buffer": AdaptiveK(), "top_5": None}
"""None keeps the budget's top-k."""

Kept = Mapping[str, Mapping[str, Sequence[float]]]
"""By question and cut: the passages kept, and the share of the supporting ones among them."""


def measure_cuts(dataset: str, n: int) -> Kept:
    """Cut the candidates of the first n questions in each way."""
    index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus", dataset))
    budget = Budget()
    kept: dict[str, dict[str, Sequence[float]]] = {}
    for row in load("questions", dataset)[:n]:
        hits = index.search(row["question"], AdaptiveK().depth)
        gold = set(row["supporting"])
        for name, cut in CUTS.items():
            wanted = cut.keep([hit.score for hit in hits]) if cut else budget.top_k
            shown = {hit.passage.id for hit in hits[: min(wanted, budget.answer_passages)]}
            kept.setdefault(str(row["id"]), {})[name] = (len(shown), round(len(shown & gold) / len(gold), 4))
    return kept


def average_cuts(kept: Kept) -> dict[str, tuple[float, float]]:
    """Return the mean of passages and recall for each cut."""
    return {
        name: (
            statistics.fmean(each[name][0] for each in kept.values()),
            statistics.fmean(each[name][1] for each in kept.values()),
        )
        for name in CUTS
    }


def main() -> None:
    """Read the command line, write the file and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="musique")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    kept = measure_cuts(given.dataset, given.n)
    rows = (f"{json.dumps(each)}: {json.dumps(cuts)}" for each, cuts in kept.items())
    given.out.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    for name, (passages, recall) in average_cuts(kept).items():
        print(f"{name}: {passages:.1f} passages, recall {recall:.2f}")


if __name__ == "__main__":
    main()
