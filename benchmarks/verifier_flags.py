"""How good are the passages that the verifier form `slots` finds unhelpful? No model is asked.

    python -m benchmarks.verifier_flags --n 300 --out FILE.json

Each state is a question with the five passages that BM25 finds for it. The questions are the first by id of those that
no table shows: train questions, and the xfit part of the set that has none. Precision is the share of the passages
found unhelpful that support nothing, recall their share of all that support nothing, and `supporting_lost` the share of
the supporting passages that are found unhelpful by mistake.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from beliefrag.prompts import escape
from beliefrag.retrieval import Bm25Index
from beliefrag.runs.partitions import Partition, partition
from beliefrag.types import Passage
from beliefrag.verifiers.slots import find_unhelpful
from benchmarks.verifier_forms import Row, judge_flags, load

SETS = ("hotpotqa", "2wikimultihopqa", "musique")


def judge_set(name: str, n: int) -> Row:
    """Return the figures of the first n questions of one set."""
    index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus", name))
    states = []
    for row in choose_questions(load("questions", name))[:n]:
        passages = [hit.passage for hit in index.search(row["question"], 5)]
        states.append(count_flags(row["question"], passages, set(row["supporting"])))
    return {"n": len(states), **judge_flags(states)}


def choose_questions(rows: Sequence[Row]) -> list[Row]:
    """Return the questions that thresholds may be chosen on, by id."""
    train = [row for row in rows if row["split"] == "train"]
    chosen = train or [row for row in rows if partition(str(row["id"])) is Partition.XFIT]
    return sorted(chosen, key=lambda row: str(row["id"]))


def count_flags(question: str, passages: Sequence[Passage], gold: set[str]) -> Row:
    """Return the counts of one state: passages shown, supporting, found unhelpful, and both."""
    flagged = set(find_unhelpful(escape(question), passages))
    return {
        "shown": len(passages),
        "supporting": len(gold & {passage.id for passage in passages}),
        "unhelpful": len(flagged),
        "flagged_supporting": len(flagged & gold),
    }


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    result = {name: judge_set(name, given.n) for name in SETS}
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
