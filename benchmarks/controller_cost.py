"""What the paper's controller costs by purpose, before a change of it and after, beside Iterative.

    python -m benchmarks.controller_cost --before docs/results/controller_before.csv \
        --after docs/results/decide_episodes.csv --json docs/results/controller.json

Both files are tables of episodes without texts (`python -m benchmarks.decide episodes`). Counted are the multi-hop
questions that all three have; means are over the sets.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.runs.statistics import compare_over_datasets, mean_over_datasets
from beliefrag.types import Budget
from benchmarks.decide.episodes import EpisodeRow, read_rows
from benchmarks.find.mixed_corpus import MULTI_HOP

__all__ = ["collect_costs", "format_costs"]

SIDES = {"before": ("paper", "beliefrag"), "after": ("paper", "beliefrag"), "iterative": ("bm25", "iterative")}
"""The run and the method of each side."""
_MEASURES = ("f1", "tokens")

Rows = dict[str, dict[str, EpisodeRow]]
"""By dataset and question."""


def collect_costs(before: Sequence[EpisodeRow], after: Sequence[EpisodeRow]) -> dict[str, Any]:
    """Work out tokens by purpose, F1 and paired differences.

    Raises:
        ValueError: The three share no question of one of the sets.
    """
    found = {name: _choose(before if name == "before" else after, *side) for name, side in SIDES.items()}
    shared = {
        dataset: sorted(set.intersection(*(set(rows.get(dataset, ())) for rows in found.values())))
        for dataset in MULTI_HOP
    }
    if missing := [dataset for dataset, ids in shared.items() if not ids]:
        raise ValueError(f"Before, after and Iterative share no question of {missing[0]}.")
    same: dict[str, Rows] = {
        name: {dataset: {each: rows[dataset][each] for each in ids} for dataset, ids in shared.items()}
        for name, rows in found.items()
    }
    return {
        "n": {dataset: len(ids) for dataset, ids in shared.items()},
        "sides": {name: _describe(rows) for name, rows in same.items()},
        "differences": {
            f"after minus {other}": _subtract(same["after"], same[other]) for other in ("before", "iterative")
        },
    }


def format_costs(costs: Mapping[str, Any]) -> str:
    """Return the table by purpose, and the differences."""
    sides: dict[str, Mapping[str, Any]] = costs["sides"]
    purposes = sorted({purpose for side in sides.values() for purpose in side["tokens_by_purpose"]})
    lines = [f"n {'/'.join(map(str, costs['n'].values()))}", ""]
    lines += ["| | " + " | ".join(sides) + " |", "|---" * (len(sides) + 1) + "|"]
    for purpose in purposes:
        cells = (f"{side['tokens_by_purpose'].get(purpose, 0.0):,.0f}" for side in sides.values())
        lines.append(f"| {purpose.replace('_', ' ')} | {' | '.join(cells)} |")
    for measure, form in (("tokens", ",.0f"), ("f1", ".3f")):
        cells = (_show(side[measure], form) for side in sides.values())
        lines.append(f"| {'all tokens' if measure == 'tokens' else 'F1'} | {' | '.join(cells)} |")
    lines += [
        f"| {name} | {' | '.join(f'{side[name]:.1f}' for side in sides.values())} |" for name in ("calls", "rounds")
    ]
    lines.append(f"| episodes above the cap | {' | '.join(str(side['above_cap']) for side in sides.values())} |")
    lines.append("")
    for name, each in costs["differences"].items():
        lines.append(f"{name}: F1 {_show(each['f1'], '+.3f')}, tokens {_show(each['tokens'], '+,.0f')}")
    return "\n".join(lines)


def _choose(rows: Iterable[EpisodeRow], run: str, method: str) -> Rows:
    chosen: Rows = {}
    for row in rows:
        if (row.run, row.method) == (run, method) and row.finished and row.dataset in MULTI_HOP:
            chosen.setdefault(row.dataset, {})[row.question] = row
    return chosen


def _describe(rows: Rows) -> dict[str, Any]:
    spent = {dataset: [_read_purposes(row) for row in own.values()] for dataset, own in rows.items()}
    purposes = sorted({purpose for own in spent.values() for each in own for purpose in each})
    every = [row for own in rows.values() for row in own.values()]
    return {
        **{measure: mean_over_datasets(values).record() for measure, values in _measure(rows).items()},
        "tokens_by_purpose": {
            purpose: statistics.fmean(statistics.fmean(each.get(purpose, 0) for each in own) for own in spent.values())
            for purpose in purposes
        },
        "calls": statistics.fmean(row.calls for row in every),
        "rounds": statistics.fmean(row.rounds or 0.0 for row in every),
        "above_cap": sum(row.tokens > Budget().tokens for row in every),
    }


def _read_purposes(row: EpisodeRow) -> dict[str, int]:
    pairs = (part.split("=") for part in (row.tokens_by_purpose or "").split())
    return {purpose: int(tokens) for purpose, tokens in pairs}


def _measure(rows: Rows) -> dict[str, dict[str, dict[str, float]]]:
    """Return F1 and tokens by dataset and question."""
    return {
        measure: {
            dataset: {each: float(getattr(row, measure) or 0.0) for each, row in own.items()}
            for dataset, own in rows.items()
        }
        for measure in _MEASURES
    }


def _subtract(first: Rows, second: Rows) -> dict[str, Any]:
    one, other = (
        {dataset: {name: values[dataset] for name, values in measured.items()} for dataset in rows}
        for rows, measured in ((first, _measure(first)), (second, _measure(second)))
    )
    compared = compare_over_datasets(one, other)
    return {measure: compared.measures[measure].difference.record() for measure in _MEASURES}


def _show(held: Mapping[str, Any], form: str) -> str:
    if held["low"] is None:
        return f"{held['value']:{form}}"
    return f"{held['value']:{form}} ({held['low']:{form}} to {held['high']:{form}})"


def main() -> None:
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    costs = collect_costs(read_rows(given.before), read_rows(given.after))
    print(format_costs(costs))
    if given.json:
        given.json.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
