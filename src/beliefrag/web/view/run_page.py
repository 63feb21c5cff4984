"""What the page of a run shows beside its episodes: means with intervals, and failures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.runs.estimate import Estimate
from beliefrag.runs.summary import Summary


def view_run(summary: Summary) -> dict[str, Any]:
    """Return the summary of a run as the overview page shows it: `Overview` in viewer/src/schema.ts."""
    run = summary.run
    cells = [
        {
            **_pick(cell, "dataset", "method", "episodes", "asked", "failed", "outcomes"),
            "measures": {name: _view_estimate(found) for name, found in cell.measures.items()},
            "tokens_beside_f1": _view_estimate(cell.tokens_beside_f1),
        }
        for cell in summary.cells
    ]
    made = {
        "made": run.made,
        "model": run.model,
        "verifier": run.verifier,
        "retriever": run.searched_with,
        "calibration": ", ".join(each.name for each in run.calibrations) or "none",
        "judge": run.judge or "none",
        "seed": str(run.seed),
        **{f"budget: {name.replace('_', ' ')}": f"{value:,}" for name, value in asdict(run.budget).items()},
    }
    return {
        "first_line": summary.first_line,
        "complete": summary.complete,
        "methods": [*run.methods],
        "cells": cells,
        "failures": [_pick(each, "dataset", "method", "cause", "question_ids") for each in summary.failures],
        "made": made,
    }


def _pick(part: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names} | {"method_title": METHODS.title(part.method)}


def _view_estimate(found: Estimate | None) -> dict[str, Any] | None:
    names = ("value", "low", "high", "questions", "has_few_questions")
    return None if found is None else {name: getattr(found, name) for name in names}
