"""Measure how the probability changes when a question is typed a little differently.

    python -m benchmarks.robustness --out runs/robustness --json docs/results/robustness.json

Each question is read as it is, in small letters, with a typo (two letters of its longest word change places), and with
a full stop or question mark more or less. The first questions of each set of `benchmarks.reads` are taken.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from beliefrag import bench
from beliefrag.bench.questions import Card, Dataset
from beliefrag.bench.setup import RunSpec
from beliefrag.calibration import load_artifact
from beliefrag.runs.run_files import read_episodes
from beliefrag.settings import DEFAULT_MODEL, cache_dir, load_settings
from beliefrag.types import Question
from benchmarks.reads import load_set

SETS = ("hotpotqa", "nq", "clapnq", "covidqa", "manuals")
EACH = 20
_RESAMPLES = 2000


def vary(text: str) -> dict[str, str]:
    """Return the ways in which a question is typed."""
    longest = max(text.split(), key=len)
    middle = len(longest) // 2
    typo = longest[: middle - 1] + longest[middle] + longest[middle - 1] + longest[middle + 1 :]
    stop = text[:-1].rstrip() if text.endswith(("?", ".")) else f"{text}?"
    return {"plain": text, "small": text.lower(), "typo": text.replace(longest, typo, 1), "stop": stop}


def read_variants(name: str, out: Path) -> bench.Run:
    """Read the questions of a set in all ways, or go on with that."""
    whole = load_set(name, cache_dir())
    asked = tuple(
        replace(each, question=Question(text, f"{each.question.id}~{way}"))
        for each in whole.questions[:EACH]
        for way, text in vary(each.question.text).items()
    )
    card = Card(name=name, questions=len(asked), passages=len(whole.passages))
    spec = RunSpec(
        datasets=(Dataset(name, asked, whole.passages, card),), methods=("lean_reads",), n=len(asked), judge=False
    )
    settings = load_settings({"model": DEFAULT_MODEL, "method": "lean", "threads": 1}).settings
    return bench.run(spec, out=out / name, settings=settings)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args(words)
    fitted = load_artifact("qwen2.5-coder-1.5b-lean").answerability
    told: dict[str, dict[str, float]] = {}
    for name in SETS:
        read_variants(name, given.out)
        for episode in read_episodes(given.out / name):
            step = episode.steps[-1]
            if step.diagnostics and step.belief:
                question, _, way = episode.question.id.rpartition("~")
                p = fitted.probability(step.diagnostics, step.belief.sufficiency)
                told.setdefault(f"{name}/{question}", {})[way] = round(p, 4)
    ways = [way for way in vary("What is it?") if way != "plain"]
    whole = {key: each for key, each in told.items() if len(each) == len(ways) + 1}
    found: dict[str, object] = {"questions": len(whole), "model": DEFAULT_MODEL}
    draw = np.random.default_rng(0)
    for way in ways:
        change = np.array([abs(each[way] - each["plain"]) for each in whole.values()])
        means = [float(draw.choice(change, len(change)).mean()) for _ in range(_RESAMPLES)]
        low, high = np.percentile(means, (2.5, 97.5))
        found[way] = {
            "mean_change": round(float(change.mean()), 4),
            "low": round(float(low), 4),
            "high": round(float(high), 4),
            "over_0.1": round(float((change > 0.1).mean()), 3),
        }
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    with given.json.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["question", "plain", *ways])
        writer.writerows([key, each["plain"], *(each[way] for way in ways)] for key, each in sorted(whole.items()))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
