"""Compares all retrievers, dense ones too, on a small corpus: embedding the mixed one takes too long.

    python -m benchmarks.find.small_corpus ranked/bm25.json ranked/linked.json --out docs/results/find_dense.json

The corpus has, for the first questions of each set that nothing was fitted or chosen on, the supporting passages and
what BM25 and linked retrieval rank first on the whole corpus. All retrievers search all of it. The distractors are
those that mislead BM25 and linked retrieval, so the comparison favours dense retrieval.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.statistics import mean_estimate
from benchmarks.find.measures import Ranking, found_among, read_ranking
from benchmarks.find.mixed_corpus import SETS, is_for_fitting, load_mixed_corpus

FIRST = 5
RETRIEVED = ("bm25", "dense", "hybrid", "linked")


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranked", type=Path, nargs="+", help="what rank_questions wrote")
    parser.add_argument("--most", type=int, default=40, help="questions of each set")
    parser.add_argument("--depth", type=int, default=10, help="passages of each ranking")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    mixed = load_mixed_corpus()
    rankings = [read_ranking(path) for path in chosen.ranked]
    questions = {
        name: [
            each
            for each in mixed.questions[name]
            if not is_for_fitting(name, each)
            and partition(each.id) is Partition.XHOLD
            and all(each.id in ranking.ranked[name] for ranking in rankings)
        ][: chosen.most]
        for name in SETS
    }
    ids: set[str] = set()
    for name, held in questions.items():
        for each in held:
            ids |= set(each.gold.supporting or ()) & set(mixed.passages)
            for ranking in rankings:
                ids |= {one for one, _ in ranking.ranked[name][each.id][: chosen.depth]}
    source = PassageSource(passages=[mixed.passages[one] for one in sorted(ids)])
    record: dict[str, Any] = {"passages": len(ids), "systems": {}}
    print(f"{len(ids)} passages", flush=True)
    for system in RETRIEVED:
        began, processor = time.perf_counter(), time.process_time()
        retriever = open_retriever(RETRIEVERS.choose(system, {}), source)
        opened = time.perf_counter() - began, time.process_time() - processor
        ranked = {
            name: {
                each.id: [(hit.passage.id, hit.score) for hit in retriever.search(each.question.text, FIRST)]
                for each in held
            }
            for name, held in questions.items()
        }
        ranking = Ranking(system, retriever.identity or "", ranked)
        record["systems"][system] = {
            "identity": retriever.identity,
            "opening_seconds": round(opened[0], 1),
            "opening_processor_seconds": round(opened[1], 1),
            "found": {
                name: asdict(mean_estimate({each.id: found_among(ranking, name, each, mixed, FIRST) for each in held}))
                for name, held in questions.items()
            },
        }
        shown = ", ".join(f"{name} {each['value']:.3f}" for name, each in record["systems"][system]["found"].items())
        print(f"{system}: {shown}", flush=True)
    if chosen.out:
        chosen.out.write_text(f"{json.dumps(record, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
