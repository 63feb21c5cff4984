"""Writes the files of a tuning: numbers for programs, a page for people, and the figure of quality against tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.calibration.tuning import OperatingPoint, Tuning, TuningError, UnknownPoint
from beliefrag.policy import Thresholds
from beliefrag.report.figure import (
    MEAN_F1,
    CostPanel,
    CostPoint,
    draw_quality_against_tokens,
    open_figure,
    save_figure,
    shorten,
)
from beliefrag.report.table import CellValue, Column, Table
from beliefrag.report.tuning_report import choice_sentences, status_line, thresholds_toml, tuning_page
from beliefrag.runs.partitions import Partition
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEASURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_frontier", "points_table", "tuning_csv", "tuning_record", "write_tuning"]

_MEASURES = ("quality", "tokens", "rounds", "abstained")
_AXES = ("answer", "retrieval_value", "novelty", "corrections")
_QUALITY = {
    "f1": MEAN_F1,
    "exact_match": "answer quality: share of exact answers (higher is better)",
    "cover": "answer quality: share of answers that contain the right one (higher is better)",
    "judge": "answer quality: share that the judge calls right (higher is better)",
}


def write_tuning(tuning: Tuning, folder: Path) -> list[Path]:
    """Writes all files into a folder, over those of an earlier tuning.

    Raises:
        TuningError: They cannot be written.
    """
    pictures = [folder / "tune.png", folder / "tune.pdf"]
    texts = {
        "tune.json": json.dumps(tuning_record(tuning), indent=1, ensure_ascii=False) + "\n",
        "tune.csv": tuning_csv(tuning),
        "tune.md": tuning_page(tuning, pictures[0]).to_markdown(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        save_figure(draw_frontier(tuning), pictures)
    except OSError as error:
        raise TuningError(
            f"The tuning cannot be written to {folder}: {error.strerror}.", remedy="Name another folder with --out."
        ) from error
    return [*(folder / name for name in texts), *pictures]


def tuning_record(tuning: Tuning) -> dict[str, Any]:
    """Gives all that was found as plain values: the same run, calibration and options give the same record."""
    recorded, check = tuning.recorded, tuning.held_out_check
    return {
        "format": 1,
        "questions": {
            "expected": recorded.expected,
            "recorded": recorded.found,
            **{part.value: recorded.size(part) for part in Partition},
            "recordings_disagree": recorded.disagreeing,
            "datasets_left_out": list(recorded.left_out),
        },
        "model": recorded.run.model,
        "calibration": {"name": tuning.artifact.name, "contaminated": tuning.artifact.contaminated},
        "measure": recorded.measure,
        "summary": [status_line(tuning), *choice_sentences(tuning)],
        "notes": list(tuning.notes),
        "moves": [{"what": each.decision, "told": each.known, "why": each.reason} for each in tuning.decisions],
        "goal": asdict(tuning.goal) if tuning.goal else None,
        "current": {"thresholds": asdict(recorded.thresholds), "xsel": _result(tuning.current)},
        "chosen": _point(tuning.chosen) if tuning.chosen else None,
        "settings": thresholds_toml(tuning.chosen.thresholds, tuning.artifact.name) if tuning.chosen else None,
        "held_out": {
            "chosen": _result(check.chosen),
            "current": _result(check.current),
            "difference": {name: _estimate(gap) for name, gap in check.differences.items()} or None,
        }
        if check
        else None,
        "frontier": [_point(point) for point in tuning.frontier],
        "points": len(tuning.points),
        "refused": [{"thresholds": _axes(point.thresholds), **_result(point)} for point in tuning.unknown_points],
    }


def points_table(tuning: Tuning) -> Table:
    """Lists each operating point on xsel, also those without a result, and what was checked on xhold."""
    names = ("part", *_AXES, "frontier", "chosen", "current", "n")
    columns = (
        *map(Column, names),
        *(Column(name, bounded=True) for name in _MEASURES),
        *map(Column, ("leave_the_record", "asking_for", "at")),
    )
    front = {id(point) for point in tuning.frontier}
    rows = [_row(Partition.XSEL, each, tuning, int(id(each) in front)) for each in _every_point(tuning)]
    if check := tuning.held_out_check:
        rows += [_row(Partition.XHOLD, each, tuning, None) for each in (check.chosen, check.current)]
    return Table("tune", "Operating points", columns, tuple(rows))


def tuning_csv(tuning: Tuning) -> str:
    """Gives the table of points as CSV, after a comment that says whether questions are missing."""
    return f"# {status_line(tuning)}\n{points_table(tuning).to_csv()}"


def draw_frontier(tuning: Tuning) -> Figure:
    """Draws all points with a result, the frontier, the chosen point and the current thresholds."""
    highlights = []
    if isinstance(tuning.current, OperatingPoint):
        highlights.append(_cost_point(tuning.current, "current thresholds", "s"))
    if tuning.chosen:
        highlights.append(_cost_point(tuning.chosen, "chosen point", "*", filled=True))
    if tuning.held_out_check and isinstance(tuning.held_out_check.chosen, OperatingPoint):
        highlights.append(_cost_point(tuning.held_out_check.chosen, "chosen point, on held-out questions", "*"))
    measure = tuning.recorded.measure
    datasets = shorten(", ".join(tuning.recorded.parts[Partition.XSEL]), 60)
    panel = CostPanel(
        title=f"{MEASURES[measure]} against tokens on {datasets}",
        points=tuple(_cost_point(point, "", "o", filled=True) for point in tuning.frontier),
        cloud=tuple(sorted({(point.tokens, point.quality) for point in tuning.points})),
        highlights=tuple(highlights),
        token_limit=tuning.goal.max_tokens if tuning.goal else None,
        quality_floor=tuning.goal.min_quality if tuning.goal else None,
    )
    figure = open_figure((8.0, 5.6))
    draw_quality_against_tokens([panel], figure, quality=_QUALITY[measure])
    return figure


def _cost_point(point: OperatingPoint, label: str, marker: str, *, filled: bool = False) -> CostPoint:
    return CostPoint(label, point.means["tokens"], point.means["quality"], marker, filled)


def _every_point(tuning: Tuning) -> Iterator[OperatingPoint | UnknownPoint]:
    yield from tuning.points
    yield from tuning.unknown_points
    swept = {point.thresholds for point in tuning.points} | {point.thresholds for point in tuning.unknown_points}
    if tuning.current.thresholds not in swept:
        yield tuning.current


def _row(
    part: Partition, each: OperatingPoint | UnknownPoint, tuning: Tuning, on_front: int | None
) -> tuple[CellValue, ...]:
    axes = {**_axes(each.thresholds), "corrections": "on" if has_corrections(each.thresholds) else "off"}
    chosen = int(tuning.chosen is not None and each.thresholds == tuning.chosen.thresholds)
    start = (part.value, *axes.values(), on_front, chosen, int(each.thresholds == tuning.current.thresholds))
    if isinstance(each, UnknownPoint):
        missing, action = each.main_missing_step
        return (*start, each.questions, *(None for _ in _MEASURES), each.affected, str(missing), str(action))
    return (*start, each.means["quality"].questions, *(each.means[name] for name in _MEASURES), 0, None, None)


def _axes(thresholds: Thresholds) -> dict[str, float | bool]:
    return {
        "answer": thresholds.answer,
        "retrieval_value": thresholds.retrieval_value,
        "novelty": thresholds.novelty,
        "corrections": has_corrections(thresholds),
    }


def _point(point: OperatingPoint) -> dict[str, Any]:
    return {"thresholds": _axes(point.thresholds), **_result(point)}


def _result(found: OperatingPoint | UnknownPoint) -> dict[str, Any]:
    if isinstance(found, OperatingPoint):
        return {name: _estimate(found.means[name]) for name in _MEASURES}
    return {
        "questions": found.questions,
        "leave_the_record": [
            {"asking_for": str(missing), "at": str(action), "questions": count}
            for (missing, action), count in sorted(found.missing_steps.items())
        ],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "mean": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.questions,
        "few": estimate.has_few_questions,
    }
