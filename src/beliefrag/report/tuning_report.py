"""A tuning in sentences and tables, for the terminal and for its page."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.calibration.tuning import OperatingPoint, Tuning, TuningGoal, UnknownPoint
from beliefrag.calibration.tuning.recorded_decisions import MissingStep, advise_collection
from beliefrag.policy import Thresholds
from beliefrag.report.page import Block, CodeBlock, Heading, Page, Paragraph, Picture
from beliefrag.report.run_report import format_interval
from beliefrag.report.table import Table
from beliefrag.runs.partitions import Partition
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEASURES
from beliefrag.types import Action

__all__ = [
    "choice_sentences",
    "comparison_table",
    "decisions_table",
    "describe_goal",
    "drop_constant_columns",
    "frontier_table",
    "status_line",
    "thresholds_toml",
    "tuning_page",
    "unknown_points_table",
]

_SWEPT = ("answer", "retrieval_value", "novelty", "correct_conflict", "correct_unreliable", "correct_flagged")


def status_line(tuning: Tuning) -> str:
    """Says how many questions choose, check and fit, and first of all whether some are missing."""
    recorded = tuning.recorded
    missing = recorded.expected - recorded.found
    start = f"INCOMPLETE: {missing:,} of {recorded.expected:,} questions have no recording. " if missing else ""
    sizes = {part: recorded.size(part) for part in Partition}
    return (
        f"{start}{sizes[Partition.XSEL]:,} questions choose (xsel), {sizes[Partition.XHOLD]:,} are held out to check "
        f"the choice (xhold), {sizes[Partition.XFIT]:,} are left to fitting (xfit)."
    )


def decisions_table(tuning: Tuning) -> Table:
    """Lists which other decisions the recorded states can answer for."""
    rows = [(each.decision, each.known, each.reason) for each in tuning.decisions]
    return Table.of_texts("decisions", "", ("decision", "is its result known?", "because"), rows)


def unknown_points_table(tuning: Tuning) -> Table:
    """Groups the operating points without a result by the step that nobody recorded."""
    groups: dict[tuple[MissingStep, Action, float | None], list[UnknownPoint]] = defaultdict(list)
    for point in tuning.unknown_points:
        missing, action = point.main_missing_step
        about_novelty = missing in (MissingStep.REWRITING, MissingStep.NO_REWRITING)
        groups[missing, action, point.thresholds.novelty if about_novelty else None].append(point)
    rows: list[tuple[str, ...]] = []
    for (missing, action, _), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0][:2])):
        counts = sorted(point.affected for point in group)
        span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        advice = advise_collection(missing, group[0].thresholds.novelty)
        rows.append((f"{len(group):,}", f"{span} of {group[0].questions}", str(action), str(missing), advice))
    headings = ("points", "questions without a result", "at", "the missing step", "what to collect")
    return Table.of_texts("unknown_points", "", headings, rows)


def drop_constant_columns(table: Table, *names: str) -> tuple[Table, str]:
    """Drops those of the named columns that say the same in every row, and gives what they say in words."""
    headings, rows = table.headings, table.texts
    values = {name: {row[headings.index(name)] for row in rows} for name in names}
    constant = {name: each.pop() for name, each in values.items() if len(each) == 1}
    kept = [place for place, name in enumerate(headings) if name not in constant]
    words = ", ".join(f"{name} {value}" for name, value in constant.items())
    narrow = [tuple(row[place] for place in kept) for row in rows]
    return Table.of_texts(table.name, table.title, (headings[place] for place in kept), narrow), words


def frontier_table(tuning: Tuning) -> Table:
    """Lists the points on the frontier, on the questions that choose, and the current thresholds."""
    title = MEASURES[tuning.recorded.measure]
    axes = ("answer", "retrieval", "novelty", "corrections")
    headings = (*axes, title, f"{title} 95 %", "tokens", "tokens 95 %", "rounds", "abstained", "mark")
    rows = [_point_row(point, _mark(point, tuning)) for point in tuning.frontier]
    on_frontier = any(tuning.current.thresholds == point.thresholds for point in tuning.frontier)
    if isinstance(tuning.current, OperatingPoint) and not on_frontier:
        rows.append(_point_row(tuning.current, "current"))
    return Table.of_texts("frontier", "", headings, rows)


def comparison_table(tuning: Tuning) -> Table:
    """Sets the chosen point beside the current thresholds, on both parts."""
    title = MEASURES[tuning.recorded.measure]
    rows: list[tuple[str, ...]] = []
    if tuning.chosen:
        rows += [_result_row("xsel", "chosen", tuning.chosen), _result_row("xsel", "current", tuning.current)]
    if check := tuning.held_out_check:
        rows += [_result_row("xhold", "chosen", check.chosen), _result_row("xhold", "current", check.current)]
        if gaps := check.differences:
            cells = (*_difference("f1", gaps["quality"]), *_difference("tokens", gaps["tokens"]))
            rows.append(("xhold", "difference", str(gaps["quality"].questions), *cells, "", ""))
    headings = ("part", "point", "n", title, f"{title} 95 %", "tokens", "tokens 95 %", "rounds", "abstained")
    return Table.of_texts("comparison", "", headings, rows)


def describe_goal(goal: TuningGoal, title: str) -> str:
    """Says what was asked for; `title` names the measure of quality."""
    if goal.max_tokens is not None:
        return f"the greatest {title} at no more than {goal.max_tokens:,.0f} tokens per question"
    return f"the fewest tokens with {title} at no less than {goal.min_quality:g}"


def choice_sentences(tuning: Tuning) -> Iterator[str]:
    """Says which point was chosen and for what; or that none was, or that it could not be checked, and why."""
    title = MEASURES[tuning.recorded.measure]
    if tuning.goal is None:
        yield "Nothing was chosen: give --max-tokens or --min-f1."
        return
    goal = describe_goal(tuning.goal, title)
    if tuning.chosen is None:
        cheapest, best = tuning.frontier[0], tuning.frontier[-1]
        by_tokens = tuning.goal.max_tokens is not None
        nearest = (
            f"the cheapest takes {cheapest.tokens:,.0f} tokens" if by_tokens else f"the best has {best.quality:.3f}"
        )
        yield f"No point gives {goal}: {nearest}."
        return
    yield (
        f"Chosen on xsel for {goal}. Its figures on xsel are too good, because it was chosen by them. "
        "Nothing was chosen on xhold."
    )
    if tuning.held_out_check is None:
        yield "The choice is not checked: the run has no xhold question."
        return
    check = tuning.held_out_check
    for name, found in (("chosen point", check.chosen), ("current thresholds", check.current)):
        if isinstance(found, UnknownPoint):
            missing, action = found.main_missing_step
            yield (
                f"The result of the {name} on xhold is not known: for {found.affected} of {found.questions} questions "
                f"the recording lacks a step at {action}: {missing}. "
                f"{advise_collection(missing, found.thresholds.novelty)}"
            )


def thresholds_toml(thresholds: Thresholds, calibration: str) -> str:
    """Gives the thresholds for the settings file: those that were swept, and all others that are not the default."""
    # The name is somebody's text, and a comment in TOML holds no control characters.
    name = "".join(character if character.isprintable() else "?" for character in calibration)
    lines = [f"# chosen with the calibration {name}", "[thresholds]"]
    for field in fields(Thresholds):
        value = getattr(thresholds, field.name)
        if field.name != "merge_rewriter" and (field.name in _SWEPT or value != field.default):
            lines.append(f"{field.name} = {json.dumps(value)}")
    if not thresholds.merge_rewriter:
        lines += ["", "[correction]", 'rewriter = "apart"']
    return "\n".join(lines) + "\n"


def tuning_page(tuning: Tuning, picture: Path) -> Page:
    """Gives the page: what was found, which points have no known result and why, and the settings to use."""
    about = [("model", tuning.recorded.run.model), ("calibration", tuning.artifact.name)]
    about += [("note", note) for note in tuning.notes]
    blocks: list[Block] = [
        Table.of_texts("about", "", ("what", "which"), about),
        Heading("Which decisions the recorded states can answer for"),
        decisions_table(tuning),
        Heading("The frontier, on xsel"),
        frontier_table(tuning),
        Picture(picture, picture.name, "answer quality against tokens"),
    ]
    if tuning.unknown_points:
        blocks += [Heading("Points without a result, because a step was not recorded"), unknown_points_table(tuning)]
    blocks += [Heading("The choice"), Paragraph(" ".join(choice_sentences(tuning)))]
    if tuning.chosen:
        settings = thresholds_toml(tuning.chosen.thresholds, tuning.artifact.name)
        blocks += [comparison_table(tuning), CodeBlock(settings, "toml")]
    complete = tuning.recorded.expected == tuning.recorded.found
    return Page("Operating points from recorded states", tuple(blocks), status_line(tuning), complete)


def _point_row(point: OperatingPoint, mark: str) -> tuple[str, ...]:
    t = point.thresholds
    corrections = "on" if has_corrections(t) else "off"
    return (f"{t.answer:g}", f"{t.retrieval_value:g}", f"{t.novelty:g}", corrections, *_cells(point), mark)


def _result_row(part: str, name: str, found: OperatingPoint | UnknownPoint) -> tuple[str, ...]:
    if isinstance(found, UnknownPoint):
        return (part, name, str(found.questions), "not known", *("-",) * 5)
    return (part, name, str(found.means["quality"].questions), *_cells(found))


def _cells(point: OperatingPoint) -> tuple[str, ...]:
    means = point.means
    return (
        f"{means['quality'].value:.3f}",
        _narrow_interval("f1", means["quality"]),
        f"{means['tokens'].value:,.0f}",
        _narrow_interval("tokens", means["tokens"]),
        f"{means['rounds'].value:.2f}",
        f"{means['abstained'].value:.1%}",
    )


def _narrow_interval(measure: str, estimate: Estimate) -> str:
    # A frontier has many columns. No value here is below zero, so a dash cannot be read as a minus.
    return format_interval(measure, estimate).replace(" to ", "–").replace(" ?", "?")


def _difference(measure: str, gap: Estimate) -> tuple[str, str]:
    digits = ",.0f" if measure == "tokens" else ".3f"
    if gap.low is None or gap.high is None:
        return f"{gap.value:+{digits}}", "-"
    few = "?" if gap.has_few_questions else ""
    return f"{gap.value:+{digits}}", f"{gap.low:+{digits}} to {gap.high:+{digits}}{few}"


def _mark(point: OperatingPoint, tuning: Tuning) -> str:
    marks = ["chosen"] if point is tuning.chosen else []
    is_current = isinstance(tuning.current, OperatingPoint) and tuning.current.thresholds == point.thresholds
    return ", ".join(marks + (["current"] if is_current else []))
