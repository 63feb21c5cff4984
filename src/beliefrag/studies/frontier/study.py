"""Quality against cost: F1 by tokens of every method on the same questions, and which of them are worth having."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.bench.cells import MEAN
from beliefrag.bench.published import published_tables
from beliefrag.bench.statistics import (
    Estimate,
    PairedComparison,
    compare,
    compare_over_datasets,
    mean_estimate,
    mean_over_datasets,
)
from beliefrag.methods import METHODS, TITLES
from beliefrag.studies.frontier.figure import Point, draw_frontier
from beliefrag.studies.frontier.pareto import on_front, share_on_front
from beliefrag.studies.need import NeededRun
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Beside, Column, Number, Result, Table
from beliefrag.studies.study import Asked, Study

__all__ = ["FRONTIER"]

COMPARED = ("no_rag", "static", "iterative", "crag", "beliefrag")
"""By default: the paper's closest comparisons that ask for nothing but text."""

_LEAST = 2
"""Questions of a dataset: one says nothing about others."""

Values = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""By method, dataset, measure and question."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """What the methods came to on the questions that all of them finished."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Values
    left_out: Mapping[str, int]
    """Questions of each dataset that some method did not finish."""

    def estimate(self, method: str, dataset: str, measure: str) -> Estimate:
        own = self.values[method]
        if dataset == MEAN:
            return mean_over_datasets({name: own[name][measure] for name in self.datasets})
        return mean_estimate(own[dataset][measure])

    def places(self) -> tuple[str, ...]:
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def front(self, dataset: str) -> dict[str, bool]:
        cost, quality = (
            np.array([self.estimate(m, dataset, name).mean for m in self.methods]) for name in ("tokens", "f1")
        )
        return dict(zip(self.methods, map(bool, on_front(cost, quality)), strict=True))

    def share_on_front(self, dataset: str) -> dict[str, float]:
        names = self.datasets if dataset == MEAN else (dataset,)
        tables = {name: (self._table(name, "tokens"), self._table(name, "f1")) for name in names}
        return dict(zip(self.methods, share_on_front(tables), strict=True))

    def against(self, method: str, other: str, dataset: str) -> PairedComparison:
        if dataset == MEAN:
            return compare_over_datasets(*({d: self.values[m][d] for d in self.datasets} for m in (method, other)))
        return compare(self.values[method][dataset], self.values[other][dataset])

    def _table(self, dataset: str, measure: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        ids = sorted(self.values[self.methods[0]][dataset][measure])
        return np.array([[self.values[m][dataset][measure][key] for m in self.methods] for key in ids])


def _needs(asked: Asked) -> tuple[NeededRun, ...]:
    named = asked.methods or COMPARED
    methods = named if asked.of in named else (*named, asked.of)
    return (NeededRun("comparison", methods, least=methods if asked.methods else (asked.of,)),)


def _work_out(recordings: Mapping[str, Recording], asked: Asked) -> Result:
    recording = recordings["comparison"]
    found = _compared(recording, asked)
    n = _n(recording, found)
    if len(found.methods) < 2:
        return Result.too_little(
            f"A comparison needs episodes of at least two methods, {TITLES[asked.of]} among them.", n=n
        )
    if not found.datasets:
        return Result.too_little(
            f"A comparison needs a dataset of which every method finished at least {_LEAST} questions.", n=n
        )
    fronts = {place: found.front(place) for place in found.places()}
    shares = {place: found.share_on_front(place) for place in found.places()}
    pairs = {
        (place, other): found.against(asked.of, other, place)
        for place in found.places()
        for other in found.methods
        if other != asked.of
    }
    points = {
        place: [_point(found, method, place, fronts[place][method]) for method in found.methods]
        for place in found.places()
    }
    notes = [
        f"Of {name} {count} questions are left out, for some method did not finish them."
        for name, count in found.left_out.items()
        if count
    ]
    notes += [sentence] if (sentence := recording.lacking(*found.methods)) else []
    return Result(
        n=n,
        findings=tuple(_findings(found, fronts, pairs, asked)),
        numbers=_numbers(points, shares, pairs, asked),
        tables=(_points_table(points, shares), _pairs_table(pairs, asked)),
        notes=tuple(notes),
        published=tuple(_published(found)),
        published_note="Their means are over six datasets of 100 questions with gpt-oss-120b; ours are over the "
        "datasets named below with another model. Compare the order of the methods, not the values.",
        draw=partial(draw_frontier, points),
        figure_size=(11.0, 4.4 * ((len(points) + 1) // 2)),
        caption="Mean token F1 against mean tokens per question. Further up is better, further left is cheaper. The "
        "step line joins the methods on the Pareto front, which have filled marks; bars are 95 % intervals.",
    )


def _compared(recording: Recording, asked: Asked) -> _Compared:
    run = recording.run.methods
    methods = tuple(m for m in METHODS if m in run and (not asked.methods or m in (*asked.methods, asked.of)))
    values: dict[str, dict[str, dict[str, dict[str, float]]]] = {method: {} for method in methods}
    datasets, left_out = [], {}
    for dataset in recording.datasets:
        f1 = {method: recording.values(method, dataset, "f1") for method in methods}
        shared = set.intersection(*(set(by_id) for by_id in f1.values())) if f1 else set()
        if len(shared) < _LEAST:
            continue
        datasets.append(dataset)
        left_out[dataset] = len(recording.run.datasets[dataset].question_ids) - len(shared)
        for method in methods:
            tokens = recording.values(method, dataset, "tokens")
            values[method][dataset] = {
                "f1": {key: f1[method][key] for key in sorted(shared)},
                "tokens": {key: tokens[key] for key in sorted(shared)},
            }
    return _Compared(methods, tuple(datasets), values, left_out)


def _n(recording: Recording, found: _Compared) -> str:
    if not found.datasets or not found.methods:
        return f"{len(recording.episodes):,} episodes of {', '.join(recording.datasets) or 'no dataset'}."
    counts = {name: len(found.values[found.methods[0]][name]["f1"]) for name in found.datasets}
    words = ", ".join(f"{count} of {name}" for name, count in counts.items())
    many = f"{sum(counts.values()):,} questions ({words})"
    return f"{many}, each by {len(found.methods)} methods; seed {recording.run.seed}."


def _point(found: _Compared, method: str, place: str, front: bool) -> Point:
    f1, tokens = (Number.of(found.estimate(method, place, name)) for name in ("f1", "tokens"))
    return Point(method, tokens, f1, front)


def _findings(
    found: _Compared,
    fronts: Mapping[str, Mapping[str, bool]],
    pairs: Mapping[tuple[str, str], PairedComparison],
    asked: Asked,
) -> Iterator[str]:
    place = found.places()[0]
    where = "On the mean over datasets" if place == MEAN else f"On {place}"
    front = [m for m in found.methods if fronts[place][m]]
    cheap = sorted(front, key=lambda m: found.estimate(m, place, "tokens").mean)
    names = ", ".join(TITLES[m] for m in cheap)
    yield f"{where} the Pareto front is {names}{', from the cheapest to the best' if len(cheap) > 1 else ' alone'}."
    for other in found.methods:
        if other == asked.of:
            continue
        f1, tokens = (pairs[place, other].measures[name] for name in ("f1", "tokens"))
        doubt = "" if f1.is_clear else "; the difference in F1 is not clear"
        yield (
            f"{TITLES[asked.of]} against {TITLES[other]}: F1 {_gap(f1.difference, '+.3f')} and "
            f"{_gap(tokens.difference, '+,.0f')} tokens per question{doubt}."
        )


def _gap(estimate: Estimate, form: str) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:{form}}"
    return f"{estimate.mean:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def _points_table(points: Mapping[str, list[Point]], shares: Mapping[str, Mapping[str, float]]) -> Table:
    columns = (
        Column("dataset"),
        Column("method"),
        Column("F1", bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
        Column("on the front"),
        Column("resamples on the front", "share", digits=2),
    )
    rows = tuple(
        (place, TITLES[p.method], p.f1, p.tokens, "yes" if p.front else "no", shares[place][p.method])
        for place, each in points.items()
        for p in each
    )
    note = "On the front: no other method is as cheap and as good, and cheaper or better."
    return Table("points", "F1 and tokens of each method", columns, rows, note)


def _pairs_table(pairs: Mapping[tuple[str, str], PairedComparison], asked: Asked) -> Table:
    columns = (
        Column("dataset"),
        Column("against"),
        Column("F1 difference", bounded=True),
        Column("tokens difference", "per question", digits=0, bounded=True),
        Column("better and cheaper", "share of resamples", digits=3),
        Column("n", "questions"),
    )
    rows = tuple(
        (
            place,
            TITLES[other],
            Number.of(pair.measures["f1"].difference),
            Number.of(pair.measures["tokens"].difference),
            pair.better_and_cheaper,
            pair.n,
        )
        for (place, other), pair in pairs.items()
    )
    title = f"{TITLES[asked.of]} minus each other method, on the same questions"
    return Table("differences", title, columns, rows, "10,000 paired resamples.")


def _numbers(
    points: Mapping[str, list[Point]],
    shares: Mapping[str, Mapping[str, float]],
    pairs: Mapping[tuple[str, str], PairedComparison],
    asked: Asked,
) -> dict[str, object]:
    return {
        "of": asked.of,
        "points": {
            place: {
                p.method: {
                    "f1": p.f1,
                    "tokens": p.tokens,
                    "on_front": p.front,
                    "share_on_front": shares[place][p.method],
                }
                for p in each
            }
            for place, each in points.items()
        },
        "differences": [
            {
                "dataset": place,
                "against": other,
                "f1": Number.of(pair.measures["f1"].difference),
                "tokens": Number.of(pair.measures["tokens"].difference),
                "better_and_cheaper": pair.better_and_cheaper,
                "n": pair.n,
            }
            for (place, other), pair in pairs.items()
        ],
    }


def _published(found: _Compared) -> Iterator[Beside]:
    tables = published_tables()
    f1, tokens = tables["gpt_oss_f1"], tables["gpt_oss_main_tokens"]
    place = found.places()[0]
    for method in found.methods:
        if method not in f1.rows:
            continue
        ours = {name: found.estimate(method, place, name) for name in ("f1", "tokens")}
        if (theirs := f1.rows[method].mean) is not None:
            yield Beside(f"{TITLES[method]}, mean F1", theirs, Number.of(ours["f1"]))
        if (theirs := tokens.rows[method].mean) is not None:
            t = ours["tokens"]
            low, high = (None if side is None else side / 1000 for side in (t.low, t.high))
            number = Number(t.mean / 1000, low, high, t.few)
            yield Beside(f"{TITLES[method]}, thousand tokens per question", theirs, number, digits=2)
    for dataset in found.datasets:
        for method in found.methods:
            if (theirs := f1.value(method, dataset)) is not None:
                ours_here = Number.of(found.estimate(method, dataset, "f1"))
                yield Beside(f"{TITLES[method]}, F1 on {dataset}", theirs, ours_here)


FRONTIER = Study(
    name="frontier",
    title="Quality against cost",
    question="How good are the answers of each method, and how many tokens do they take?",
    protocol=(
        "All methods answer the same questions with the same model, corpus, retriever, prompts and budget.",
        "Quality is token F1, cost the tokens that the model read and wrote; a judge is in neither.",
        "Means are over the questions that every method finished; the mean over datasets is the simple one.",
        "Intervals resample questions within each dataset, 2,000 times; differences are paired, 10,000 times.",
        "A method is on the Pareto front if no other one is as cheap and as good, and cheaper or better.",
        "Means are uncertain, and so is the front: a table has the share of resamples in which a method is on it.",
    ),
    needs=_needs,
    work_out=_work_out,
)
