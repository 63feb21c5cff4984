"""Ranks the passages of the mixed corpus for every question that was not fitted on.

    python -m benchmarks.find.rank_questions --retriever bm25 --out ranked/bm25.json
    python -m benchmarks.find.rank_questions --retriever linked --out ranked/linked.json

The file holds ids and scores, no text. `benchmarks.find.tables` reads it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from benchmarks.find.mixed_corpus import SETS, is_for_fitting, load_mixed_corpus

DEPTH = 20


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retriever", default="bm25", help="NAME or NAME:key=value,...")
    parser.add_argument("--most", type=int, default=500, help="questions of each set")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    mixed = load_mixed_corpus()
    retriever = open_retriever(
        RETRIEVERS.choose(chosen.retriever, {}), PassageSource(passages=list(mixed.passages.values()))
    )
    ranked: dict[str, dict[str, list[tuple[str, float]]]] = {}
    seconds = []
    for name in SETS:
        questions = [each for each in mixed.questions[name] if not is_for_fitting(name, each)][: chosen.most]
        ranked[name] = {}
        for each in questions:
            began = time.perf_counter()
            hits = retriever.search(each.question.text, DEPTH)
            seconds.append(time.perf_counter() - began)
            ranked[name][each.id] = [(hit.passage.id, round(hit.score, 6)) for hit in hits]
    record = {
        "system": chosen.retriever,
        "identity": retriever.identity,
        "passages": len(mixed.passages),
        "median_milliseconds": round(1000 * sorted(seconds)[len(seconds) // 2], 2),
        "ranked": ranked,
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
