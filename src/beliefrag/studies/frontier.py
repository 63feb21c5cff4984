"""Quality against cost: F1 by tokens of every method on the same questions, and which methods are on the front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator

from beliefrag.bench.setup import choose_methods
from beliefrag.methods import METHODS
from beliefrag.report.figure import CostPanel, draw_quality_against_tokens, shorten
from beliefrag.report.published import published_tables
from beliefrag.report.table import CellValue, Column
from beliefrag.runs.statistics import Estimate, Floats, share_on_front
from beliefrag.runs.summary import MEAN
from beliefrag.studies.study import (
    METHOD,
    MIN_QUESTIONS,
    STUDIES,
    Compared,
    PaperValue,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    describe_counts,
)

__all__ = ["FrontierStudy"]

_PAPER_METHODS = (
    *("no_rag", "static", "iterative", "adaptive_k", "adaptive_rag"),
    *("self_rag", "crag", "rl_search", METHOD),
)

_SIDES = ("value", "low", "high")
_MEASURES = {"f1": Column("F1"), "tokens": Column("tokens", "per question", 0)}


def _read_methods(given: object) -> object:
    """Read names separated by commas, or by plus signs where commas separate options."""
    return choose_methods(given.replace("+", ",")) if isinstance(given, str) and given else given or ()


def _read_method(given: object) -> object:
    return choose_methods(given)[0] if isinstance(given, str) else given


@STUDIES.register(
    "frontier",
    title="Quality against cost",
    summary="How good are the answers of each method, and how many tokens do they take?",
)
@dataclass(frozen=True, slots=True)
class FrontierStudy:
    """Compares methods in F1 and tokens."""

    of: Annotated[str, BeforeValidator(_read_method)] = METHOD
    """The method that the others are compared with."""
    methods: Annotated[tuple[str, ...], BeforeValidator(_read_methods)] = ()
    """The methods that are compared; empty for those of the paper, or for all that an existing run has."""

    protocol: ClassVar[tuple[str, ...]] = (
        "All methods answer the same questions with the same model, corpus, retriever, prompts and budget.",
        "Quality is token F1, cost the tokens that the model read and wrote; a judge is in neither.",
        "Means are over the questions that every method finished; the mean over datasets is the simple one.",
        "Intervals resample questions within each dataset, 2,000 times; differences are paired, 10,000 times.",
        "A method is on the Pareto front if no other one is as cheap and as good, and cheaper or better.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run with all methods; an existing run only needs the one that is compared with others."""
        named = self.methods or _PAPER_METHODS
        methods = named if self.of in named else (*named, self.of)
        return (RequiredRun("comparison", methods, sufficient_methods=methods if self.methods else (self.of,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute means, differences and the Pareto front."""
        recording = recordings["comparison"]
        run = recording.run.methods
        methods = [m for m in METHODS if m in run and (not self.methods or m in (*self.methods, self.of))]
        values = {
            m: {d: {k: recording.values(m, d, k) for k in _MEASURES} for d in recording.datasets} for m in methods
        }
        found = Compared.on_shared_questions(values, _MEASURES, self.of)
        sample = f"{describe_counts(found.questions)}, each by {len(methods)} methods; seed {recording.run.seed}."
        if len(methods) < 2:
            why = f"A comparison needs episodes of at least two methods, {METHODS.title(self.of)} among them."
            return StudyResult.insufficient(why, sample=sample)
        if not found.scopes:
            why = f"A comparison needs a dataset of which every method finished at least {MIN_QUESTIONS} questions."
            return StudyResult.insufficient(why, sample=sample)
        panels = {scope: _make_panel(found, scope) for scope in found.scopes}
        shares = {scope: _shares_on_front(found, scope) for scope in found.scopes}
        fronts = {scope: {point.label for point in panel.points if point.on_front} for scope, panel in panels.items()}

        def describe_front(scope: str, name: str) -> dict[str, CellValue]:
            on_front = "yes" if METHODS.title(name) in fronts[scope] else "no"
            return {"on the front": on_front, "resamples on the front (share)": shares[scope][name]}

        absent = [METHODS.title(method) for method in _PAPER_METHODS if method not in methods]
        notes = [f"Methods of the paper that are not in this run: {', '.join(absent)}."] if absent else []
        front_note = "On the front: no other method is as cheap and as good, and cheaper or better."
        return StudyResult(
            sample=sample,
            findings=(_describe_front(*next(iter(panels.items()))), *found.findings("f1", "tokens").values()),
            numbers={"of": self.of},
            tables=(
                found.means_table("points", "F1 and tokens of each method", front_note, describe_front),
                found.differences_table("differences"),
            ),
            notes=(*found.notes(), *notes, *recording.missing_notes(*methods)),
            paper_values=tuple(_paper_values(found)),
            paper_note="Their means are over six datasets of 100 questions with gpt-oss-120b; ours are over the "
            "datasets named below with another model. Compare the order of the methods, not the values.",
            draw=partial(draw_quality_against_tokens, list(panels.values())),
            figure_size=(11.0, 4.4 * ((len(panels) + 1) // 2)),
            caption="Mean token F1 against mean tokens per question. The step line joins the methods on the Pareto "
            "front, which have filled marks; bars are 95 % intervals.",
        )


def _make_panel(found: Compared, scope: str) -> CostPanel:
    title = f"mean over {len(found.scopes) - 1} datasets" if scope == MEAN else shorten(scope)
    means = {name: (found.mean(name, "tokens", scope), found.mean(name, "f1", scope)) for name in found.values}
    return CostPanel.of_methods(title, {name: (t, f1) for name, (t, f1) in means.items() if t and f1})


def _describe_front(scope: str, panel: CostPanel) -> str:
    where = "On the mean over datasets" if scope == MEAN else f"On {scope}"
    front = sorted((point.tokens.value, point.label) for point in panel.points if point.on_front)
    order = ", from the cheapest to the best" if len(front) > 1 else " alone"
    names = ", ".join(label for _, label in front)
    return f"{where} the Pareto front among these {len(panel.points)} methods is {names}{order}."


def _shares_on_front(found: Compared, scope: str) -> dict[str, float]:
    def read(dataset: str, measure: str) -> Floats:
        return np.array([list(found.column(name, measure, dataset).values()) for name in found.values]).T

    datasets = tuple(found.left_out) if scope == MEAN else (scope,)
    shares = share_on_front({dataset: (read(dataset, "tokens"), read(dataset, "f1")) for dataset in datasets})
    return dict(zip(found.values, shares, strict=True))


def _paper_values(found: Compared) -> Iterator[PaperValue]:
    """Yield the means of the paper, and its F1 on the datasets that are here, each beside ours."""
    tables = published_tables()
    f1, tokens = tables["gpt_oss_f1"], tables["gpt_oss_main_tokens"]
    for name in found.values:
        if name in f1.rows and (theirs := f1.rows[name].mean) is not None:
            yield PaperValue(f"{METHODS.title(name)}, mean F1", theirs, found.mean(name, "f1"))
        if name in f1.rows and (theirs := tokens.rows[name].mean) is not None:
            ours = found.mean(name, "tokens") or Estimate(0.0)
            sides = {side: value / 1000 for side, value in asdict(ours).items() if side in _SIDES and value is not None}
            what = f"{METHODS.title(name)}, thousand tokens per question"
            yield PaperValue(what, theirs, replace(ours, **sides), digits=2)
    for dataset in found.left_out:
        for name in found.values:
            if (theirs := f1.value(name, dataset)) is not None:
                yield PaperValue(f"{METHODS.title(name)}, F1 on {dataset}", theirs, found.mean(name, "f1", dataset))
