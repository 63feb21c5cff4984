"""Quality against cost: F1 by tokens of every method on the same questions, and which methods are on the front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from beliefrag.methods import METHODS
from beliefrag.report.figure import draw_quality_against_tokens, methods_on_front, shorten
from beliefrag.report.published import published_tables
from beliefrag.report.table import Column
from beliefrag.runs.statistics import Estimate
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

_PAPER_METHODS = (
    *("no_rag", "static", "iterative", "adaptive_k", "adaptive_rag"),
    *("self_rag", "crag", "rl_search", METHOD),
)
_MEASURES = {"f1": Column("F1"), "tokens": Column("tokens", "per question", 0)}


@STUDIES.register(
    "frontier",
    title="Quality against cost",
    summary="How good are the answers of each method, and how many tokens do they take?",
)
@dataclass(frozen=True, slots=True)
class FrontierStudy:
    """Compares methods in F1 and tokens."""

    of: str = METHOD
    """The method that the others are compared with."""
    methods: tuple[str, ...] = ()
    """The methods that are compared; empty for those of the paper, or for all that an existing run has."""

    def __post_init__(self) -> None:
        for name in (self.of, *self.methods):
            METHODS[name]  # raises if it is unknown

    protocol: ClassVar[tuple[str, ...]] = (
        "All methods answer the same questions with the same model, corpus, retriever, prompts and budget.",
        "Quality is token F1, cost the tokens that the model read and wrote; a judge is in neither.",
        "Means are over the questions that every method finished; the mean over datasets is the simple one.",
        "Intervals resample questions within each dataset, 2,000 times; differences are paired, 10,000 times.",
        "A method is on the Pareto front if no other one is as cheap and as good, and cheaper or better.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run with all methods."""
        return (RequiredRun("comparison", tuple(dict.fromkeys((*(self.methods or _PAPER_METHODS), self.of)))),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute means, differences and the Pareto front."""
        recording = recordings["comparison"]
        run = recording.run.methods
        methods = [m for m in METHODS if m in run and (not self.methods or m in (*self.methods, self.of))]
        found = Compared.on_shared_questions(methods, recording.datasets, recording.values, _MEASURES, self.of)
        sample = f"{describe_counts(found.questions)}, each by {len(methods)} methods; seed {recording.run.seed}."
        if len(methods) < 2:
            why = f"A comparison needs episodes of at least two methods, {METHODS.title(self.of)} among them."
            return StudyResult.insufficient(why, sample=sample)
        if not found.scopes:
            why = f"A comparison needs a dataset of which every method finished at least {MIN_QUESTIONS} questions."
            return StudyResult.insufficient(why, sample=sample)
        panels = {scope: {name: _tokens_and_f1(found, name, scope) for name in methods} for scope in found.scopes}
        fronts = {scope: methods_on_front(means) for scope, means in panels.items()}
        front = ", ".join(map(METHODS.title, fronts[found.scopes[0]]))
        where = f"the mean over {len(found.scopes) - 1} datasets"
        titles = {scope: where if scope == MEAN else shorten(scope) for scope in found.scopes}
        absent = [METHODS.title(method) for method in _PAPER_METHODS if method not in methods]
        notes = [f"Methods of the paper that are not in this run: {', '.join(absent)}."] if absent else []
        shown = {titles[scope]: means for scope, means in panels.items()}
        if theirs := _paper_means(methods):
            shown["the paper: gpt-oss-120b, mean over its six datasets"] = theirs
        return StudyResult(
            sample=sample,
            findings=(
                f"Of {len(methods)} methods, from the cheapest to the best, these are on the Pareto front: {front}.",
                *found.findings("f1", "tokens"),
            ),
            numbers={"of": self.of},
            tables=(
                found.means_table(
                    "points",
                    "F1 and tokens of each method",
                    "On the front: no other method is as cheap and as good, and cheaper or better.",
                    lambda scope, name: {"on the front": "yes" if name in fronts[scope] else "no"},
                ),
                found.differences_table("differences"),
            ),
            notes=(*found.notes(), *notes, *recording.missing_notes(*methods)),
            paper_values=tuple(_paper_values(found)),
            paper_note="Theirs are means over six datasets of 100 questions with gpt-oss-120b. Compare the order of "
            "the methods, not the values.",
            draw=partial(draw_quality_against_tokens, shown),
            figure_size=(11.0, 4.4 * ((len(shown) + 1) // 2)),
            caption="Mean token F1 against mean tokens per question. The step line joins the methods on the Pareto "
            "front, which have filled marks; bars are 95 % intervals.",
        )


def _tokens_and_f1(found: Compared, name: str, scope: str) -> tuple[Estimate, Estimate]:
    tokens, f1 = (found.mean(name, measure, scope) for measure in ("tokens", "f1"))
    assert tokens is not None and f1 is not None
    return tokens, f1


def _paper_means(methods: Sequence[str]) -> dict[str, tuple[Estimate, Estimate]]:
    """Return the mean tokens and the mean F1 of these methods in the paper; empty if it lacks one of them."""
    f1, thousands = published_tables()["gpt_oss_f1"].rows, published_tables()["gpt_oss_main_tokens"].rows
    pairs = {name: (thousands[name].mean, f1[name].mean) for name in methods if name in f1}
    means = {n: (Estimate(1000 * t), Estimate(f)) for n, (t, f) in pairs.items() if t is not None and f is not None}
    return means if len(means) == len(methods) else {}


def _paper_values(found: Compared) -> Iterator[PaperValue]:
    """Yield the means of the paper, and its F1 on the datasets that are here, each beside ours."""
    tables = published_tables()
    f1, thousands = tables["gpt_oss_f1"], tables["gpt_oss_main_tokens"]
    shown = [name for name in found.values if name in f1.rows]
    for name in shown:
        mean_f1, mean_tokens = f1.rows[name].mean, thousands.rows[name].mean
        if mean_f1 is not None:
            yield PaperValue(f"{METHODS.title(name)}, mean F1", mean_f1, found.mean(name, "f1"))
        if mean_tokens is not None:
            ours, _ = _tokens_and_f1(found, name, "")
            low, high = (None if side is None else side / 1000 for side in (ours.low, ours.high))
            ours = replace(ours, value=ours.value / 1000, low=low, high=high)
            yield PaperValue(f"{METHODS.title(name)}, thousand tokens per question", mean_tokens, ours, digits=2)
    for dataset in found.left_out:
        for name in shown:
            if (theirs := f1.value(name, dataset)) is not None:
                yield PaperValue(f"{METHODS.title(name)}, F1 on {dataset}", theirs, found.mean(name, "f1", dataset))
