"""A first answerability fit for a model, from the states that benchmarks/verifier_forms.py has collected.

    python -m benchmarks.first_fit STATES.jsonl --name NAME --backbone IDENTITY --out ARTIFACT.json

Logistic regression with a weak ridge over relevance, support, conflict, uncertainty and gap, as far as they vary in
these states. Novelty and cost get weight 0: all states come from the first search, so novelty is 1 throughout, and cost
tells of passage lengths and not of what a trajectory has spent. Its quality is told by leave-one-out: each state is
scored by a fit that has not seen it. Small samples make small claims: this fit stands in until one on hundreds of
states along whole trajectories replaces it.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from beliefrag.calibration import Artifact
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.scale import score_scale
from beliefrag.types import Budget, Passage
from beliefrag.verifiers import verifier_form
from benchmarks.verifier_forms import load, rows_of

Array = npt.NDArray[np.float64]
NAMES = ("relevance", "support", "conflict", "uncertainty", "gap", "novelty", "cost")
RIDGE = 1.0
LEAST_SPREAD = 0.05
"""A diagnostic that varies less than this in the states says nothing about them."""
FITTED = np.array([True] * 5 + [False] * 2)


def diagnostics(row: dict[str, Any], form: str) -> list[float]:
    """The seven diagnostics of a collected state."""
    seen = row[form]
    cost = min(1.0, seen["tokens"] / Budget().tokens)
    return [row["relevance"], *(seen[name] for name in NAMES[1:5]), row["novelty"], cost]


def fit(x: Array, y: Array) -> tuple[float, Array]:
    """Intercept and weights on the original scale, by Newton's method on standardised columns."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    used = FITTED & (spread > LEAST_SPREAD)
    z = (x[:, used] - centre[used]) / spread[used]
    design = np.hstack([np.ones((len(z), 1)), z])
    penalty = np.diag([0.0, *([RIDGE] * z.shape[1])])
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (y - p) - penalty @ beta
        curvature = design.T @ (design * (p * (1 - p))[:, None]) + penalty
        beta = beta + np.linalg.solve(curvature, gradient)
    weights = np.zeros(x.shape[1])
    weights[used] = beta[1:] / spread[used]
    return float(beta[0] - weights @ centre), weights


def left_out(x: Array, y: Array) -> Array:
    """Each state's probability under a fit to all the others."""
    kept = [np.arange(len(y)) != i for i in range(len(y))]
    return np.array([_probability(x[i], *fit(x[keep], y[keep])) for i, keep in enumerate(kept)])


def _probability(x: Array, intercept: float, weights: Array) -> float:
    return float(1 / (1 + np.exp(-(intercept + x @ weights))))


def _auc(p: Array, y: Array) -> float:
    yes, no = p[y == 1][:, None], p[y == 0][None, :]
    return float((yes > no).mean() + 0.5 * (yes == no).mean())


def main() -> None:
    """Reads the command line, fits, prints and writes the artifact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("states", type=Path)
    parser.add_argument("--form", default="probability")
    parser.add_argument("--name", required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = [row for row in rows_of(given.states) if given.form in row]
    x = np.array([diagnostics(row, given.form) for row in rows])
    y = np.array([float(row["f1"] >= 0.5) for row in rows])
    intercept, weights = fit(x, y)
    p = left_out(x, y)
    # The base rate is left out too: the mean of the other states, so that neither side has seen the state.
    base = (y.sum() - y) / (len(y) - 1)
    errors, base_errors = (p - y) ** 2, (base - y) ** 2
    draws = np.random.default_rng(0).integers(len(y), size=(2000, len(y)))
    low, high = np.quantile((base_errors - errors)[draws].mean(axis=1), [0.025, 0.975])
    index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus"))
    hashes = Prompts.load().hashes()
    artifact = Artifact.model_validate(
        {
            "name": given.name,
            "origin": "fitted",
            "backbone": given.backbone,
            "retriever": Bm25Index.identity,
            "verifier": given.form,
            "prompts": {name: hashes[name] for name in ("system", *verifier_form(given.form).prompts)},
            "target": "the answer from the current evidence has token F1 of at least 0.5",
            "partition": "HotpotQA train, states after the first search",
            "seed": 0,
            "contaminated": False,
            "made": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "counts": {"fit": len(y), "answerable": int(y.sum())},
            "quality": {
                "brier_left_one_out": round(float(errors.mean()), 4),
                "brier_base_rate": round(float(base_errors.mean()), 4),
                "brier_gain_low": round(float(low), 4),
                "brier_gain_high": round(float(high), 4),
                "auc_left_one_out": round(_auc(p, y), 3),
            },
            "score_scale": score_scale(index),
            "note": "A first fit on few states; the retrieval-value schedule of the paper stands in.",
            "answerability": {
                "intercept": round(intercept, 5),
                "weights": {name: round(float(w), 5) for name, w in zip(NAMES, weights, strict=True)},
            },
        }
    )
    text = artifact.model_dump_json(indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    print(json.dumps({"spread": dict(zip(NAMES, x.std(axis=0).round(3).tolist(), strict=True))}))


if __name__ == "__main__":
    main()
