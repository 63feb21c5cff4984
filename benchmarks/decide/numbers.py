"""The numbers of the comparison from the table of episodes: means, paired differences, and quality against tokens.

A set of which a method has fewer than ten questions is in no table: such a mean says too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beliefrag.methods import METHODS
from beliefrag.runs.statistics import (
    PAIRED_RESAMPLES,
    Estimate,
    Floats,
    compare_over_datasets,
    estimate_from_resamples,
    mean_estimate,
    mean_over_datasets,
    pareto_front,
    resample_means,
)
from benchmarks.decide.episodes import EpisodeRow
from benchmarks.decide.probability import judge_probabilities, read_told
from benchmarks.decide.runs import RUNS
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS

__all__ = ["FACTOID", "FEWEST", "collect_numbers", "share_on_front", "title_of"]

FEWEST = 10
"""The fewest questions of a set that a mean is shown of."""
FACTOID = tuple(name for name in SETS if name not in MULTI_HOP)
_MEASURES = ("f1", "tokens")
_OURS = ("linked_packed", "lean")

Side = tuple[str, str]
"""A run and a method in it."""
Values = dict[str, dict[str, dict[str, float]]]
"""By dataset and measure, one value for each question."""


def title_of(run: str, method: str) -> str:
    """Return the method with its options and what it searched and read, as tables call it."""
    options = RUNS[run].options_of(method)
    return f"{METHODS.title(method)}{f' with {options}' if options else ''} ({RUNS[run].way})"


def collect_numbers(rows: Sequence[EpisodeRow]) -> dict[str, Any]:
    """Work out all numbers of the page. An episode that failed is left out and counted."""
    known = [row for row in rows if row.run in RUNS]
    found = _read_values(row for row in known if row.finished)
    few = {
        f"{title_of(*side)} {dataset}": len(values["f1"])
        for side, sets in found.items()
        for dataset, values in sets.items()
        if len(values["f1"]) < FEWEST
    }
    enough = {
        side: {dataset: values for dataset, values in sets.items() if len(values["f1"]) >= FEWEST}
        for side, sets in found.items()
    }
    failed: dict[str, int] = {}
    for row in known:
        if not row.finished:
            failed[title_of(row.run, row.method)] = failed.get(title_of(row.run, row.method), 0) + 1
    return {
        "rows": [_describe_side(side, values) for side, values in enough.items() if values],
        "differences": list(_differences(enough, MULTI_HOP)),
        "factoid_differences": list(_differences(enough, FACTOID, some=True)),
        "frontier": _find_frontier(enough),
        "probability": judge_probabilities(read_told(known)),
        "failed": failed,
        "too_few": few,
    }


def _read_values(rows: Iterable[EpisodeRow]) -> dict[Side, Values]:
    """Return the values of each method of each run, in the order of the runs and of their methods."""
    found: dict[Side, Values] = {(name, method): {} for name, run in RUNS.items() for method in run.method_names}
    for row in rows:
        own = found[row.run, row.method].setdefault(row.dataset, {measure: {} for measure in _MEASURES})
        own["f1"][row.question] = row.f1 or 0.0
        own["tokens"][row.question] = float(row.tokens)
    return found


def _describe_side(side: Side, values: Values) -> dict[str, Any]:
    return {
        "run": side[0],
        "method": side[1],
        "title": title_of(*side),
        "datasets": {
            dataset: {
                "n": len(values[dataset]["f1"]),
                **{measure: mean_estimate(values[dataset][measure]).record() for measure in _MEASURES},
            }
            for dataset in SETS
            if dataset in values
        },
        "multi_hop": _mean(values) if all(dataset in values for dataset in MULTI_HOP) else None,
    }


def _mean(values: Values) -> dict[str, Any]:
    return {
        measure: mean_over_datasets({dataset: values[dataset][measure] for dataset in MULTI_HOP}).record()
        for measure in _MEASURES
    }


def _select(values: Values, questions: Mapping[str, Sequence[str]]) -> Values:
    return {
        dataset: {measure: {each: values[dataset][measure][each] for each in ids} for measure in _MEASURES}
        for dataset, ids in questions.items()
    }


def _find_shared(sides: Sequence[Values], sets: Sequence[str]) -> dict[str, list[str]]:
    """Return the questions that all sides have, for each set of which they share enough."""
    shared = {
        dataset: sorted(set.intersection(*(set(values[dataset]["f1"]) for values in sides)))
        for dataset in sets
        if all(dataset in values for values in sides)
    }
    return {dataset: ids for dataset, ids in shared.items() if len(ids) >= FEWEST}


def _differences(found: Mapping[Side, Values], sets: Sequence[str], *, some: bool = False) -> Iterator[dict[str, Any]]:
    """Yield lean against each other method, on the questions that both have.

    Args:
        found: The values of each method.
        sets: The sets over which the mean is taken.
        some: Take those of the sets that both have; by default both must have all.
    """
    for theirs in found:
        if theirs == _OURS or _OURS not in found:
            continue
        shared = _find_shared([found[_OURS], found[theirs]], sets)
        if not shared or (len(shared) < len(sets) and not some):
            continue
        first, second = (_select(found[side], shared) for side in (_OURS, theirs))
        compared = compare_over_datasets(first, second)
        yield {
            "second": list(theirs),
            "n": {dataset: len(ids) for dataset, ids in shared.items()},
            "f1": compared.measures["f1"].difference.without_flat_interval().record(),
            "tokens": compared.measures["tokens"].difference.without_flat_interval().record(),
            "token_ratio": estimate_ratio(first, second).record(),
            "better_and_cheaper": compared.better_and_cheaper,
        }


def estimate_ratio(first: Values, second: Values) -> Estimate:
    """Return the first side's tokens as a share of the second's, on the same draws as their difference."""
    columns = [
        np.array(
            [[side[dataset]["tokens"][each] for side in (first, second)] for each in sorted(first[dataset]["tokens"])]
        )
        for dataset in sorted(first)
    ]
    ours, theirs = np.mean([column.mean(axis=0) for column in columns], axis=0)
    drawn = np.mean(
        [resample_means(column, (0, place), PAIRED_RESAMPLES) for place, column in enumerate(columns)], axis=0
    )
    return estimate_from_resamples(float(ours / theirs), drawn[:, 0] / drawn[:, 1], questions=sum(map(len, columns)))


def _find_frontier(found: Mapping[Side, Values]) -> dict[str, Any] | None:
    """Return F1 by tokens of every method on the multi-hop questions that all have, cheapest first."""
    sides = {side: values for side, values in found.items() if all(dataset in values for dataset in MULTI_HOP)}
    shared = _find_shared(list(sides.values()), MULTI_HOP) if sides else {}
    if len(shared) < len(MULTI_HOP):
        return None
    same = {side: _select(values, shared) for side, values in sides.items()}
    means = {side: _mean(values) for side, values in same.items()}
    tables = {
        dataset: (_make_columns(same, dataset, "tokens", ids), _make_columns(same, dataset, "f1", ids))
        for dataset, ids in shared.items()
    }
    cost, quality = (np.array([mean[measure]["value"] for mean in means.values()]) for measure in ("tokens", "f1"))
    front = pareto_front(cost, quality)
    shares = share_on_front(tables)
    points = [
        {"run": side[0], "method": side[1], **means[side], "on_front": bool(on_front), "share_on_front": share}
        for side, on_front, share in zip(same, front, shares, strict=True)
    ]
    points.sort(key=lambda point: (point["tokens"]["value"], point["run"], point["method"]))
    return {"n": {dataset: len(ids) for dataset, ids in shared.items()}, "points": points}


def _make_columns(sides: Mapping[Side, Values], dataset: str, measure: str, ids: Sequence[str]) -> Floats:
    """Return a row for each question and a column for each method."""
    return np.array([[values[dataset][measure][each] for values in sides.values()] for each in ids])


def share_on_front(datasets: Mapping[str, tuple[Floats, Floats]]) -> list[float]:
    """Return for each method the share of resamples in which it is on the Pareto front of the means over datasets.

    Each dataset has its cost and its quality, with a row per question and a column per method. Questions are resampled
    within each dataset.
    """
    drawn = [resample_means(np.hstack(datasets[name]), (0, k)) for k, name in enumerate(sorted(datasets))]
    cost, quality = np.split(np.mean(drawn, axis=0), 2, axis=-1)
    return [float(share) for share in pareto_front(cost, quality).mean(axis=0)]
