"""The numbers of the comparison from recorded runs: means with intervals, and paired differences of F1 and tokens."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag import bench
from beliefrag.calibration.quality import auc, brier
from beliefrag.methods import METHODS
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.statistics import Estimate, compare_over_datasets, mean_estimate, mean_over_datasets
from beliefrag.settings import DECLINE_BELOW
from benchmarks.decide.runs import RUNS
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS

__all__ = ["collect_numbers", "write_episodes", "write_page"]

Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By dataset and measure, one value for each question."""

_RIGHT = 0.5
"""The F1 from which on an answer counts as right, as for the calibration."""
_ALL = "all"
_MARK = "<!-- What follows was written by benchmarks/decide/tables.py. -->"
_WAYS = {
    "bm25": "BM25, whole passages",
    "linked": "linked, whole passages",
    "bm25_packed": "BM25, 160 words",
    "linked_packed": "linked, 160 words",
    "paper": "BM25, whole passages",
    "others": "BM25, whole passages",
    "reasoning": "BM25, whole passages",
}


def collect_numbers(folder: Path) -> dict[str, Any]:
    """Reads the runs that are there. An episode that failed is left out and counted."""
    found: dict[tuple[str, str], Values] = {}
    failed: dict[str, int] = {}
    for name in RUNS:
        if not (folder / name / "run.json").exists():
            continue
        for key, summary in read_summaries(folder / name).items():
            if not summary.finished:
                failed[f"{name} {key.method}"] = failed.get(f"{name} {key.method}", 0) + 1
                continue
            values: Any = found.setdefault((name, key.method), {})
            own = values.setdefault(key.dataset, {"f1": {}, "tokens": {}, "answerability": {}})
            own["f1"][key.question_id] = summary.metrics["f1"] or 0.0
            own["tokens"][key.question_id] = float(summary.usage.tokens)
    rows = [
        {
            "run": name,
            "method": method,
            "title": f"{METHODS.title(method)} ({_WAYS[name]})",
            "datasets": {
                dataset: {
                    "n": len(values[dataset]["f1"]),
                    "f1": mean_estimate(values[dataset]["f1"]).record(),
                    "tokens": mean_estimate(values[dataset]["tokens"]).record(),
                }
                for dataset in SETS
                if dataset in values
            },
            "multi_hop": _mean(values),
        }
        for (name, method), values in found.items()
    ]
    probabilities = _judge_probabilities(folder / "linked_packed")
    return {"rows": rows, "differences": list(_differences(found)), "probability": probabilities, "failed": failed}


def write_episodes(folder: Path, file: Path) -> None:
    """Writes one line for each episode of the runs that are there: what it did, scored and cost, and no text."""
    measures = ("exact_match", "f1", "cover", "evidence_recall")
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(
            ("run", "method", "dataset", "question", "outcome", "actions", "answerability", *measures, "tokens")
        )
        for name in RUNS:
            if not (folder / name / "run.json").exists():
                continue
            for episode in sorted(bench.Run.open(folder / name).episodes(), key=lambda each: each.key):
                key, sure = episode.key, episode.answerability
                actions = " ".join(step.action for step in episode.steps)
                scores = ["" if (score := episode.metrics.get(each)) is None else round(score, 4) for each in measures]
                shown = "" if sure is None else round(sure, 4)
                row = (name, key.method, key.dataset, key.question_id, episode.outcome, actions, shown, *scores)
                table.writerow((*row, episode.usage.tokens))


def _judge_probabilities(run: Path) -> dict[str, Any]:
    """Says how good lean's answerability is on each set and on all, beside the raw probability of the draft."""
    if not (run / "run.json").exists():
        return {}
    told: dict[str, list[tuple[float, float, float]]] = {}
    for episode in bench.Run.open(run).episodes():
        last = episode.steps[-1].diagnostics if episode.steps else None
        if episode.key.method != "lean" or episode.answerability is None or last is None:
            continue
        is_right = float((episode.metrics["f1"] or 0.0) >= _RIGHT)
        for name in (episode.key.dataset, _ALL):
            told.setdefault(name, []).append((episode.answerability, 1.0 - last.uncertainty, is_right))
    found = {}
    for name in (*SETS, _ALL):
        if name not in told:
            continue
        columns = np.array(told[name])
        lean, raw, right = columns[:, 0], columns[:, 1], columns[:, 2]
        same = np.ones(len(right))
        given = lean >= DECLINE_BELOW
        found[name] = {
            "n": len(right),
            "right": float(right.mean()),
            "brier": float(brier(lean, right, same)),
            "brier_raw": float(brier(raw, right, same)),
            "brier_share": float(right.mean() * (1.0 - right.mean())),
            "auc": float(auc(lean, right, same)) if 0.0 < right.mean() < 1.0 else None,
            "given": float(given.mean()),
            "right_of_given": float(right[given].mean()) if given.any() else None,
        }
    return found


def _mean(values: Values) -> dict[str, Any] | None:
    if any(dataset not in values for dataset in MULTI_HOP):
        return None
    return {
        measure: mean_over_datasets({dataset: values[dataset][measure] for dataset in MULTI_HOP}).record()
        for measure in ("f1", "tokens")
    }


def _differences(found: Mapping[tuple[str, str], Values]) -> Iterator[dict[str, Any]]:
    """Yields lean against each other row, on the questions of the multi-hop sets that both have."""
    for ours in (("linked_packed", "lean"), ("bm25_packed", "lean")):
        for theirs in found:
            if ours not in found or theirs == ours:
                continue
            shared = {
                dataset: sorted(found[ours][dataset]["f1"].keys() & found[theirs][dataset]["f1"].keys())
                for dataset in MULTI_HOP
                if dataset in found[ours] and dataset in found[theirs]
            }
            if len(shared) < len(MULTI_HOP) or not all(shared.values()):
                continue
            sides = [
                {
                    dataset: {
                        measure: {each: found[side][dataset][measure][each] for each in ids}
                        for measure in ("f1", "tokens")
                    }
                    for dataset, ids in shared.items()
                }
                for side in (ours, theirs)
            ]
            compared = compare_over_datasets(*sides)
            tokens = compared.measures["tokens"]
            yield {
                "first": list(ours),
                "second": list(theirs),
                "n": {dataset: len(ids) for dataset, ids in shared.items()},
                "f1": compared.measures["f1"].difference.record(),
                "tokens": tokens.difference.record(),
                "token_ratio": tokens.first / tokens.second,
                "better_and_cheaper": compared.better_and_cheaper,
            }


def write_page(numbers: Mapping[str, Any], page: Path | None) -> None:
    """Prints the tables, and puts them in the place of the last part of a page."""
    text = "\n".join(_lines(numbers))
    print(text)
    if page is not None:
        kept = page.read_text("utf-8").partition(_MARK)[0] if page.exists() else ""
        page.write_text(f"{kept.rstrip()}\n\n{_MARK}\n\n{text}\n", encoding="utf-8")


def _lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield "## F1 by set, with 95 % intervals and the number of questions\n"
    yield f"| | {' | '.join(SETS)} | multi-hop mean | tokens (multi-hop) |"
    yield "|---" * (len(SETS) + 3) + "|"
    for row in numbers["rows"]:
        cells = [
            f"{_show(row['datasets'][name]['f1'])}, n {row['datasets'][name]['n']}" if name in row["datasets"] else ""
            for name in SETS
        ]
        mean = row["multi_hop"]
        ends = [_show(mean["f1"]), f"{mean['tokens']['value']:,.0f}"] if mean else ["", ""]
        yield f"| {row['title']} | {' | '.join([*cells, *ends])} |"
    yield "\n## Lean minus the other, paired, mean of the three multi-hop sets\n"
    yield "| lean on | against | n | F1 | tokens | share of its tokens |"
    yield "|---|---|---|---|---|---|"
    for each in numbers["differences"]:
        other = f"{METHODS.title(each['second'][1])} ({_WAYS[each['second'][0]]})"
        counts = "/".join(str(each["n"][name]) for name in MULTI_HOP)
        yield (
            f"| {_WAYS[each['first'][0]]} | {other} | {counts} | {_show(each['f1'], signed=True)} "
            f"| {each['tokens']['value']:+,.0f} | {each['token_ratio']:.2f} |"
        )
    if numbers["probability"]:
        yield "\n## How likely lean's answers are right, and what it says of them\n"
        yield (
            f"| | n | right | Brier | of the raw token probability | of saying the share | AUC "
            f"| at {DECLINE_BELOW} or above | right of these |"
        )
        yield "|---|---|---|---|---|---|---|---|---|"
        for name, each in numbers["probability"].items():
            shown = " | ".join("" if value is None else f"{value:.3f}" for key, value in each.items() if key != "n")
            yield f"| {name} | {each['n']} | {shown} |"
    if numbers["failed"]:
        yield f"\nFailed and not scored: {', '.join(f'{name} {count}' for name, count in numbers['failed'].items())}."


def _show(estimate: Mapping[str, Any] | Estimate, *, signed: bool = False) -> str:
    held = estimate.record() if isinstance(estimate, Estimate) else estimate
    sign = "+" if signed else ""
    if held["low"] is None:
        return f"{held['value']:{sign}.3f}"
    return f"{held['value']:{sign}.3f} ({held['low']:{sign}.3f} to {held['high']:{sign}.3f})"
