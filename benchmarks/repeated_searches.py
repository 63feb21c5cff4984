"""What it changes for Iterative that no search is made twice: the same questions before and after.

    python -m benchmarks.repeated_searches --before docs/results/iterative_before.csv \
        --after docs/results/decide_episodes.csv

Both files are tables of episodes without texts (`python -m benchmarks.decide episodes`). Compared are the questions
that both have, by retriever and kind of set.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.runs.statistics import Difference, compare_over_datasets
from benchmarks.decide.episodes import EpisodeRow, measure_rows, read_rows
from benchmarks.decide.runs import RUNS
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS

__all__ = ["IterativeChange", "compare_iterative", "format_changes"]

_MEASURES = ("f1", "evidence_recall", "tokens")
_KINDS = {"several facts": MULTI_HOP, "single facts": tuple(name for name in SETS if name not in MULTI_HOP)}


@dataclass(frozen=True, slots=True)
class IterativeChange:
    """Iterative before and after, on the questions of some sets that both tables have."""

    run: str
    kind: str
    questions: tuple[int, ...]
    """How many of each set."""
    measures: dict[str, Difference]


def compare_iterative(before: Sequence[EpisodeRow], after: Sequence[EpisodeRow]) -> Iterator[IterativeChange]:
    """Compares Iterative's episodes of two tables, for each run and kind of set that both have."""
    old, new = (
        {row.key: row for row in rows if row.method == "iterative" and row.finished} for rows in (before, after)
    )
    for run in RUNS:
        for kind, sets in _KINDS.items():
            keys = [key for key in sorted(old.keys() & new.keys()) if key[0] == run and key[2] in sets]
            if not keys:
                continue
            found = [measure_rows([rows[key] for key in keys], _MEASURES) for rows in (new, old)]
            sizes = tuple(len(found[0][name]["f1"]) for name in sets if name in found[0])
            yield IterativeChange(run, kind, sizes, dict(compare_over_datasets(*found).measures))


def format_changes(changes: Sequence[IterativeChange]) -> str:
    """Gives the table: a row for each run and kind of set."""
    lines = [
        "| Iterative on | n | F1 before | after | difference | evidence recall | tokens |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in changes:
        cells = [f"{RUNS[each.run].way}, {each.kind}", "/".join(map(str, each.questions))]
        cells += [f"{each.measures['f1'].second:.3f}", f"{each.measures['f1'].first:.3f}"]
        cells += [
            _show(each.measures[name], form) for name, form in zip(_MEASURES, ("+.3f", "+.3f", "+,.0f"), strict=True)
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _show(found: Difference, form: str) -> str:
    change = found.difference
    if change.low is None:
        return f"{change.value:{form}}"
    return f"{change.value:{form}} ({change.low:{form}} to {change.high:{form}})"


def main() -> None:
    """Reads the command line, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    given = parser.parse_args()
    print(format_changes([*compare_iterative(read_rows(given.before), read_rows(given.after))]))


if __name__ == "__main__":
    main()
