"""The frontier study's numbers as tables, as plain values, and beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from beliefrag.methods import METHODS
from beliefrag.report.published import published_tables
from beliefrag.runs.statistics import PairedComparison
from beliefrag.studies.frontier.compared import Compared, Point
from beliefrag.studies.result import Beside, Column, Table
from beliefrag.studies.study import StudyOptions

__all__ = ["numbers", "pairs_table", "points_table", "published"]


def points_table(points: Mapping[str, list[Point]], shares: Mapping[str, Mapping[str, float]]) -> Table:
    """F1 and tokens of each method, and whether it is on the front."""
    columns = (
        Column("dataset"),
        Column("method"),
        Column("F1", bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
        Column("on the front"),
        Column("resamples on the front", "share", digits=2),
    )
    rows = tuple(
        (place, METHODS.title(p.method), p.f1, p.tokens, "yes" if p.front else "no", shares[place][p.method])
        for place, each in points.items()
        for p in each
    )
    note = "On the front: no other method is as cheap and as good, and cheaper or better."
    return Table("points", "F1 and tokens of each method", columns, rows, note)


def pairs_table(pairs: Mapping[tuple[str, str], PairedComparison], asked: StudyOptions) -> Table:
    """The paired differences."""
    columns = (
        Column("dataset"),
        Column("against"),
        Column("F1 difference", bounded=True),
        Column("tokens difference", "per question", digits=0, bounded=True),
        Column("better and cheaper", "share of resamples", digits=3),
        Column("n", "questions"),
    )
    rows = tuple(
        (
            place,
            METHODS.title(other),
            pair.measures["f1"].difference.without_flat_interval(),
            pair.measures["tokens"].difference.without_flat_interval(),
            pair.better_and_cheaper,
            pair.questions,
        )
        for (place, other), pair in pairs.items()
    )
    title = f"{METHODS.title(asked.of)} minus each other method, on the same questions"
    return Table("differences", title, columns, rows, "10,000 paired resamples.")


def numbers(
    points: Mapping[str, list[Point]],
    shares: Mapping[str, Mapping[str, float]],
    pairs: Mapping[tuple[str, str], PairedComparison],
    asked: StudyOptions,
) -> dict[str, object]:
    """The same as plain values."""
    return {
        "of": asked.of,
        "points": {
            place: {
                p.method: {
                    "f1": p.f1,
                    "tokens": p.tokens,
                    "on_front": p.front,
                    "share_on_front": shares[place][p.method],
                }
                for p in each
            }
            for place, each in points.items()
        },
        "differences": [
            {
                "dataset": place,
                "against": other,
                "f1": pair.measures["f1"].difference.without_flat_interval(),
                "tokens": pair.measures["tokens"].difference.without_flat_interval(),
                "better_and_cheaper": pair.better_and_cheaper,
                "n": pair.questions,
            }
            for (place, other), pair in pairs.items()
        ],
    }


def published(found: Compared) -> Iterator[Beside]:
    """The paper's means and its F1 on the datasets that are here, each with ours."""
    tables = published_tables()
    f1, tokens = tables["gpt_oss_f1"], tables["gpt_oss_main_tokens"]
    place = found.places()[0]
    for method in found.methods:
        if method not in f1.rows:
            continue
        ours = {name: found.estimate(method, place, name) for name in ("f1", "tokens")}
        if (theirs := f1.rows[method].mean) is not None:
            yield Beside(f"{METHODS.title(method)}, mean F1", theirs, ours["f1"].without_flat_interval())
        if (theirs := tokens.rows[method].mean) is not None:
            t = ours["tokens"]
            low, high = (None if side is None else side / 1000 for side in (t.low, t.high))
            number = replace(t, value=t.value / 1000, low=low, high=high)
            yield Beside(f"{METHODS.title(method)}, thousand tokens per question", theirs, number, digits=2)
    for dataset in found.datasets:
        for method in found.methods:
            if (theirs := f1.value(method, dataset)) is not None:
                ours_here = found.estimate(method, dataset, "f1").without_flat_interval()
                yield Beside(f"{METHODS.title(method)}, F1 on {dataset}", theirs, ours_here)
