"""A tuning in words and tables, for the terminal and for the report alike."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields

from beliefrag.calibration.tuning.decisions import Departure, what_to_collect
from beliefrag.calibration.tuning.grid import corrects
from beliefrag.calibration.tuning.select import Goal
from beliefrag.calibration.tuning.sweep import Point, Refusal
from beliefrag.calibration.tuning.tune import Tuning
from beliefrag.policy import Thresholds
from beliefrag.report.run_report import format_interval
from beliefrag.runs.cells import MEASURES
from beliefrag.runs.samples import Partition
from beliefrag.runs.statistics import Estimate
from beliefrag.types import Action

__all__ = [
    "comparison_table",
    "first_line",
    "frontier_table",
    "goal_words",
    "moves_table",
    "narrow",
    "refusals_table",
    "settings_toml",
    "verdict",
]

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Headings and rows."""

_SWEPT = ("answer", "retrieval_value", "novelty", "correct_conflict", "correct_unreliable", "correct_flagged")


def first_line(tuning: Tuning) -> str:
    """Which questions do what, and first of all whether some are missing."""
    recorded = tuning.recorded
    missing = recorded.expected - recorded.found
    start = f"INCOMPLETE: {missing:,} of {recorded.expected:,} questions have no recording. " if missing else ""
    sizes = {part: recorded.size(part) for part in Partition}
    return (
        f"{start}{sizes[Partition.XSEL]:,} questions choose (xsel), {sizes[Partition.XHOLD]:,} are held out to check "
        f"the choice (xhold), {sizes[Partition.XFIT]:,} are left to fitting (xfit)."
    )


def moves_table(tuning: Tuning) -> Table:
    """What the recorded states can answer for."""
    return ("move", "can be told", "because"), [(move.what, move.told, move.why) for move in tuning.moves]


def refusals_table(tuning: Tuning) -> Table:
    """The refused points, put together by what they ask for that nobody recorded."""
    groups: dict[tuple[Departure, Action, float | None], list[Refusal]] = defaultdict(list)
    for refusal in tuning.refusals:
        departed, action = refusal.main
        about_novelty = departed in (Departure.REWRITING, Departure.NO_REWRITING)
        groups[departed, action, refusal.thresholds.novelty if about_novelty else None].append(refusal)
    rows: list[tuple[str, ...]] = []
    for (departed, action, _), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0][:2])):
        counts = sorted(refusal.leaving for refusal in group)
        span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        collect = what_to_collect(departed, group[0].thresholds.novelty)
        rows.append((f"{len(group):,}", f"{span} of {group[0].questions}", str(action), str(departed), collect))
    return ("points refused", "questions that leave the record", "at", "asking for", "to be told"), rows


def narrow(table: Table, *columns: str) -> tuple[Table, str]:
    """The table without those of the columns that say the same on every row, and what they say; empty if nothing."""
    headings, rows = table
    same = {name: {row[headings.index(name)] for row in rows} for name in columns}
    constant = {name: values.pop() for name, values in same.items() if len(values) == 1}
    kept = [place for place, name in enumerate(headings) if name not in constant]
    words = ", ".join(f"{name} {value}" for name, value in constant.items())
    return (tuple(headings[place] for place in kept), [tuple(row[place] for place in kept) for row in rows]), words


def frontier_table(tuning: Tuning) -> Table:
    """The points that are worth having, on the questions that choose."""
    title = MEASURES[tuning.recorded.measure]
    axes = ("answer", "retrieval", "novelty", "corrections")
    headings = (*axes, title, f"{title} 95 %", "tokens", "tokens 95 %", "rounds", "abstained", "mark")
    rows = [_point_row(point, _mark(point, tuning)) for point in tuning.frontier]
    if isinstance(tuning.own, Point) and not any(_same(tuning.own, point) for point in tuning.frontier):
        rows.append(_point_row(tuning.own, "current"))
    return headings, rows


def comparison_table(tuning: Tuning) -> Table:
    """The chosen point beside the run's own thresholds, on both parts."""
    title = MEASURES[tuning.recorded.measure]
    rows: list[tuple[str, ...]] = []
    if tuning.chosen:
        rows += [_result_row("xsel", "chosen", tuning.chosen), _result_row("xsel", "current", tuning.own)]
    if tuning.checked:
        rows += [_result_row("xhold", "chosen", tuning.checked.chosen)]
        rows += [_result_row("xhold", "current", tuning.checked.own)]
        if gaps := tuning.checked.differences:
            cells = (_difference("f1", gaps["quality"]), _difference("tokens", gaps["tokens"]))
            rows.append(("xhold", "difference", str(gaps["quality"].questions), *cells[0], *cells[1], "", ""))
    headings = ("part", "point", "n", title, f"{title} 95 %", "tokens", "tokens 95 %", "rounds", "abstained")
    return headings, rows


def goal_words(goal: Goal, title: str) -> str:
    """What was asked for."""
    if goal.max_tokens is not None:
        return f"the greatest {title} at no more than {goal.max_tokens:,.0f} tokens per question"
    return f"the fewest tokens with {title} at no less than {goal.min_quality:g}"


def verdict(tuning: Tuning) -> Iterator[str]:
    """What came of the choice, in sentences: that there is none, or that it could not be checked, and why."""
    title = MEASURES[tuning.recorded.measure]
    if tuning.goal is None:
        yield "Nothing was chosen: give --max-tokens or --min-f1."
        return
    wanted = goal_words(tuning.goal, title)
    if tuning.chosen is None:
        cheapest, best = tuning.frontier[0], tuning.frontier[-1]
        by_tokens = tuning.goal.max_tokens is not None
        nearest = (
            f"the cheapest takes {cheapest.tokens:,.0f} tokens" if by_tokens else f"the best has {best.quality:.3f}"
        )
        yield f"No point gives {wanted}: {nearest}."
        return
    yield f"Chosen on xsel for {wanted}. Its xsel figures flatter it, for it was chosen by them; xhold was not seen."
    if tuning.checked is None:
        yield "The choice is not checked: the run has no xhold question."
        return
    for name, found in (("chosen point", tuning.checked.chosen), ("current thresholds", tuning.checked.own)):
        if isinstance(found, Refusal):
            departed, action = found.main
            yield (
                f"The {name} cannot be told on xhold: {found.leaving} of {found.questions} questions leave the record "
                f"at {action}, {departed}. {what_to_collect(departed, found.thresholds.novelty)}"
            )


def settings_toml(thresholds: Thresholds, calibration: str) -> str:
    """The thresholds for the settings file: those that were swept, and whatever else is not at its default."""
    # The name is somebody's text, and a comment in TOML holds no control characters.
    name = "".join(character if character.isprintable() else "?" for character in calibration)
    lines = [f"# chosen with the calibration {name}", "[thresholds]"]
    for field in fields(Thresholds):
        value = getattr(thresholds, field.name)
        if field.name in _SWEPT or value != field.default:
            lines.append(f"{field.name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _point_row(point: Point, mark: str) -> tuple[str, ...]:
    t = point.thresholds
    return (f"{t.answer:g}", f"{t.retrieval_value:g}", f"{t.novelty:g}", _on(corrects(t)), *_cells(point), mark)


def _result_row(part: str, name: str, found: Point | Refusal) -> tuple[str, ...]:
    if isinstance(found, Refusal):
        return (part, name, str(found.questions), "not known", *("-",) * 5)
    return (part, name, str(found.means["quality"].questions), *_cells(found))


def _cells(point: Point) -> tuple[str, ...]:
    means = point.means
    return (
        f"{means['quality'].value:.3f}",
        _between("f1", means["quality"]),
        f"{means['tokens'].value:,.0f}",
        _between("tokens", means["tokens"]),
        f"{means['rounds'].value:.2f}",
        f"{means['abstained'].value:.1%}",
    )


def _between(measure: str, estimate: Estimate) -> str:
    # Narrow, for a frontier has many columns. Nothing here is below zero, so that a dash cannot be a minus.
    return format_interval(measure, estimate).replace(" to ", "–").replace(" ?", "?")


def _difference(measure: str, gap: Estimate) -> tuple[str, str]:
    digits = ",.0f" if measure == "tokens" else ".3f"
    if gap.low is None or gap.high is None:
        return f"{gap.value:+{digits}}", "-"
    return (
        f"{gap.value:+{digits}}",
        f"{gap.low:+{digits}} to {gap.high:+{digits}}{'?' if gap.has_few_questions else ''}",
    )


def _mark(point: Point, tuning: Tuning) -> str:
    marks = ["chosen"] if point is tuning.chosen else []
    marks += ["current"] if isinstance(tuning.own, Point) and _same(tuning.own, point) else []
    return ", ".join(marks)


def _same(one: Point, other: Point) -> bool:
    return one.thresholds == other.thresholds


def _on(switch: bool) -> str:
    return "on" if switch else "off"
