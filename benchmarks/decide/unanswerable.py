"""Makes sets of questions that their documents cannot answer any more: the supporting passages are taken away.

    python -m benchmarks.decide.unanswerable --n 20 --out unanswerable
    beliefrag calibrate collect --method lean --reads-only --data unanswerable/hotpotqa_unanswerable --part xfit ...

Lean's calibration is fitted on their states too: without them it would never have seen a question without an answer.
They are train questions, or of the xfit part where a set has no train split, and none that states with their support
were collected of. A few can still be answered, from other passages or from what the model knows by heart.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from beliefrag.runs.partitions import Partition, partition
from benchmarks.find.mixed_corpus import MULTI_HOP, data_folder

__all__ = ["write_unanswerable"]

_PASSED_OVER = 60
"""Questions at the beginning of a set, of which states with their support are collected."""


def write_unanswerable(source: Path, out: Path, n: int) -> int:
    """Writes a set with n questions and without their supporting passages; gives the number of these.

    Args:
        source: The folder of a set with `questions.jsonl.gz` and `corpus.jsonl.gz`.
        out: The folder to write.
        n: How many questions.
    """
    with gzip.open(source / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        questions = [json.loads(line) for line in lines]
    training = [question for question in questions if question.get("split") == "train"] or questions
    usable = [
        question
        for question in training
        if question.get("supporting") and partition(str(question["id"])) is Partition.XFIT
    ][_PASSED_OVER : _PASSED_OVER + n]
    support = {passage for question in usable for passage in question["supporting"]}
    out.mkdir(parents=True, exist_ok=True)
    with (
        gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines,
        gzip.open(out / "corpus.jsonl.gz", "wt", encoding="utf-8") as kept,
    ):
        kept.writelines(line for line in lines if json.loads(line)["id"] not in support)
    with gzip.open(out / "questions.jsonl.gz", "wt", encoding="utf-8") as written:
        written.writelines(json.dumps({**question, "supporting": []}) + "\n" for question in usable)
    return len(support)


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20, help="questions of each set")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    for name in MULTI_HOP:
        removed = write_unanswerable(data_folder() / name, given.out / f"{name}_unanswerable", given.n)
        print(f"{name}: {removed} passages removed")


if __name__ == "__main__":
    main()
