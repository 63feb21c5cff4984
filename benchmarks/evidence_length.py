"""Choose how many words of evidence a prompt shows by the type of the question, and test the choice on other sets.

    python -m benchmarks.evidence_length --out runs/evidence_length --json evidence_length.json

The questions are the first of each set of `benchmarks.reads` that are not held out, so their reads at 150 words are
cached; those at the other lengths are new. A set is measured with the lengths that were best on the others. Give the
command again to resume. With `--replay` no model is asked: import `docs/results/reads_replies.jsonl.gz` and
`docs/results/evidence_length_replies.jsonl.gz` first.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from beliefrag import bench
from beliefrag.answering.packing import ASKS_NUMBER
from beliefrag.bench.setup import RunSpec
from beliefrag.runs.partitions import Partition, partition, sample
from beliefrag.settings import DEFAULT_MODEL, cache_dir, load_settings
from benchmarks.reads import READS, load_set

SETS = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa", "clapnq", "covidqa", "xquad_en")
LENGTHS = (100, 150, 300)
_USUAL = 150
_RESAMPLES = 2000
_CLOSED = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|has|have|had|will|would|should)\b", re.IGNORECASE
)
_EXPLAINS = re.compile(r"\b(?:why|how(?! (?:many|much|long|old|far|tall|big|large)))\b", re.IGNORECASE)


def type_of(question: str) -> str:
    """Return the type of a question by its words."""
    if _CLOSED.match(question):
        return "yes or no"
    if ASKS_NUMBER.search(question):
        return "number"
    return "explanation" if _EXPLAINS.search(question) else "name"


def read_at(name: str, words: int, n: int, out: Path, *, replay: bool) -> dict[str, tuple[str, float, int]]:
    """Return type, F1 and tokens of each question of a set that was read at that length."""
    whole = load_set(name, cache_dir())
    first = sample(whole.questions, READS[name], RunSpec().seed)
    asked = [each for each in first if partition(each.id) is not Partition.XHOLD][:n]
    chosen = replace(whole, questions=tuple(asked))
    spec = RunSpec(datasets=(chosen,), methods=("lean_reads",), n=len(asked), judge=False, replay=replay)
    settings = load_settings({"model": DEFAULT_MODEL, "method": "lean", "threads": 1, "pack": words}).settings
    run = bench.run(spec, out=out / f"{name}_{words}", settings=settings)
    types = {each.question.id: type_of(each.question.text) for each in asked}
    return {
        f"{name}/{each.question.id}": (types[each.question.id], each.metrics["f1"] or 0.0, each.usage.tokens)
        for each in run.summaries()
        if each.finished
    }


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--n", type=int, default=25, help="questions of each set")
    parser.add_argument("--replay", action="store_true")
    given = parser.parse_args(words)
    read: dict[int, dict[str, tuple[str, float, int]]] = {length: {} for length in LENGTHS}
    for name in SETS:
        for length in LENGTHS:
            read[length] |= read_at(name, length, given.n, given.out, replay=given.replay)
    keys = sorted(set.intersection(*(set(each) for each in read.values())))
    sets = np.array([key.partition("/")[0] for key in keys])
    types = np.array([read[_USUAL][key][0] for key in keys])
    f1, tokens = (np.array([[read[length][key][at] for length in LENGTHS] for key in keys], float) for at in (1, 2))
    place = np.full(len(keys), LENGTHS.index(_USUAL))
    for name in set(sets):
        for kind in set(types[sets != name]):
            place[(sets == name) & (types == kind)] = f1[(sets != name) & (types == kind)].mean(axis=0).argmax()
    rows = np.arange(len(keys))
    drawn = np.random.default_rng(0).integers(0, len(keys), (_RESAMPLES, len(keys)))
    found: dict[str, object] = {"questions": len(keys), "model": DEFAULT_MODEL}
    fixed = {f"{length} words": np.full(len(keys), at) for at, length in enumerate(LENGTHS)}
    for title, columns in (fixed | {"by type, chosen on other sets": place}).items():
        gain = f1[rows, columns] - f1[:, LENGTHS.index(_USUAL)]
        low, high = np.percentile(gain[drawn].mean(axis=1), (2.5, 97.5))
        found[title] = {
            "f1": round(float(f1[rows, columns].mean()), 4),
            "gain": [round(float(each), 4) for each in (gain.mean(), low, high)],
            "tokens": round(float(tokens[rows, columns].mean()), 1),
            "by_type": {kind: round(float(f1[rows, columns][types == kind].mean()), 4) for kind in sorted(set(types))},
        }
    found["of each type"] = {kind: int((types == kind).sum()) for kind in sorted(set(types))}
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
