"""Shows how two methods compare."""

from __future__ import annotations

from collections.abc import Sequence

from beliefrag.cli.output import print_notice, print_table
from beliefrag.methods import METHODS
from beliefrag.runs.cells import MEASURES
from beliefrag.runs.paired import DatasetComparison
from beliefrag.runs.statistics import Difference

__all__ = ["print_comparison"]

_NAMED = 5
"""So many of the questions that are left out are named."""


def print_comparison(found: Sequence[DatasetComparison], first: str, second: str) -> None:
    """Prints one line per dataset and measure."""
    one, other = METHODS.title(first), METHODS.title(second)
    rows = []
    for each in found:
        rows += [
            (each.dataset, str(each.paired.questions), MEASURES[name], *_cells(name, each.paired.measures[name]))
            for name in (each.quality, "tokens")
        ]
        if each.paired.better_and_cheaper is not None:
            share = f"{each.paired.better_and_cheaper:.1%}"
            rows.append(
                (
                    each.dataset,
                    str(each.paired.questions),
                    "better and cheaper",
                    "",
                    "",
                    share,
                    "",
                    "share of resamples",
                )
            )
        if each.paired.left_out:
            print_notice(f"warning: {each.dataset}: {_left_out(each.paired.left_out)}; only one side has them")
    print_table(("dataset", "n", "measure", one, other, "difference", "95 %", "reading"), rows)


def _left_out(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    named = ", ".join(f"{each:.60}" for each in ids[:_NAMED])
    return f"{len(ids):,} questions are left out ({named}{more})"


def _cells(name: str, difference: Difference) -> tuple[str, ...]:
    digits = ",.0f" if name == "tokens" else ".3f"
    gap = difference.difference
    between = "-" if gap.low is None or gap.high is None else f"{gap.low:+{digits}} to {gap.high:+{digits}}"
    reading = (
        "clear"
        if difference.is_clear
        else "too few questions to say"
        if gap.has_few_questions
        else "the interval holds zero"
    )
    return f"{difference.first:{digits}}", f"{difference.second:{digits}}", f"{gap.value:+{digits}}", between, reading
