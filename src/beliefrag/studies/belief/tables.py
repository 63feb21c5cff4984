"""The belief study's numbers as tables and as plain values."""

from __future__ import annotations

from collections.abc import Iterator

from beliefrag.studies.belief.found import Found
from beliefrag.studies.belief.permutation import Permuted
from beliefrag.studies.result import CellValue, Column, Table
from beliefrag.types import Action

__all__ = ["numbers", "tables"]

_SINGLE = "strongest single one on other questions"
_GATE = "right among states that pass the answer gate"


def tables(found: Found) -> Iterator[Table]:
    """All tables, in the order of the page."""
    yield Table(
        "auc",
        "How well each signal tells right from wrong states",
        (Column("signal"), Column("AUC", bounded=True)),
        (*found.signals.items(), *([(_SINGLE, found.held_out.single)] if found.held_out else [])),
        "Half is no signal; below half it points the wrong way. That of all jointly, and of the strongest one on other "
        "questions, is taken within parts of held-out questions.",
    )
    yield _permutations(found)
    yield Table(
        "correlations",
        "How the dimensions hang together",
        (Column("one"), Column("other"), Column("rank correlation", digits=2, bounded=True)),
        tuple((one, other, number) for (one, other), number in found.correlations.items()),
        "Spearman's; a dash where one of the two hardly varies.",
    )
    yield Table(
        "calibration",
        "Expected calibration error",
        (Column("score"), Column("ECE"), Column("by chance", "mean"), Column("by chance at most", "95 %")),
        tuple((name, each.ece, each.chance, each.chance_most) for name, each in found.calibration.items()),
        "By chance: what a score that is calibrated to the letter would show on as many states.",
    )
    yield Table(
        "reliability",
        "Reliability curves",
        (
            Column("score"),
            Column("from", digits=1),
            Column("to", digits=1),
            Column("states"),
            Column("weight", "share", digits=2),
            Column("mean score"),
            Column("right", "share"),
        ),
        tuple(
            (name, b.low, b.high, b.states, b.share, b.predicted, b.observed)
            for name, each in found.calibration.items()
            for b in each.curve
        ),
    )
    yield _actions(found)


def _permutations(found: Found) -> Table:
    columns = (
        Column("score"),
        Column("number"),
        Column("observed"),
        Column("permuted", "mean"),
        Column("permuted low"),
        Column("permuted high"),
        Column("p", digits=4),
    )
    rows = [_permuted(name, "AUC", each) for name, each in found.permuted.items()]
    if found.gate is not None:
        rows.append(_permuted("answerability", _GATE, found.gate))
    note = (
        "On the first state of each question and round. Low and high hold 95 % of the permutations; p is one-sided and "
        "not corrected for looking at several scores."
    )
    return Table("permutation", "Scores exchanged between matched states", columns, tuple(rows), note)


def _permuted(name: str, number: str, each: Permuted) -> tuple[CellValue, ...]:
    return (name, number, each.observed, each.mean, each.low, each.high, each.p)


def _actions(found: Found) -> Table:
    columns = (
        Column("dimension"),
        Column("level"),
        Column("from"),
        Column("to"),
        Column("states"),
        *(Column(action.value, "share", digits=2) for action in Action),
    )
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (level.dimension, level.name, level.low, level.high, level.states, *(level.share(a) for a in Action))
        for level in found.levels
    )
    return Table("actions", "What was done next, by belief level", columns, rows)


def numbers(found: Found) -> dict[str, object]:
    """The same as plain values."""
    return {
        "auc": dict(found.signals),
        "best_single": found.best,
        "joint_auc_of_a_fit_that_has_seen_the_states": found.joint_seen,
        "best_single_on_questions_it_was_not_picked_on": found.held_out.single if found.held_out else None,
        "joint_minus_that_single": found.held_out.difference if found.held_out else None,
        "answerability_rises_with": found.rises_with or None,
        "correlations": [
            {"one": one, "other": other, "rank_correlation": number}
            for (one, other), number in found.correlations.items()
        ],
        "ece": {
            name: {"value": each.ece, "by_chance": each.chance, "by_chance_at_most": each.chance_most}
            for name, each in found.calibration.items()
        },
        "permutation": {
            "matched_on": ["dataset", "round", *(["retained"] if found.match.on_retained else [])],
            "questions": found.match.questions,
            "with_partner": found.match.with_partner,
            "auc": {name: each.record() for name, each in found.permuted.items()},
            "right_among_passed": found.gate.record() if found.gate else None,
        },
        "actions": [
            {
                "dimension": level.dimension,
                "level": level.name,
                "states": level.states,
                "shares": {action.value: level.share(action) for action in Action},
            }
            for level in found.levels
        ],
    }
