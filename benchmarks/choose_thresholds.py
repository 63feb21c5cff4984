"""Chooses the thresholds of every method that has some, on the same train questions and with the same effort.

    python -m benchmarks.choose_thresholds --data ../shared/data/hotpotqa --questions 40 --out FOLDER [--model NAME]

Each method is run with as many settings of its options as every other one, on the same questions. The best mean F1
wins, and of equal ones the cheapest. Replies are cached, and a run that is stopped goes on where it was. BeliefRAG has
its own command, `beliefrag tune`, which chooses on recorded states of the same questions.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from beliefrag import bench
from beliefrag.settings import DEFAULT_MODEL, load_settings

SETTINGS = {
    "adaptive_k": ["", "buffer=0", "buffer=2", "buffer=5,tail=0.0", "buffer=9"],
    "self_rag": ["", "threshold=0.05", "threshold=0.1", "threshold=0.35", "threshold=0.5"],
    # Around the grades of 125 passages: supporting ones lie at 0.49 to 0.77 (their tenths), others at 0.32 to 0.67.
    "crag": [
        "",
        "correct=0.7,incorrect=0.45",
        "correct=0.65,incorrect=0.45",
        "correct=0.65,incorrect=0.5",
        "correct=0.6,incorrect=0.5",
    ],
    "flare": ["", "confident=0.6", "confident=0.4", "confident=0.4,masked=0.2", "confident=0.2,masked=0.1"],
    "uncertainty_gate": ["", "sure=0.3", "sure=0.7", "sure=0.8", "sure=0.9"],
    "lean": ["", "least=0.15", "least=0.15,moves=1", "sure=0.3,least=0.15", "sure=0.7,least=0.15"],
}
"""Five for each: the defaults, and four others."""


def main() -> None:
    """Runs every setting and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--methods", default=",".join(SETTINGS))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    settings = load_settings({"model": given.model}).settings
    print("| method | options | F1 | tokens | chosen |\n|---|---|---|---|---|")
    for method in given.methods.split(","):
        found = []
        for place, options in enumerate(SETTINGS[method]):
            spec = bench.RunSpec(
                data=(given.data,),
                methods=(f"{method}:{options}" if options else method,),
                n=given.questions,
                splits=("train",),
                judge=False,
            )
            run = bench.run(spec, out=given.out / f"{method}_{place}", settings=settings)
            done = [summary for summary in run.summaries() if summary.finished]
            f1 = statistics.fmean(summary.metrics["f1"] or 0.0 for summary in done)
            found.append((f1, -statistics.fmean(summary.usage.tokens for summary in done), options))
        best = max(found)
        for f1, cost, options in found:
            mark = "yes" if (f1, cost, options) == best else ""
            print(f"| {method} | {options or 'defaults'} | {f1:.3f} | {-cost:.0f} | {mark} |", flush=True)


if __name__ == "__main__":
    main()
