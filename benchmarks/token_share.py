"""How many of Iterative's tokens lean takes on a served model without token probabilities, on the same questions.

    BELIEFRAG_VERIFIER=stated python -m benchmarks.decide run served --n 5 --out runs
    python -m benchmarks.decide episodes runs/served --file docs/results/served_episodes.csv
    python -m benchmarks.token_share docs/results/served_episodes.csv --against docs/results/decide_episodes.csv

What a server costs in tokens does not depend on where the weights run, so the embedded weights stand for it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from benchmarks.decide.episodes import EpisodeRow, read_rows
from benchmarks.decide.numbers import estimate_ratio

__all__ = ["measure_share"]

Tokens = dict[str, dict[str, dict[str, float]]]


def measure_share(ours: Iterable[EpisodeRow], theirs: Iterable[EpisodeRow]) -> str:
    """Return the number of questions of each set, and the share with its 95 % interval."""
    first, second = _choose(ours, "served", "lean"), _choose(theirs, "bm25", "iterative")
    for name, own in first.items():
        asked = own["tokens"].keys() & second[name]["tokens"].keys()
        for side in (own, second[name]):
            side["tokens"] = {each: side["tokens"][each] for each in sorted(asked)}
    found = estimate_ratio(first, {name: second[name] for name in first})
    counts = "/".join(str(len(own["tokens"])) for own in first.values())
    return f"n {counts}: {found.value:.2f} ({found.low:.2f} to {found.high:.2f}) of Iterative's tokens"


def _choose(rows: Iterable[EpisodeRow], run: str, method: str) -> Tokens:
    chosen: Tokens = {}
    for row in rows:
        if (row.run, row.method) == (run, method) and row.finished:
            chosen.setdefault(row.dataset, {"tokens": {}})["tokens"][row.question] = float(row.tokens)
    return chosen


def main() -> None:
    """Read the command line, and print the share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--against", type=Path, required=True)
    given = parser.parse_args()
    print(measure_share(read_rows(given.rows), read_rows(given.against)))


if __name__ == "__main__":
    main()
