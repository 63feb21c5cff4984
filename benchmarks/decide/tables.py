"""Writes the tables of the comparison that matter, as the last part of its page; decide.json has all numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beliefrag.runs.statistics import MIN_QUESTIONS
from beliefrag.settings import DECLINE_BELOW
from benchmarks.decide.numbers import FEWEST, title_of
from benchmarks.decide.probability import ALL
from benchmarks.find.mixed_corpus import MULTI_HOP

__all__ = ["MARK", "format_tables", "write_page"]

MARK = "<!-- What follows was written by benchmarks/decide/tables.py. -->"


def write_page(numbers: Mapping[str, Any], page: Path) -> None:
    """Put the tables in the place of the last part of a page."""
    kept = page.read_text("utf-8").partition(MARK)[0] if page.exists() else ""
    page.write_text(f"{kept.rstrip()}\n\n{MARK}\n\n{format_tables(numbers)}\n", encoding="utf-8")


def format_tables(numbers: Mapping[str, Any]) -> str:
    """Return all tables as one text."""
    return "\n".join(_lines(numbers))


def _lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield "## F1 and tokens, mean of the three multi-hop sets\n"
    yield from _head("", "n", "F1", "tokens")
    for row in numbers["rows"]:
        mean = row["multi_hop"]
        if mean and not mean["f1"]["few"]:
            counts = {name: row["datasets"][name]["n"] for name in MULTI_HOP}
            yield _row(row["title"], _counts(counts), _show(mean["f1"]), f"{mean['tokens']['value']:,.0f}")
    yield "\n## Lean minus the other, paired, on the questions that both have\n"
    yield from _head("against", "n", "F1", "share of its tokens")
    for each in numbers["differences"]:
        if not each["f1"]["few"]:
            shown = _show(each["f1"], "+.3f"), _show(each["token_ratio"], ".2f")
            yield _row(title_of(*each["second"]), _counts(each["n"]), *shown)
    if numbers["frontier"]:
        yield from _frontier_lines(numbers["frontier"])
    if numbers["probability"]:
        yield from _probability_lines(numbers["probability"][ALL])
    if numbers["failed"]:
        yield f"\nFailed and not scored: {_list_counts(numbers['failed'])}."
    if numbers["too_few"]:
        yield f"\nIn no table, with fewer than {FEWEST} questions: {_list_counts(numbers['too_few'])}."


def _frontier_lines(frontier: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## All methods on the same few questions, cheapest first\n"
    yield (
        f"Intervals of fewer than {MIN_QUESTIONS} questions are too narrow to be trusted (n {_counts(frontier['n'])}). "
        "The last column is the share of resamples in which no other is as good for less.\n"
    )
    yield from _head("", "F1", "tokens", "best for its tokens")
    for point in frontier["points"]:
        tokens, share = f"{point['tokens']['value']:,.0f}", f"{point['share_on_front']:.2f}"
        yield _row(title_of(point["run"], point["method"]), _show(point["f1"]), tokens, share)


def _probability_lines(told: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## How good lean's probability is\n"
    yield f"All six sets, n {told['n']}. Raw is the probability of the draft's least likely token.\n"
    yield from _head("", "lean", "raw", "lean minus raw")
    yield _row("Brier score", *_show_sides(told["brier"]))
    yield _row("wrong answers among the surest half", *_show_sides(told["wrong_of_surest_half"]))
    yield _row("area under risk and coverage", *_show_sides(told["area_under_risk"]))
    alone = {
        "right answers": "right",
        "AUC": "auc",
        f"drafts at {DECLINE_BELOW} or above": "given",
        "right of these": "right_of_given",
    }
    for words, name in alone.items():
        yield _row(words, f"{told[name]:.3f}", "", "")
    yield "\n![Risk and coverage](decide_risk.png)"


def _show_sides(compared: Mapping[str, Any]) -> tuple[str, str, str]:
    return _show(compared["lean"]), _show(compared["raw"]), _show(compared["difference"], "+.3f")


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" * len(names) + "|"


def _row(*cells: str) -> str:
    return f"|{'|'.join(cells)}|"


def _counts(counts: Mapping[str, int]) -> str:
    return "/".join(str(counts.get(name, "-")) for name in MULTI_HOP)


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _show(held: Mapping[str, Any], form: str = ".3f") -> str:
    if held["low"] is None:
        return f"{held['value']:{form}}"
    return f"{held['value']:{form}} ({held['low']:{form}} to {held['high']:{form}})"
