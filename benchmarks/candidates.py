"""Compare ways to choose among several answers that the model could have given.

    python -m benchmarks.candidates docs/results/candidates.jsonl.gz

Each question has the greedy answer, the greedy continuations of up to three other likely first tokens (`branch`), and
the answer when it must be a span of the evidence (`span`), each with its token probabilities, its F1 and the support
that `verifiers/reading.py` gives it. The candidates were read with the prompts of lean on 2026-11-19, on the first
questions of each set in the order of `benchmarks.reads`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Candidate = Mapping[str, Any]
Choice = Callable[[Sequence[Candidate]], Candidate]
_LEAST = 1e-4
_MARGIN = 0.25
_RESAMPLES = 2000


def _likely(candidate: Candidate, support: float) -> float:
    return math.log(max(candidate["first"], _LEAST)) + support * float(candidate["support"])


def _written(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [each for each in candidates if each["kind"] != "span"]


def _by_margin(candidates: Sequence[Candidate]) -> Candidate:
    best = max(_written(candidates), key=lambda each: float(each["support"]))
    return best if best["support"] - candidates[0]["support"] > _MARGIN else candidates[0]


CHOICES: Mapping[str, Choice] = {
    "greedy": lambda candidates: candidates[0],
    "span of the evidence": lambda candidates: candidates[-1],
    "largest support": lambda candidates: max(_written(candidates), key=lambda each: float(each["support"])),
    "first token and support": lambda candidates: max(_written(candidates), key=lambda each: _likely(each, 1.0)),
    "first token and twice the support": lambda candidates: max(
        _written(candidates), key=lambda each: _likely(each, 2.0)
    ),
    "support larger by 0.25": _by_margin,
    "the best one, by the gold answer": lambda candidates: max(candidates, key=lambda each: float(each["f1"])),
}


def compare(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean F1 of each choice, and its difference to the greedy answer with a 95 % interval."""
    scores = {
        name: np.array([float(choose(row["candidates"])["f1"]) for row in rows]) for name, choose in CHOICES.items()
    }
    draw = np.random.default_rng(0).integers(0, len(rows), (_RESAMPLES, len(rows)))
    found = {}
    for name, own in scores.items():
        difference = own - scores["greedy"]
        low, high = np.percentile(difference[draw].mean(axis=1), (2.5, 97.5))
        found[name] = {"f1": float(own.mean()), "difference": float(difference.mean()), "low": low, "high": high}
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args(words)
    rows = [json.loads(line) for line in gzip.decompress(given.file.read_bytes()).decode("utf-8").splitlines()]
    print(f"{len(rows)} questions, {np.mean([row['seconds'] for row in rows]):.1f} s of a processor each")
    for name, each in compare(rows).items():
        print(f"{name}: F1 {each['f1']:.3f}, {each['difference']:+.3f} ({each['low']:+.3f} to {each['high']:+.3f})")


if __name__ == "__main__":
    main()
