"""Quality against cost: F1 by tokens of every method on the same questions, and which methods nothing else beats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator

from beliefrag.bench.setup import choose_methods
from beliefrag.methods import METHODS
from beliefrag.report.figure import MARKERS, CostPanel, CostPoint, draw_quality_against_tokens, shorten
from beliefrag.report.published import published_tables
from beliefrag.report.table import Column, Table, format_number
from beliefrag.runs.statistics import (
    Estimate,
    Floats,
    PairedComparison,
    compare,
    compare_over_datasets,
    mean_estimate,
    mean_over_datasets,
    pareto_front,
    share_on_front,
)
from beliefrag.runs.summary import MEAN
from beliefrag.studies.study import STUDIES, PaperValue, Recording, RequiredRun, StudyContext, StudyResult

__all__ = ["FrontierStudy"]

_PAPER_METHODS = (
    *("no_rag", "static", "iterative", "adaptive_k", "adaptive_rag"),
    *("self_rag", "crag", "rl_search", "beliefrag"),
)
"""The methods that are compared by default: those of the paper."""
_MIN_QUESTIONS = 2
"""Questions of a dataset that every method must have finished: one question says nothing about others."""

Values = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""By method, dataset, measure and question."""


def _read_methods(given: object) -> object:
    """Read names with commas between them, or plus signs where commas already part options."""
    return choose_methods(given.replace("+", ",")) if isinstance(given, str) and given else given or ()


def _read_method(given: object) -> object:
    return choose_methods(given)[0] if isinstance(given, str) else given


MethodName = Annotated[str, BeforeValidator(_read_method)]
MethodNames = Annotated[tuple[str, ...], BeforeValidator(_read_methods)]


@STUDIES.register(
    "frontier",
    title="Quality against cost",
    summary="How good are the answers of each method, and how many tokens do they take?",
)
@dataclass(frozen=True, slots=True)
class FrontierStudy:
    """Compares methods in F1 and tokens."""

    of: MethodName = "beliefrag"
    """The method that the others are compared with."""
    methods: MethodNames = ()
    """The methods that are compared; empty for those of the paper, or for all that an existing run has."""

    protocol: ClassVar[tuple[str, ...]] = (
        "All methods answer the same questions with the same model, corpus, retriever, prompts and budget.",
        "Quality is token F1, cost the tokens that the model read and wrote; a judge is in neither.",
        "Means are over the questions that every method finished; the mean over datasets is the simple one.",
        "Intervals resample questions within each dataset, 2,000 times; differences are paired, 10,000 times.",
        "A method is on the Pareto front if no other one is as cheap and as good, and cheaper or better.",
        "Means are uncertain, and so is the front: a table has the share of resamples in which a method is on it.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run with all methods; an existing run needs no more than the one that is compared with others."""
        named = self.methods or _PAPER_METHODS
        methods = named if self.of in named else (*named, self.of)
        return (RequiredRun("comparison", methods, sufficient_methods=methods if self.methods else (self.of,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out means, differences and the Pareto front."""
        recording = recordings["comparison"]
        found = self._select_values(recording)
        sample = found.describe_sample(recording)
        if len(found.methods) < 2:
            return StudyResult.insufficient(
                f"A comparison needs episodes of at least two methods, {METHODS.title(self.of)} among them.",
                sample=sample,
            )
        if not found.datasets:
            return StudyResult.insufficient(
                f"A comparison needs a dataset of which every method finished at least {_MIN_QUESTIONS} questions.",
                sample=sample,
            )
        points = {scope: found.points(scope) for scope in found.scopes}
        pairs = {
            (scope, other): found.compare(self.of, other, scope)
            for scope in found.scopes
            for other in found.methods
            if other != self.of
        }
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(points, pairs, self.of)),
            numbers=_collect_numbers(points, pairs, self.of),
            tables=(_points_table(points), _pairs_table(pairs, self.of)),
            notes=tuple(_write_notes(recording, found)),
            paper_values=tuple(_paper_values(found)),
            paper_note="Their means are over six datasets of 100 questions with gpt-oss-120b; ours are over the "
            "datasets named below with another model. Compare the order of the methods, not the values.",
            draw=partial(draw_quality_against_tokens, _make_panels(points)),
            figure_size=(11.0, 4.4 * ((len(points) + 1) // 2)),
            caption="Mean token F1 against mean tokens per question. Further up is better, further left is cheaper. "
            "The step line joins the methods on the Pareto front, which have filled marks; bars are 95 % intervals.",
        )

    def _select_values(self, recording: Recording) -> _ComparedMethods:
        """Return the values of the methods of a run, or of the chosen ones, on questions that all finished."""
        run = recording.run.methods
        methods = tuple(m for m in METHODS if m in run and (not self.methods or m in (*self.methods, self.of)))
        values: dict[str, dict[str, dict[str, dict[str, float]]]] = {method: {} for method in methods}
        datasets, left_out = [], {}
        for dataset in recording.datasets:
            f1 = {method: recording.values(method, dataset, "f1") for method in methods}
            common = set.intersection(*(set(by_id) for by_id in f1.values())) if f1 else set()
            if len(common) < _MIN_QUESTIONS:
                continue
            datasets.append(dataset)
            left_out[dataset] = len(recording.run.datasets[dataset].question_ids) - len(common)
            for method in methods:
                tokens = recording.values(method, dataset, "tokens")
                values[method][dataset] = {
                    "f1": {key: f1[method][key] for key in sorted(common)},
                    "tokens": {key: tokens[key] for key in sorted(common)},
                }
        return _ComparedMethods(methods, tuple(datasets), values, left_out)


@dataclass(frozen=True, slots=True)
class _MethodPoint:
    """One method on one dataset, or on the mean over all."""

    method: str
    tokens: Estimate
    f1: Estimate
    on_front: bool
    share_on_front: float
    """The share of resamples in which it is on the front."""


@dataclass(frozen=True, slots=True)
class _ComparedMethods:
    """The values of the methods on the questions that all of them finished."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Values
    left_out: Mapping[str, int]
    """Questions of each dataset that some method did not finish."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The mean over datasets, where there are several, and each dataset."""
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def mean(self, method: str, scope: str, measure: str) -> Estimate:
        """Return the mean of a method in one measure, on a dataset or over all."""
        own = self.values[method]
        if scope == MEAN:
            return mean_over_datasets({name: own[name][measure] for name in self.datasets}).without_flat_interval()
        return mean_estimate(own[scope][measure]).without_flat_interval()

    def points(self, scope: str) -> list[_MethodPoint]:
        """Return all methods with their means, and whether they are on the Pareto front."""
        tokens, f1 = ([self.mean(m, scope, name) for m in self.methods] for name in ("tokens", "f1"))
        front = pareto_front(np.array([each.value for each in tokens]), np.array([each.value for each in f1]))
        names = self.datasets if scope == MEAN else (scope,)
        shares = share_on_front({name: (self._matrix(name, "tokens"), self._matrix(name, "f1")) for name in names})
        columns = zip(self.methods, tokens, f1, map(bool, front), shares, strict=True)
        return [_MethodPoint(*column) for column in columns]

    def compare(self, method: str, other: str, scope: str) -> PairedComparison:
        """Return the paired difference of one method with another one."""
        if scope == MEAN:
            return compare_over_datasets(*({d: self.values[m][d] for d in self.datasets} for m in (method, other)))
        return compare(self.values[method][scope], self.values[other][scope])

    def describe_sample(self, recording: Recording) -> str:
        """Return how many questions are compared."""
        if not self.datasets or not self.methods:
            return f"{len(recording.episodes):,} episodes of {', '.join(recording.datasets) or 'no dataset'}."
        counts = {name: len(self.values[self.methods[0]][name]["f1"]) for name in self.datasets}
        words = ", ".join(f"{count} of {name}" for name, count in counts.items())
        questions = f"{sum(counts.values()):,} questions ({words})"
        return f"{questions}, each by {len(self.methods)} methods; seed {recording.run.seed}."

    def _matrix(self, dataset: str, measure: str) -> Floats:
        ids = sorted(self.values[self.methods[0]][dataset][measure])
        return np.array([[self.values[m][dataset][measure][key] for m in self.methods] for key in ids])


Points = Mapping[str, list[_MethodPoint]]
Pairs = Mapping[tuple[str, str], PairedComparison]
"""By scope and the other method."""


def _write_notes(recording: Recording, found: _ComparedMethods) -> Iterator[str]:
    for name, count in found.left_out.items():
        if count:
            yield f"Of {name} {count} questions are left out, for some method did not finish them."
    if small := [name for name in recording.datasets if name not in found.datasets]:
        names = ", ".join(small)
        yield f"Left out, with fewer than {_MIN_QUESTIONS} questions that every method finished: {names}."
    if missing := [METHODS.title(method) for method in _PAPER_METHODS if method not in found.methods]:
        yield f"Methods of the paper that are not in this run: {', '.join(missing)}."
    if sentence := recording.describe_missing(*found.methods):
        yield sentence


def _make_panels(points: Points) -> list[CostPanel]:
    markers = {method: MARKERS[place % len(MARKERS)] for place, method in enumerate(METHODS)}
    return [
        CostPanel(
            f"mean over {len(points) - 1} datasets" if scope == MEAN else shorten(scope),
            tuple(CostPoint(METHODS.title(p.method), p.tokens, p.f1, markers[p.method], p.on_front) for p in each),
        )
        for scope, each in points.items()
    ]


def _describe_findings(points: Points, pairs: Pairs, of: str) -> Iterator[str]:
    scope, each = next(iter(points.items()))
    where = "On the mean over datasets" if scope == MEAN else f"On {scope}"
    front = sorted((point for point in each if point.on_front), key=lambda point: point.tokens.value)
    names = ", ".join(METHODS.title(point.method) for point in front)
    order = ", from the cheapest to the best" if len(front) > 1 else " alone"
    yield f"{where} the Pareto front among these {len(each)} methods is {names}{order}."
    for point in each:
        if point.method == of:
            continue
        f1, tokens = (pairs[scope, point.method].measures[name] for name in ("f1", "tokens"))
        doubt = "" if f1.is_clear else "; the difference in F1 is not clear"
        more, cost = (each.difference.without_flat_interval() for each in (f1, tokens))
        yield (
            f"{METHODS.title(of)} against {METHODS.title(point.method)}: F1 {format_number(more, '+.3f')} and "
            f"{format_number(cost, '+,.0f')} tokens per question{doubt}."
        )


def _points_table(points: Points) -> Table:
    columns = (
        Column("dataset"),
        Column("method"),
        Column("F1", bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
        Column("on the front"),
        Column("resamples on the front", "share", digits=2),
    )
    rows = tuple(
        (scope, METHODS.title(p.method), p.f1, p.tokens, "yes" if p.on_front else "no", p.share_on_front)
        for scope, each in points.items()
        for p in each
    )
    note = "On the front: no other method is as cheap and as good, and cheaper or better."
    return Table("points", "F1 and tokens of each method", columns, rows, note)


def _pairs_table(pairs: Pairs, of: str) -> Table:
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
            scope,
            METHODS.title(other),
            pair.measures["f1"].difference.without_flat_interval(),
            pair.measures["tokens"].difference.without_flat_interval(),
            pair.better_and_cheaper,
            pair.questions,
        )
        for (scope, other), pair in pairs.items()
    )
    title = f"{METHODS.title(of)} minus each other method, on the same questions"
    return Table("differences", title, columns, rows, "10,000 paired resamples.")


def _collect_numbers(points: Points, pairs: Pairs, of: str) -> dict[str, object]:
    return {
        "of": of,
        "points": {
            scope: {
                p.method: {
                    "f1": p.f1,
                    "tokens": p.tokens,
                    "on_front": p.on_front,
                    "share_on_front": p.share_on_front,
                }
                for p in each
            }
            for scope, each in points.items()
        },
        "differences": [
            {
                "dataset": scope,
                "against": other,
                "f1": pair.measures["f1"].difference.without_flat_interval(),
                "tokens": pair.measures["tokens"].difference.without_flat_interval(),
                "better_and_cheaper": pair.better_and_cheaper,
                "n": pair.questions,
            }
            for (scope, other), pair in pairs.items()
        ],
    }


def _paper_values(found: _ComparedMethods) -> Iterator[PaperValue]:
    """Return the means of the paper, and its F1 on the datasets that are here, each beside ours."""
    tables = published_tables()
    f1, tokens = tables["gpt_oss_f1"], tables["gpt_oss_main_tokens"]
    scope = found.scopes[0]
    for method in found.methods:
        if method not in f1.rows:
            continue
        title = METHODS.title(method)
        if (theirs := f1.rows[method].mean) is not None:
            yield PaperValue(f"{title}, mean F1", theirs, found.mean(method, scope, "f1"))
        if (theirs := tokens.rows[method].mean) is not None:
            ours = found.mean(method, scope, "tokens")
            low, high = (None if side is None else side / 1000 for side in (ours.low, ours.high))
            thousands = replace(ours, value=ours.value / 1000, low=low, high=high)
            yield PaperValue(f"{title}, thousand tokens per question", theirs, thousands, digits=2)
    for dataset in found.datasets:
        for method in found.methods:
            if (theirs := f1.value(method, dataset)) is not None:
                yield PaperValue(f"{METHODS.title(method)}, F1 on {dataset}", theirs, found.mean(method, dataset, "f1"))
