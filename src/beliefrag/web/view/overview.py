"""A run at one glance: methods by datasets with their intervals, what is missing, and what it was made with."""

from __future__ import annotations

from typing import Any

from beliefrag.methods import METHODS
from beliefrag.runs.cells import MEAN, Cell
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import Summary

__all__ = ["overview_record"]

_SHOWN = (
    "f1",
    "exact_match",
    "cover",
    "judge",
    "evidence_recall",
    "answer_row_recall",
    "rounds",
    "calls",
    "tokens",
    "seconds",
)


def overview_record(summary: Summary) -> dict[str, Any]:
    """The summary as plain data."""
    run = summary.run
    return {
        "first_line": summary.first_line,
        "complete": summary.complete,
        "datasets": list(run.datasets),
        "methods": [{"name": name, "title": METHODS.title(name)} for name in run.methods],
        "cells": [_cell(cell) for cell in summary.cells],
        "failures": [
            {"cause": each.cause, "dataset": each.dataset, "method": each.method, "episodes": len(each.question_ids)}
            for each in summary.failures
        ],
        "made": {
            "made": run.made,
            "model": run.model,
            "verifier": run.verifier,
            "retriever": run.retriever,
            "calibration": run.calibration.name if run.calibration else "none",
            "judge": run.judge or "none",
            "seed": str(run.seed),
            **{f"budget: {name.replace('_', ' ')}": f"{value:,}" for name, value in run.budget.items()},
        },
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "dataset": cell.dataset,
        "is_mean": cell.dataset == MEAN,
        "method": cell.method,
        "method_title": METHODS.title(cell.method),
        "episodes": cell.episodes,
        "asked": cell.asked,
        "failed": cell.failed,
        "outcomes": dict(cell.outcomes),
        "measures": {
            **{name: _estimate(cell.measures.get(name)) for name in _SHOWN},
            "tokens_beside_f1": _estimate(cell.tokens_beside_f1),
        },
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "mean": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.questions,
        "level": estimate.level,
        "smallest": estimate.smallest,
        "few": estimate.has_few_questions,
    }
