"""Writes a tuning down: numbers for programs, a page for people, the picture, and the settings to use."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beliefrag.calibration.tuning.errors import TuningError
from beliefrag.calibration.tuning.figure import save_frontier
from beliefrag.calibration.tuning.grid import corrects
from beliefrag.calibration.tuning.page import page
from beliefrag.calibration.tuning.sweep import Point, Refusal
from beliefrag.calibration.tuning.tune import Tuning
from beliefrag.calibration.tuning.wording import first_line, settings_toml, verdict
from beliefrag.policy import Thresholds
from beliefrag.runs.samples import Partition
from beliefrag.runs.statistics import Estimate

__all__ = ["tidy_csv", "tuning_record", "write_tuning"]

_MEASURES = ("quality", "tokens", "rounds", "abstained")
_AXES = ("answer", "retrieval_value", "novelty", "corrections")


def write_tuning(tuning: Tuning, folder: Path) -> list[Path]:
    """Writes all files into a folder, over those of an earlier tuning.

    Raises:
        TuningError: They cannot be written.
    """
    texts = {
        "tune.json": json.dumps(tuning_record(tuning), indent=1, ensure_ascii=False) + "\n",
        "tune.csv": tidy_csv(tuning),
        "tune.md": page(tuning),
    }
    pictures = [folder / "tune.png", folder / "tune.pdf"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        save_frontier(tuning, *pictures)
    except OSError as error:
        raise TuningError(
            f"The tuning cannot be written to {folder}: {error.strerror}.", remedy="Name another folder with --out."
        ) from error
    return [*(folder / name for name in texts), *pictures]


def tuning_record(tuning: Tuning) -> dict[str, Any]:
    """All that was found, as plain values: the same run, calibration and options give the same record."""
    recorded, checked = tuning.recorded, tuning.checked
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
        "summary": [first_line(tuning), *verdict(tuning)],
        "notes": list(tuning.notes),
        "moves": [asdict(move) for move in tuning.moves],
        "goal": asdict(tuning.goal) if tuning.goal else None,
        "current": {"thresholds": asdict(recorded.thresholds), "xsel": _result(tuning.own)},
        "chosen": _point(tuning.chosen) if tuning.chosen else None,
        "settings": settings_toml(tuning.chosen.thresholds, tuning.artifact.name) if tuning.chosen else None,
        "held_out": {
            "chosen": _result(checked.chosen),
            "current": _result(checked.own),
            "difference": {name: _estimate(gap) for name, gap in checked.differences.items()} or None,
        }
        if checked
        else None,
        "frontier": [_point(point) for point in tuning.frontier],
        "points": len(tuning.points),
        "refused": [{"thresholds": _axes(refusal.thresholds), **_result(refusal)} for refusal in tuning.refusals],
    }


def tidy_csv(tuning: Tuning) -> str:
    """One line for each operating point on xsel, refused ones too, and for what was checked on xhold."""
    text = io.StringIO()
    text.write(f"# {first_line(tuning)}\n")
    measured = [f"{name}{end}" for name in _MEASURES for end in ("", "_low", "_high")]
    headings = ["part", *_AXES, "frontier", "chosen", "current", "n", *measured, "leave_the_record", "asking_for", "at"]
    writer = csv.DictWriter(text, headings, restval="", lineterminator="\n")
    writer.writeheader()
    front = {id(point) for point in tuning.frontier}
    for each in _all(tuning):
        row = _row(Partition.XSEL, each, tuning)
        writer.writerow({**row, "frontier": int(id(each) in front)})
    if tuning.checked:
        for each in (tuning.checked.chosen, tuning.checked.own):
            writer.writerow(_row(Partition.XHOLD, each, tuning))
    return text.getvalue()


def _all(tuning: Tuning) -> Iterator[Point | Refusal]:
    yield from tuning.points
    yield from tuning.refusals
    swept = {each.thresholds for each in tuning.points} | {each.thresholds for each in tuning.refusals}
    if tuning.own.thresholds not in swept:
        yield tuning.own


def _row(part: Partition, each: Point | Refusal, tuning: Tuning) -> dict[str, Any]:
    row: dict[str, Any] = {
        "part": part.value,
        **_axes(each.thresholds),
        "chosen": int(tuning.chosen is not None and each.thresholds == tuning.chosen.thresholds),
        "current": int(each.thresholds == tuning.own.thresholds),
    }
    row["corrections"] = "on" if row["corrections"] else "off"
    if isinstance(each, Refusal):
        departed, action = each.main
        return {
            **row,
            "n": each.questions,
            "leave_the_record": each.leaving,
            "asking_for": str(departed),
            "at": str(action),
        }
    row["n"] = each.means["quality"].questions
    for name in _MEASURES:
        estimate = each.means[name]
        row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return {**row, "leave_the_record": 0}


def _axes(thresholds: Thresholds) -> dict[str, float | bool]:
    return {
        "answer": thresholds.answer,
        "retrieval_value": thresholds.retrieval_value,
        "novelty": thresholds.novelty,
        "corrections": corrects(thresholds),
    }


def _point(point: Point) -> dict[str, Any]:
    return {"thresholds": _axes(point.thresholds), **_result(point)}


def _result(found: Point | Refusal) -> dict[str, Any]:
    if isinstance(found, Point):
        return {name: _estimate(found.means[name]) for name in _MEASURES}
    return {
        "questions": found.questions,
        "leave_the_record": [
            {"asking_for": str(departed), "at": str(action), "questions": count}
            for (departed, action), count in sorted(found.departures.items())
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
