"""The thresholds study's numbers as tables and as plain values."""

from __future__ import annotations

from collections.abc import Iterator

from beliefrag.studies.result import Column, Table
from beliefrag.studies.thresholds.found import Found

__all__ = ["numbers", "tables"]

ALL = "all"


def tables(found: Found) -> Iterator[Table]:
    """All tables, in the order of the page."""
    yield _scales_table(found)
    yield from _spreads_table(found)
    yield _gates_table(found)
    yield _reach_table(found)


def _scales_table(found: Found) -> Table:
    columns = (
        Column("dataset"),
        Column("questions"),
        Column("states"),
        Column("raw median", bounded=True),
        Column("calibrated median", bounded=True),
        Column("raw below threshold", "share of states", bounded=True),
        Column("calibrated below threshold", "share of states", bounded=True),
    )
    rows = tuple(
        (
            name or ALL,
            found.visited.count(name),
            int(found.visited.inside(name).sum()),
            found.raw[name].median,
            found.calibrated[name].median,
            found.raw[name].below,
            found.calibrated[name].below,
        )
        for name in (*found.datasets, None)
    )
    note = "Raw is the belief's sufficiency, calibrated the fitted answerability; the threshold is that of answering."
    return Table("scales", "Answerability by dataset", columns, rows, note)


def _spreads_table(found: Found) -> Iterator[Table]:
    words = {
        "raw": "medians, raw",
        "calibrated": "medians, calibrated",
        "difference": "medians, calibrated minus raw",
        "raw_below_threshold": "quantile of the answer threshold, raw",
        "calibrated_below_threshold": "quantile of the answer threshold, calibrated",
    }
    if found.spreads:
        rows = tuple((words[name], number) for name, number in found.spreads.items())
        columns = (Column("of"), Column("spread", bounded=True))
        yield Table("spreads", "Largest minus smallest over the datasets", columns, rows)


def _gates_table(found: Found) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("opens"),
        Column("states"),
        Column("holds", "share of states", bounded=True),
        Column("decides", "share of states", bounded=True),
    )
    rows = tuple(
        (each.dataset or ALL, each.gate.name, each.gate.opens, each.states, each.share, each.decides)
        for each in found.gates
    )
    note = (
        "Holds: its condition is met, whatever comes before it in the policy. Decides: the policy decided by it. No "
        "interval where all states are alike."
    )
    return Table("gates", "How often each gate fires on visited states", columns, rows, note)


def _reach_table(found: Found) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("reached"),
        Column("nearest or furthest beyond"),
        Column("at most", "share of questions, 95 %", digits=3),
    )
    rows = tuple(
        (
            each.dataset or ALL,
            each.gate.name,
            "never" if each.never else "always" if each.always else f"at {each.times} of {each.states} states",
            "; ".join(map(str, each.nearest)),
            each.at_most,
        )
        for each in found.gates
    )
    note = (
        "For a gate that was never reached, the last column bounds the share of questions on which it would be: with a "
        "larger one, seeing none among so many would happen less than once in twenty times."
    )
    return Table("reachability", "Which gates can be reached", columns, rows, note)


def numbers(found: Found) -> dict[str, object]:
    """The same as plain values."""
    return {
        "datasets": {
            name or ALL: {
                "questions": found.visited.count(name),
                "states": int(found.visited.inside(name).sum()),
                "raw_median": found.raw[name].median,
                "calibrated_median": found.calibrated[name].median,
                "raw_below_threshold": found.raw[name].below,
                "calibrated_below_threshold": found.calibrated[name].below,
            }
            for name in (*found.datasets, None)
        },
        "spreads": dict(found.spreads),
        "gates": [
            {
                "dataset": each.dataset or ALL,
                "gate": each.gate.name,
                "states": each.states,
                "times": each.times,
                "holds": each.share,
                "decides": each.decides,
                "nearest": [
                    {"what": c.what, "value": c.value, "needs": c.relation, "threshold": c.threshold}
                    for c in each.nearest
                ],
            }
            for each in found.gates
        ],
        "never_reached": [each.gate.name for each in found.pooled if each.never],
        "always_reached": [each.gate.name for each in found.pooled if each.always],
    }
