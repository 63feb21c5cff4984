"""Fit lean's probability on first reads, and measure what each diagnostic is worth on sets that were left out.

    python -m benchmarks.diagnostics --runs runs/reads --out docs/results/diagnostics.json --artifact lean.json

The runs are those of `benchmarks.reads`. A set is left out together with the questions made from it. The shipped fit
takes the questions of xfit and xsel; those of xhold only measure it. No model is asked.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag.calibration.artifact import Artifact, write_artifact
from beliefrag.calibration.examples import DIAGNOSTICS, Examples, label_states, read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.fitting import fit_logistic, refit_logistic, update_answerability
from beliefrag.calibration.quality import auc, predict_answerability
from beliefrag.calibration.risk import RiskSample, add_guarantees, choose_threshold, make_guarantees
from beliefrag.policy import LogisticAnswerability, Thresholds
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Floats
from beliefrag.settings import DECLINE_BELOW, PROFILES
from beliefrag.studies.belief import DIMENSIONS, belief_matrix
from beliefrag.types import Diagnostics
from benchmarks.decide.episodes import read_rows

COMPARISON = Path(__file__).parents[1] / "docs" / "results" / "decide_episodes.csv"
LABEL: Label = "agrees"
_PRIOR = 10.0
_LEAST = 5
"""Fewest questions of either outcome for an AUC within a set."""
_RESAMPLES = 1000
LABELS = (10, 25, 50, 100)
"""How many own labels the learning curves have."""
_LEAST_TEST = 25
_DRAWS = 100
LEVELS = (0.3, 0.2, 0.1)
CONFIDENCE = 0.9


def set_of(dataset: str) -> str:
    """Return the set that questions come from: those without support, or about other documents, belong to theirs."""
    return dataset.partition("_removed")[0].partition("_on_")[0]


def predict_left_out(examples: Examples, columns: Sequence[int]) -> Floats:
    """Return the probability of each example by a fit to the other sets."""
    return _predict(examples, examples.diagnostics[:, list(columns)])


def _predict(examples: Examples, x: Floats) -> Floats:
    sets = np.array([set_of(each.dataset) for each in examples.each])
    unseen = np.array([sets == name for name in sorted(set(sets))])
    fitted = refit_logistic(x, examples.outcomes, examples.weights * ~unseen, _PRIOR)
    logits = fitted[:, :1] + fitted[:, 1:] @ x.T
    told: Floats = 1 / (1 + np.exp(-logits[unseen.argmax(axis=0), np.arange(len(sets))]))
    return told


def within_sets(values: Floats, outcomes: Floats, sets: np.ndarray[Any, Any], weights: Floats | None = None) -> float:
    """Return the mean AUC within sets, by the number of the rarer outcome."""
    total = shares = 0.0
    weights = np.ones(len(values)) if weights is None else weights
    for name in sorted(set(sets)):
        own = sets == name
        w = weights[own]
        count = min((w * outcomes[own]).sum(), (w * (1 - outcomes[own])).sum())
        if count >= _LEAST:
            total += count * float(auc(values[own], outcomes[own], w))
            shares += count
    return total / shares if shares else float("nan")


def estimate_within(values: Floats, outcomes: Floats, sets: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the mean AUC within sets with its 95 % interval over questions."""
    draw = np.random.default_rng(0).multinomial(len(values), np.full(len(values), 1 / len(values)), _RESAMPLES)
    drawn = [within_sets(values, outcomes, sets, row.astype(float)) for row in draw]
    low, high = np.nanpercentile(drawn, (2.5, 97.5))
    value = within_sets(values, outcomes, sets)
    return {"auc": round(value, 3), "low": round(low, 3), "high": round(high, 3), "n": len(values)}


def measure(folders: Sequence[Path], fitted: Artifact | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the numbers of the results page, and a row for each read."""
    examples, *_ = label_states(read_collection(folders).trajectories, LABEL)
    x, y = examples.diagnostics, examples.outcomes
    sets = np.array([set_of(each.dataset) for each in examples.each])
    recalls = {
        (key.dataset, key.question_id): each.metrics.get("evidence_recall")
        for folder in folders
        for key, each in read_summaries(folder).items()
    }
    recall = [recalls[each.dataset, each.question_id] for each in examples.each]
    annotated = np.array([each is not None for each in recall])
    complete = np.array([float((each or 0.0) >= 1.0) for each in recall])
    used = [place for place, weight in enumerate(_weights(fitted)) if weight] if fitted else range(len(DIAGNOSTICS))
    told = predict_left_out(examples, list(used))
    held = np.array([partition(each.question_id) is Partition.XHOLD for each in examples.each])
    right, whole = {}, {}
    for place, name in enumerate(DIAGNOSTICS):
        sign = -1.0 if name in {"conflict", "uncertainty", "gap", "cost"} else 1.0
        if x[:, place].std() > 0:
            right[name] = estimate_within(sign * x[:, place], y, sets)
            whole[name] = estimate_within(sign * x[annotated, place], complete[annotated], sets[annotated])
    found = {
        "reads": len(examples),
        "right": right,
        "complete": whole,
        "left_out": {
            "answerability": estimate_within(told, y, sets),
            "pooled": round(float(auc(told, y, np.ones(len(y)))), 3),
            "brier": round(float(((told - y) ** 2).mean()), 4),
            "brier_base": round(float(y.mean() * (1 - y.mean())), 4),
            "by_set": {name: _describe(told[sets == name], y[sets == name]) for name in sorted(set(sets))},
        },
        "belief": measure_belief(examples),
        "curves": measure_curves(examples, list(used)),
        "guarantees": measure_guarantees(examples, list(used)),
    }
    shipped = told
    if fitted:
        shipped = np.array(
            [fitted.answerability.probability(s.diagnostics, s.belief.sufficiency) for s in examples.states]
        )
        found["held"] = estimate_within(shipped[held], y[held], sets[held]) | _describe(shipped[held], y[held])
    rows = [
        {
            "dataset": each.dataset,
            "question_id": each.question_id,
            **{name: round(value, 6) for name, value in zip(DIAGNOSTICS, row, strict=True)},
            "right": int(outcome),
            "complete": "" if share is None else int(share >= 1.0),
            "left_out": round(float(p), 6),
            "shipped": round(float(q), 6),
            "held": int(unseen),
        }
        for each, row, outcome, share, p, q, unseen in zip(
            examples.each, x.tolist(), y, recall, told, shipped, held, strict=True
        )
    ]
    return found, rows


def measure_belief(examples: Examples) -> dict[str, float]:
    """Return the AUC of each belief, and of all together by a fit to the other sets; for all sets as one."""
    beliefs = belief_matrix(examples)
    y, w = examples.outcomes, np.ones(len(examples))
    found = {
        name: round(float(auc(sign * beliefs[:, place], y, w)), 3)
        for place, (name, sign) in enumerate(DIMENSIONS.items())
    }
    return found | {"all jointly": round(float(auc(_predict(examples, beliefs), y, w)), 3)}


def measure_curves(examples: Examples, columns: Sequence[int]) -> dict[str, Any]:
    """Return how own labels change the Brier score on a set that the fit has not seen, by the number of labels."""
    draw = np.random.default_rng(0)
    sets = np.array([set_of(each.dataset) for each in examples.each])
    curves: dict[str, Any] = {}
    for name in sorted(set(sets)):
        own = np.flatnonzero(sets == name)
        if len(own) < LABELS[-1] + _LEAST_TEST:
            continue
        rest = Examples(each for each, its in zip(examples.each, sets, strict=True) if its != name)
        shipped = _fit_columns(rest, columns)
        gains: dict[int, list[float]] = {count: [] for count in LABELS}
        for _ in range(_DRAWS):
            order = draw.permutation(own)
            test = Examples(examples.each[place] for place in order[LABELS[-1] :])
            before = _brier(shipped, test)
            for count in LABELS:
                labelled = Examples(examples.each[place] for place in order[:count])
                gains[count].append(before - _brier(update_answerability(shipped, labelled), test))
        curves[name] = {
            "questions": len(own),
            "gain": {str(count): round(float(np.mean(each)), 4) for count, each in gains.items()},
            "worst_tenth": {str(count): round(float(np.quantile(each, 0.1)), 4) for count, each in gains.items()},
        }
    return curves


def measure_guarantees(examples: Examples, columns: Sequence[int]) -> list[dict[str, Any]]:
    """Return for each level and set what a guarantee from the other sets comes to on it."""
    sets = np.array([set_of(each.dataset) for each in examples.each])
    held = np.array([partition(each.question_id) is Partition.XHOLD for each in examples.each])
    found = []
    for name in sorted(set(sets)):
        other = sets != name
        fitted = _fit_columns(_take(examples, other & ~held), columns)
        choosing, test = _take(examples, other & held), _take(examples, ~other)
        points = RiskSample(predict_answerability(choosing, fitted), choosing.outcomes > 0)
        told = predict_answerability(test, fitted)
        for level in LEVELS:
            threshold = choose_threshold(points, max_error=level, confidence=CONFIDENCE).threshold
            given = told >= (2.0 if threshold is None else threshold)
            wrong = int((1 - test.outcomes[given]).sum())
            found.append(
                {
                    "max_error": level,
                    "left_out": name,
                    "threshold": threshold,
                    "questions": len(test),
                    "answered": int(given.sum()),
                    "wrong": wrong,
                    "kept": bool(wrong <= level * given.sum()),
                }
            )
    return found


def _take(examples: Examples, chosen: np.ndarray[Any, Any]) -> Examples:
    return Examples(each for each, taken in zip(examples.each, chosen, strict=True) if taken)


def _fit_columns(examples: Examples, columns: Sequence[int]) -> LogisticAnswerability:
    x = np.zeros_like(examples.diagnostics)
    x[:, list(columns)] = examples.diagnostics[:, list(columns)]
    found = fit_logistic(x, examples.outcomes, examples.weights, _PRIOR)
    return LogisticAnswerability(found.intercept, Diagnostics(*found.weights))


def _brier(fitted: LogisticAnswerability, examples: Examples) -> float:
    return float(((predict_answerability(examples, fitted) - examples.outcomes) ** 2).mean())


def add_shipped_guarantees(artifact: Artifact, folders: Sequence[Path]) -> Artifact:
    """Return the artifact with the guarantees that the held-out questions of all sets allow."""
    collection = read_collection(folders)
    examples, *_ = label_states(collection.trajectories, LABEL)
    held = examples.select_part(Partition.XHOLD)
    sample = RiskSample(
        predict_answerability(held, artifact.answerability),
        held.outcomes > 0,
        datasets=tuple(sorted({each.dataset for each in held.each})),
        states=tuple(state.diagnostics for state in held.states),
    )
    datasets = {name: each for run in collection.runs for name, each in run.datasets.items()}
    setups = {"lean": next(iter(collection.runs[0].setups.values()))}
    run = collection.runs[0].model_copy(update={"datasets": datasets, "setups": setups})
    thresholds = PROFILES["default"].apply_to(Thresholds())
    made = make_guarantees(sample, run, targets=LEVELS, confidence=CONFIDENCE, label=LABEL, thresholds=thresholds)
    return add_guarantees(artifact, [each for each in made if each.threshold is not None])


def _weights(fitted: Artifact) -> tuple[float, ...]:
    assert fitted.answerability.kind == "logistic"
    return astuple(fitted.answerability.weights)


def _describe(p: Floats, y: Floats) -> dict[str, Any]:
    given = p >= DECLINE_BELOW
    return {
        "questions": len(y),
        "right": int(y.sum()),
        "auc_of_set": round(float(auc(p, y, np.ones(len(y)))), 3) if 0 < y.sum() < len(y) else None,
        "answered": int(given.sum()),
        "wrong_of_answered": round(float(1 - y[given].mean()), 3) if given.any() else None,
        "right_declined": round(float(1 - given[y > 0].mean()), 3) if y.any() else None,
    }


def measure_transfer(one: Examples, other: Examples, columns: Sequence[int]) -> dict[str, Any]:
    """Return how well a fit on the reads of one model does on those of another."""
    fitted = _fit_columns(one, columns)
    told = predict_answerability(other, fitted)
    y, sets = other.outcomes, np.array([set_of(each.dataset) for each in other.each])
    own = predict_answerability(other, _fit_columns(other, columns))
    return estimate_within(told, y, sets) | {
        "brier": round(float(((told - y) ** 2).mean()), 4),
        "brier_of_own_fit": round(float(((own - y) ** 2).mean()), 4),
        "brier_base": round(float(y.mean() * (1 - y.mean())), 4),
        "right": round(float(y.mean()), 3),
        "mean_probability": round(float(told.mean()), 3),
    }


def fit_any_model(fitted: Artifact, models: Sequence[Examples], columns: Sequence[int]) -> Artifact:
    """Return the estimate for models without a fit of their own: one fit on the reads of all of these."""
    together = Examples(each for examples in models for each in examples.each)
    return fitted.model_copy(
        update={
            "name": "any-model",
            "any_model": True,
            "note": "An estimate for models without a fit of their own, from the reads of two models.",
            "answerability": _fit_columns(together, columns),
            "counts": {"reads": len(together)},
            "quality": {},
            "score_scale": None,
            "fit": None,
            "guarantees": (),
        }
    )


def fit(folders: Sequence[Path], name: str) -> Artifact:
    """Fit the probability to the questions that are neither held out nor in the committed comparison."""
    collection = read_collection(folders)
    compared = {row.question for row in read_rows(COMPARISON)}
    trajectories = tuple(each for each in collection.trajectories if each.question_id not in compared)
    return fit_artifact(replace(collection, trajectories=trajectories), LABEL, name=name, chooses=False)


def _write_rows(rows: Sequence[dict[str, Any]], file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _find_runs(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if (each / "run.json").is_file())


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--artifact", type=Path, help="write the fit to this file")
    parser.add_argument("--other", type=Path, help="the runs of another model, to see how a fit transfers")
    parser.add_argument("--any-model", type=Path, help="write the fit to both models to this file")
    given = parser.parse_args(words)
    folders = _find_runs(given.runs)
    fitted = fit(folders, "qwen2.5-coder-1.5b-lean") if given.artifact else None
    if fitted:
        fitted = add_shipped_guarantees(fitted, folders)
        write_artifact(fitted, given.artifact)
    found, rows = measure(folders, fitted)
    if given.other and fitted:
        used = [place for place, weight in enumerate(_weights(fitted)) if weight]
        own, other = (
            label_states(read_collection(each).trajectories, LABEL)[0] for each in (folders, _find_runs(given.other))
        )
        found["transfer"] = {
            "to_other": measure_transfer(own, other, used),
            "from_other": measure_transfer(other, own, used),
        }
        _write_rows(measure(_find_runs(given.other), None)[1], given.out.with_name(f"{given.out.stem}_other.csv"))
        if given.any_model:
            write_artifact(fit_any_model(fitted, (own, other), used), given.any_model)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    _write_rows(rows, given.out.with_suffix(".csv"))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
