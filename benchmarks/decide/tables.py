"""Writes the tables of the comparison: the last part of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.runs.statistics import MIN_QUESTIONS
from beliefrag.settings import DECLINE_BELOW
from benchmarks.decide.numbers import FACTOID, FEWEST, title_of
from benchmarks.decide.runs import RUNS
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS

__all__ = ["MARK", "format_tables", "write_page"]

MARK = "<!-- What follows was written by benchmarks/decide/tables.py. -->"
_FEW = "\\*"
"""Marks an interval of few questions; a bare star would begin a list or a stress."""


def write_page(numbers: Mapping[str, Any], page: Path) -> None:
    """Puts the tables in the place of the last part of a page."""
    kept = page.read_text("utf-8").partition(MARK)[0] if page.exists() else ""
    page.write_text(f"{kept.rstrip()}\n\n{MARK}\n\n{format_tables(numbers)}\n", encoding="utf-8")


def format_tables(numbers: Mapping[str, Any]) -> str:
    """Gives all tables as one text."""
    return "\n".join(_lines(numbers))


def _lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield from _mean_lines(numbers["rows"])
    yield f"\n{_FEW} fewer than {MIN_QUESTIONS} questions of a set: the interval is too narrow to be trusted.\n"
    yield "## Lean minus the other, paired, mean of the three multi-hop sets\n"
    yield (
        "On the questions that both have. The last column is the share of resamples in which lean has more F1 with "
        "fewer tokens. Lean on BM25 is set against what searches with BM25. No interval: no question differs.\n"
    )
    yield from _difference_lines(numbers["differences"], MULTI_HOP)
    if numbers["factoid_differences"]:
        yield f"\n## The same on the factoid sets ({', '.join(FACTOID)})\n"
        yield from _difference_lines(numbers["factoid_differences"], FACTOID)
    if numbers["frontier"]:
        yield from _frontier_lines(numbers["frontier"])
    if numbers["probability"]:
        yield from _brier_lines(numbers["probability"])
        yield from _risk_lines(numbers["probability"])
    if numbers["failed"]:
        yield f"\nFailed and not scored: {_list_counts(numbers['failed'])}."
    if numbers["too_few"]:
        yield f"\nIn no table, with fewer than {FEWEST} questions: {_list_counts(numbers['too_few'])}."


def _mean_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## F1 by set, with 95 % intervals and the number of questions\n"
    yield from _head("", *SETS, "multi-hop mean", "tokens (multi-hop)")
    for row in rows:
        cells = [
            f"{_show(row['datasets'][name]['f1'])}, n {row['datasets'][name]['n']}" if name in row["datasets"] else ""
            for name in SETS
        ]
        mean = row["multi_hop"]
        ends = [_show(mean["f1"]), f"{mean['tokens']['value']:,.0f}"] if mean else ["", ""]
        yield _row(row["title"], *cells, *ends)


def _difference_lines(differences: Sequence[Mapping[str, Any]], sets: Sequence[str]) -> Iterator[str]:
    yield from _head("lean on", "against", "n", "F1", "tokens", "share of its tokens", "better and cheaper")
    for each in differences:
        yield _row(
            RUNS[each["first"][0]].way,
            title_of(*each["second"]),
            "/".join(str(each["n"].get(name, "-")) for name in sets),
            _show(each["f1"], "+.3f"),
            _show(each["tokens"], "+,.0f"),
            _show(each["token_ratio"], ".2f"),
            f"{each['better_and_cheaper']:.2f}",
        )


def _frontier_lines(frontier: Mapping[str, Any]) -> Iterator[str]:
    counts = "/".join(str(frontier["n"][name]) for name in MULTI_HOP)
    yield "\n## Quality against tokens, cheapest first\n"
    yield (
        f"Mean of the three multi-hop sets on the questions that all of these have (n {counts}). On the front: no "
        "other one is as good for less; beside it the share of resamples in which that is so.\n"
    )
    yield from _head("", "F1", "tokens", "on the front")
    for point in frontier["points"]:
        front = f"{'yes' if point['on_front'] else 'no'} ({point['share_on_front']:.2f})"
        title = title_of(point["run"], point["method"])
        yield _row(title, _show(point["f1"]), _show(point["tokens"], ",.0f"), front)


def _brier_lines(probability: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## How likely lean's answers are right, and what it says of them\n"
    yield ("Raw is the probability of the draft's least likely token. Lower Brier scores are better.\n")
    yield from _head(
        *("", "n", "right", "Brier, lean", "Brier, raw", "lean minus raw", "of saying the share", "AUC"),
        *(f"at {DECLINE_BELOW} or above", "right of these"),
    )
    for name, each in probability.items():
        yield _row(
            name,
            str(each["n"]),
            f"{each['right']:.3f}",
            *_show_sides(each["brier"]),
            *(
                "" if each[key] is None else f"{each[key]:.3f}"
                for key in ("brier_share", "auc", "given", "right_of_given")
            ),
        )


def _risk_lines(probability: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Risk and coverage: how many of the surest answers are wrong\n"
    yield (
        "The area under the curve of risk and coverage is the share of wrong answers at each answer's own threshold, "
        "on average. Lower is better; intervals resample questions within their set.\n"
    )
    yield "![Risk and coverage](decide_risk.png)\n"
    yield from _head(
        *("", "n", "wrong of all", "of the surest half, lean", "raw", "lean minus raw"),
        *("area under the curve, lean", "raw", "lean minus raw"),
    )
    for name, each in probability.items():
        sides = (*_show_sides(each["wrong_of_surest_half"]), *_show_sides(each["area_under_risk"]))
        yield _row(name, str(each["n"]), f"{1.0 - each['right']:.3f}", *sides)


def _show_sides(compared: Mapping[str, Any]) -> tuple[str, str, str]:
    return _show(compared["lean"]), _show(compared["raw"]), _show(compared["difference"], "+.3f")


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" * len(names) + "|"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  | ", "| | ") if not cells[0] else f"| {' | '.join(cells)} |"


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _show(held: Mapping[str, Any], form: str = ".3f") -> str:
    if held["low"] is None:
        return f"{held['value']:{form}}"
    mark = _FEW if held["few"] else ""
    return f"{held['value']:{form}} ({held['low']:{form}} to {held['high']:{form}}){mark}"
