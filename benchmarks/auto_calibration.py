"""Asks how good a calibration from made questions is for people's questions, beside one from people's questions.

    python -m benchmarks.auto_calibration docs --out mixed.jsonl
    beliefrag calibrate auto --docs mixed.jsonl --method lean --reads-only -n 60 --out auto.json --yes
    python -m benchmarks.auto_calibration compare auto.json human.json --run runs/linked_packed

`docs` writes the passages of the six sets as documents. `compare` reads what lean drafted for questions that neither
calibration has seen, and lets each say how likely each draft is right. Nothing is asked of a model. Questions that lean
answers by comparing dates are left out: their probability is a constant. Intervals are 95 %, over questions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from beliefrag import bench
from beliefrag.calibration import Artifact, load_artifact
from beliefrag.calibration.quality import auc, brier
from beliefrag.runs.statistics import Floats, draw_counts, random_generator
from beliefrag.settings import DECLINE_BELOW
from beliefrag.types import Diagnostics
from benchmarks.find.mixed_corpus import load_mixed_corpus

_RIGHT = 0.5
_ERRORS = (0.2, 0.3, 0.4)
_RESAMPLES = 2000


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("docs")
    writing.add_argument("--out", type=Path, required=True)
    comparing = commands.add_parser("compare")
    comparing.add_argument("calibrations", type=Path, nargs="+", help="the differences are to the last one")
    comparing.add_argument("--run", type=Path, required=True, help="a run with lean")
    comparing.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    chosen = parser.parse_args()
    if chosen.command == "docs":
        with chosen.out.open("w", encoding="utf-8") as file:
            for passage in load_mixed_corpus().passages.values():
                file.write(json.dumps({"id": passage.id, "title": passage.title, "text": passage.text}) + "\n")
        return
    found = compare({path.stem: load_artifact(path) for path in chosen.calibrations}, chosen.run)
    print(json.dumps(found, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def compare(artifacts: Mapping[str, Artifact], run: Path) -> dict[str, object]:
    """Gives the quality of each calibration on the drafts of the run, and its difference to the last one."""
    fits = {name: artifact.fit for name, artifact in artifacts.items()}
    seen = {each for fit in fits.values() if fit for each in (*fit.fit_questions, *fit.selection_questions)}
    drafts: dict[str, tuple[Diagnostics, float, bool]] = {}
    for episode in bench.Run.open(run).episodes():
        key, last = episode.key, episode.steps[-1] if episode.steps else None
        if key.method != "lean" or not episode.usage.tokens or key.question_id in seen:
            continue
        if last and last.diagnostics and last.belief:
            is_right = (episode.metrics["f1"] or 0.0) >= _RIGHT
            drafts[f"{key.dataset}/{key.question_id}"] = (last.diagnostics, last.belief.sufficiency, is_right)
    right = np.array([float(is_right) for _, _, is_right in drafts.values()])
    told = {
        name: np.array([artifact.answerability.probability(*each[:2]) for each in drafts.values()])
        for name, artifact in artifacts.items()
    }
    drawn = draw_counts(random_generator(0), len(right), _RESAMPLES).astype(np.float64)
    *_, base = told.values()
    return {
        "questions": len(right),
        "right": round(float(right.mean()), 3),
        "calibrations": {
            name: {"fitted on": len(fit.fit_questions) if fit else None}
            | {
                measure: _with_difference(partial(compute, right=right), told[name], base, drawn)
                for measure, compute in _MEASURES.items()
            }
            for name, fit in fits.items()
        },
    }


def _with_difference(
    compute: Callable[..., float], told: Floats, base: Floats, drawn: Floats
) -> dict[str, list[float]]:
    once = np.ones(len(told))
    resampled = np.array([[compute(p, weights=weights) for p in (told, base)] for weights in drawn])
    value, other = compute(told, weights=once), compute(base, weights=once)
    found = {"value": _round(value, resampled[:, 0])}
    if told is not base:
        found["difference"] = _round(value - other, resampled[:, 0] - resampled[:, 1])
    return found


def _round(value: float, resampled: Floats) -> list[float]:
    low, high = np.percentile(resampled, (2.5, 97.5))
    return [round(float(each), 3) for each in (value, low, high)]


def measure_coverage(p: Floats, *, right: Floats, weights: Floats, error: float) -> float:
    """The largest share of questions that can be answered, the surest first, with at most that share of them wrong."""
    order = np.argsort(-p, kind="stable")
    answered = np.cumsum(weights[order])
    wrong = np.cumsum(weights[order] * (1.0 - right[order]))
    # Drafts of one probability are given together or not at all.
    last = np.append(p[order][1:] != p[order][:-1], True)
    kept = answered[last & (wrong <= error * answered)]
    return float(kept.max() / weights.sum()) if len(kept) else 0.0


def _given(p: Floats, *, right: Floats, weights: Floats) -> float:
    return float(weights[p >= DECLINE_BELOW].sum() / weights.sum())


def _wrong_of_given(p: Floats, *, right: Floats, weights: Floats) -> float:
    given = weights * (p >= DECLINE_BELOW)
    return float(given @ (1.0 - right) / given.sum()) if given.any() else 0.0


_MEASURES: dict[str, Callable[..., float]] = {
    "Brier": lambda p, right, weights: float(brier(p, right, weights)),
    "AUC": lambda p, right, weights: float(auc(p, right, weights)),
    **{f"coverage at {error:.0%} error": partial(measure_coverage, error=error) for error in _ERRORS},
    f"given at {DECLINE_BELOW}": _given,
    f"wrong of those at {DECLINE_BELOW}": _wrong_of_given,
}


if __name__ == "__main__":
    main()
