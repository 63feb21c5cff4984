"""What a study is, what it reads and gives, and where all studies are registered, ours and those of other packages.

A study is a frozen dataclass whose fields are its options. It names the runs that it needs, and computes its result
from their recordings alone. `CONTRIBUTING.md` has an example; another package names its module in the entry-point group
`beliefrag.studies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from beliefrag.bench.questions import Dataset
from beliefrag.errors import BeliefRAGError, MissingExtra
from beliefrag.methods import METHODS
from beliefrag.methods.intervention import Intervention
from beliefrag.record import EpisodeSummary
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.report.figure import figure_svg, open_figure
from beliefrag.report.published import MARK, published_numbers
from beliefrag.report.table import Block, CellValue, Column, Heading, Page, Picture, Table, format_cell, format_number
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.states import Label, State, Trajectory, read_trajectories
from beliefrag.runs.statistics import (
    MEAN_RESAMPLES,
    Estimate,
    Floats,
    PairedComparison,
    compare,
    compare_over_datasets,
    estimate_from_resamples,
    mean_estimate,
    mean_over_datasets,
    resample_weights,
)
from beliefrag.runs.summary import MEAN, measure_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHOD = "beliefrag"
MIN_QUESTIONS = 2
"""Questions that a dataset must have: one says nothing about others."""


class StudyError(BeliefRAGError):
    """A study lacks runs, datasets or methods that it needs."""


@dataclass(frozen=True, slots=True)
class PaperValue:
    """A value of the paper beside ours."""

    what: str
    theirs: float
    ours: Estimate | None
    digits: int = 3


def compare_with_paper(ours: Mapping[str, Estimate | None]) -> tuple[PaperValue, ...]:
    """Set our values beside those that the paper has under the same ids (see `report.published`)."""
    theirs = published_numbers()
    return tuple(PaperValue(theirs[name].what, theirs[name].value, estimate) for name, estimate in ours.items())


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The result of a study, computed from records alone. A notebook shows it as a page."""

    sample: str
    """A sentence that says how many questions, states or episodes of which datasets the numbers rest on."""
    findings: tuple[str, ...]
    """Sentences, the most important first; or why a result is missing."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain values and `Estimate`s for programs that no table has."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    paper_values: tuple[PaperValue, ...] = ()
    paper_note: str = ""
    draw: Callable[[Figure], None] | None = None
    """Draws the figure of the study on an empty one of `figure_size` inches; `caption` says what it shows."""
    figure_size: tuple[float, float] = (9.0, 5.5)
    caption: str = ""

    @classmethod
    def insufficient(cls, why: str, *, sample: str, notes: Iterable[str] = ()) -> StudyResult:
        """Return a result without numbers that says which data are missing."""
        return cls(sample=sample, findings=(why,), numbers={"too_little": why}, notes=tuple(notes))

    def open_figure(self) -> Figure | None:
        """Draw the figure of the study, if it has one and matplotlib is installed."""
        if self.draw is None:
            return None
        try:
            figure = open_figure(self.figure_size)
        except MissingExtra:
            return None
        self.draw(figure)
        return figure

    def page_blocks(self, figure: Figure | None, file: str = "") -> Iterator[Block]:
        """Return the findings, the figure, the values of the paper and all tables for a page."""
        yield from (Heading("Findings"), self.findings)
        if figure:
            yield from (Picture(figure_svg(figure, self.caption), self.caption, file), self.caption)
        if self.paper_values:
            yield Heading("Beside the paper")
            yield f"The values in the last column are theirs, {MARK}. {self.paper_note}".strip()
            rows = [(p.what, format_cell(p.ours, p.digits), format_cell(p.theirs, p.digits)) for p in self.paper_values]
            yield Table.of_texts("paper", "", ("what", "here", "theirs"), rows)
        if self.tables:
            yield Heading("Numbers")
            yield "In brackets: 95 % bootstrap intervals over questions; ? marks one on fewer than 20 of them."
        yield from self.tables

    def _repr_html_(self) -> str:
        return Page("Study", (*self.page_blocks(self.open_figure()), self.sample, self.notes))._repr_html_()


@dataclass(frozen=True, slots=True)
class Recording:
    """The part of a run that a study reads: the episodes that were asked for, of the datasets that it is about."""

    run: RunRecord
    episodes: tuple[EpisodeSummary, ...]
    """Finished and failed ones, in an order that does not depend on the file."""
    trajectories: tuple[Trajectory, ...]

    @classmethod
    def read(cls, folder: Path) -> Recording:
        """Read the folder of a run."""
        run, trajectories = read_trajectories(folder)
        asked = {
            (dataset, method, question_id)
            for dataset, record in run.datasets.items()
            for method in run.methods
            for question_id in record.question_ids
        }
        by_place = {(t.dataset, t.method, t.question_id): t for t in trajectories}
        return cls(
            run=run,
            episodes=tuple(episode for key, episode in sorted(read_summaries(folder).items()) if key[:3] in asked),
            trajectories=tuple(trajectory for place, trajectory in sorted(by_place.items()) if place in asked),
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets that have episodes, in the order of the run."""
        present = {episode.key.dataset for episode in self.episodes}
        return tuple(name for name in self.run.datasets if name in present)

    def episodes_of(self, method: str, dataset: str | None = None) -> list[EpisodeSummary]:
        """Return the episodes of one method, on one dataset or on all."""
        return [e for e in self.episodes if e.key.method == method and dataset in (None, e.key.dataset)]

    @property
    def controller(self) -> str:
        """The name of the controller in this run: `lean` if it ran under the default profile alone."""
        return METHOD if any(each.method == METHOD for each in self.trajectories) else "lean"

    def trajectories_of(self, method: str) -> list[Trajectory]:
        """Return the states of one method, by episode."""
        return [trajectory for trajectory in self.trajectories if trajectory.method == method]

    def values(self, method: str, dataset: str, measure: str) -> dict[str, float]:
        """Return one value of a measure for each question, without failed episodes and those that lack the measure."""
        return measure_values(self.episodes_of(method, dataset), measure)

    def accuracy(self, method: str, dataset: str, label: Label) -> dict[str, float]:
        """Return for each question 1 for an answer that is right by that measure, otherwise 0, as for an abstention."""
        return {key: float(value >= 0.5) for key, value in self.values(method, dataset, label).items()}

    def pooled(self, method: str, measure: str) -> dict[str, float]:
        """Return the values of a measure on all datasets, by `DATASET/QUESTION`."""
        by_dataset = {dataset: self.values(method, dataset, measure) for dataset in self.datasets}
        return {f"{dataset}/{key}": value for dataset, own in by_dataset.items() for key, value in own.items()}

    def missing_notes(self, *methods: str) -> tuple[str, ...]:
        """Return a sentence on the episodes of these methods that are in no number, if there are any."""
        own = [episode for episode in self.episodes if episode.key.method in methods]
        asked = sum(len(self.run.datasets[name].question_ids) for name in self.datasets) * len(methods)
        failed = sum(not episode.finished for episode in own)
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{asked - len(own):,} are missing"] if asked > len(own) else []
        return (f"Of {asked:,} episodes {' and '.join(parts)}: they are in no number.",) if parts else ()


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return how many questions there are, also of each dataset."""
    words = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
    return f"{sum(counts.values()):,} questions ({words or 'none'})"


Extra = Callable[[str, str], Mapping[str, CellValue]]


@dataclass(frozen=True)
class Compared:
    """Several methods or variants on the questions that all of them finished, one of them compared with the others."""

    values: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
    """By the name of the method or variant, dataset, measure and question."""
    measures: Mapping[str, Column]
    of: str
    left_out: Mapping[str, int]
    """Of each compared dataset, how many questions some of them did not finish."""
    too_few: tuple[str, ...]
    """Datasets with too few shared questions, which are in no number."""
    reverse: bool = False
    """Whether differences are the others minus `of`, not `of` minus the others."""
    stratified: bool = False
    """Whether a single dataset is resampled as one of several, with the seed of its place."""

    @classmethod
    def on_shared_questions(
        cls,
        names: Sequence[str],
        datasets: Sequence[str],
        read: Callable[[str, str, str], Mapping[str, float]],
        measures: Mapping[str, Column],
        of: str = METHOD,
        *,
        min_questions: int = MIN_QUESTIONS,
        **how: bool,
    ) -> Compared:
        """Compare on the questions for which `read(name, dataset, measure)` has every value of every name."""
        values: dict[str, dict[str, Any]] = {name: {} for name in names}
        left_out, too_few = {}, []
        for dataset in datasets:
            own = {name: {measure: read(name, dataset, measure) for measure in measures} for name in names}
            ids = [set(by_id) for each in own.values() for by_id in each.values()]
            shared = sorted(set.intersection(*ids))
            if len(shared) < min_questions:
                too_few.append(dataset)
                continue
            left_out[dataset] = len(set.union(*ids)) - len(shared)
            for name, each in own.items():
                values[name][dataset] = {m: {key: by_id[key] for key in shared} for m, by_id in each.items()}
        return cls(values, measures, of, left_out, tuple(too_few), **how)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The mean over datasets, if there are several, and each dataset."""
        return (MEAN, *self.left_out) if len(self.left_out) > 1 else tuple(self.left_out)

    @property
    def questions(self) -> Mapping[str, int]:
        """How many questions of each dataset are compared."""
        return {dataset: len(next(iter(self.values[self.of][dataset].values()))) for dataset in self.left_out}

    def mean(self, name: str, measure: str, scope: str = "") -> Estimate | None:
        """Return the mean on a dataset, or over all; of the first scope by default. None without any value."""
        own = {dataset: self.values[name][dataset][measure] for dataset in self._datasets(scope)}
        if not own:
            return None
        if len(own) > 1 or self.stratified:
            return mean_over_datasets(own).without_flat_interval()
        return mean_estimate(next(iter(own.values()))).without_flat_interval()

    @cached_property
    def _pairs(self) -> Mapping[tuple[str, str], PairedComparison]:
        """The paired differences, by scope and the other name."""
        others = [name for name in self.values if name != self.of]
        return {(scope, other): self._compare(scope, other) for scope in self.scopes for other in others}

    def difference(self, other: str, measure: str, scope: str = "") -> Estimate:
        """Return the paired difference in a measure, without an interval if it is the same for all questions."""
        found = self._pairs[scope or self.scopes[0], other].measures[measure]
        return found.difference.without_flat_interval()

    def means_table(self, name: str, title: str, note: str = "", extra: Extra = lambda scope, each: {}) -> Table:
        """Return the means of all measures, a row for each scope and name."""
        records = [
            {
                "dataset": scope,
                "name": METHODS.title(each),
                **{column.heading: self.mean(each, measure, scope) for measure, column in self.measures.items()},
                **extra(scope, each),
            }
            for scope in self.scopes
            for each in self.values
        ]
        return Table.of_records(name, title, records, note, {c.name: c.digits for c in self.measures.values()})

    def differences_table(self, name: str, extra: Extra = lambda scope, each: {}) -> Table:
        """Return the paired differences in all measures, a row for each scope and other name."""
        columns = {m: replace(column, name=f"{column.name} difference") for m, column in self.measures.items()}
        records = []
        for (scope, other), pair in self._pairs.items():
            record: dict[str, CellValue] = {"dataset": scope, "name": METHODS.title(other)}
            record |= {column.heading: self.difference(other, m, scope) for m, column in columns.items()}
            if not self.reverse and pair.better_and_cheaper is not None:
                record["better and cheaper (share of resamples)"] = pair.better_and_cheaper
            records.append(record | {"n (questions)": pair.questions} | dict(extra(scope, other)))
        of = METHODS.title(self.of)
        title = f"Each other minus {of}" if self.reverse else f"{of} minus each other"
        digits = {column.name: column.digits for column in columns.values()}
        title += ", on the same questions"
        return Table.of_records(name, title, records, "10,000 paired resamples.", digits)

    def findings(self, *measures: str) -> Iterator[str]:
        """Return sentences on the differences in these measures in the first scope, one for each other name."""
        for (scope, other), pair in self._pairs.items():
            if scope == self.scopes[0]:
                forms = {m: (self.measures[m].name, f"+,.{self.measures[m].digits}f") for m in measures}
                gaps = [f"{name} {format_number(self.difference(other, m), form)}" for m, (name, form) in forms.items()]
                unclear = [name for m, (name, _) in forms.items() if not pair.measures[m].is_clear]
                doubt = f"; not clear: {', '.join(unclear)}" if unclear else ""
                one, two = (other, self.of) if self.reverse else (self.of, other)
                yield f"{METHODS.title(one)} against {METHODS.title(two)}: {', '.join(gaps)}{doubt}."

    def notes(self, who: str = "method") -> Iterator[str]:
        """Return a sentence for each dataset of which some or all questions are left out."""
        if self.too_few:
            names = ", ".join(self.too_few)
            yield f"Left out, with fewer than {MIN_QUESTIONS} questions that every {who} finished: {names}."
        for name, count in self.left_out.items():
            if count:
                yield f"Of {name} {count} questions are left out: not every {who} finished them."

    def _datasets(self, scope: str) -> tuple[str, ...]:
        return (scope,) if scope in self.left_out else tuple(self.left_out)

    def _compare(self, scope: str, other: str) -> PairedComparison:
        names = (other, self.of) if self.reverse else (self.of, other)
        first, *more = own = self._datasets(scope)
        one, two = ({dataset: self.values[name][dataset] for dataset in own} for name in names)
        return compare_over_datasets(one, two) if more or self.stratified else compare(one[first], two[first])


Statistic = Callable[[Floats], Floats]
"""Maps rows of weights of states to a number for each row."""


class StateTable:
    """The states of some trajectories at which there was evidence, in an order that does not depend on a file.

    States without evidence are only counted: their diagnostics are constants of the method. There must be at most one
    trajectory for each question.
    """

    def __init__(self, trajectories: Iterable[Trajectory]) -> None:
        ordered = sorted(trajectories, key=lambda t: (t.dataset, t.question_id))
        found = [(t.dataset, t.question_id, state) for t in ordered for state in t.states if state.retained]
        self.states: tuple[State, ...] = tuple(state for _, _, state in found)
        self.datasets: NDArray[np.str_] = np.array([dataset for dataset, _, _ in found], dtype=np.str_)
        self.questions: NDArray[np.str_] = np.array([f"{d}/{q}" for d, q, _ in found], dtype=np.str_)
        self.without_evidence = sum(len(t.states) for t in ordered) - len(found)
        self._weights: list[Floats] = []

    def __len__(self) -> int:
        return len(self.states)

    def column(self, value: Callable[[State], float]) -> Floats:
        """Return one number for each state."""
        return np.array([value(state) for state in self.states], dtype=np.float64)

    def is_in(self, dataset: str | None) -> NDArray[np.bool_]:
        """Return which states belong to a dataset; all of them for None."""
        return np.ones(len(self), dtype=np.bool_) if dataset is None else self.datasets == dataset

    def count_questions(self, dataset: str | None = None) -> int:
        """Count the questions that have a state."""
        return len(set(self.questions[self.is_in(dataset)]))

    def estimate(self, statistic: Statistic, dataset: str | None = None) -> Estimate:
        """Return a statistic of weighted states, of a dataset or of all, with its interval."""
        value = float(statistic(np.ones((1, len(self))))[0])
        if not self._weights:
            self._weights = list(resample_weights(self.questions, self.datasets, resamples=MEAN_RESAMPLES))
        drawn = np.concatenate([statistic(block) for block in self._weights])
        about = np.unique(self.datasets) if dataset is None else (dataset,)
        questions = min((self.count_questions(str(each)) for each in about), default=0)
        return estimate_from_resamples(value, drawn, questions=questions)

    def means(self, column: Floats, dataset: str | None = None) -> Statistic:
        """Return the mean of a column over the states of a dataset, or over all, as a function of the weights."""
        inside = self.is_in(dataset)
        return lambda weights: np.asarray(weights[:, inside] @ column[inside] / weights[:, inside].sum(axis=1))

    def mean(self, column: Floats, dataset: str | None = None) -> Estimate:
        """Return the mean of a column with its interval."""
        return self.estimate(self.means(column, dataset), dataset)


@dataclass(frozen=True, slots=True)
class DatasetKind:
    """The datasets that serve one purpose."""

    description: str
    """What they are, in the plural: "datasets of questions with short answers"."""
    includes: Callable[[Dataset], bool]


def _has_short_answers(dataset: Dataset) -> bool:
    return not any(question.gold.is_set or question.gold.fake_answer for question in dataset.questions)


def _is_multi_hop(dataset: Dataset) -> bool:
    needs = [question.gold.supporting or () for question in dataset.questions if not question.gold.is_distant]
    linked = sum(len(each) > 1 for each in needs)
    return _has_short_answers(dataset) and 2 * linked >= len(dataset.questions)


SHORT_ANSWERS = DatasetKind("datasets of questions with short answers", _has_short_answers)
"""Ordinary questions: neither sets of rows nor evidence that was made false on purpose."""
MULTI_HOP = DatasetKind("datasets of questions that rest on several passages", _is_multi_hop)
"""At least half of the questions have two or more supporting passages that people named: those that hold an answer by
chance (distant supervision, as in PopQA and TriviaQA) make no question a multi-hop one."""
WITH_NOISE = DatasetKind("datasets with a split 'noise', such as RGB", lambda d: "noise" in d.splits())
WITH_FALSE_PASSAGES = DatasetKind("datasets with a split 'fact', such as RGB", lambda d: "fact" in d.splits())
ROW_SETS = DatasetKind(
    "datasets of questions about sets of rows, such as HoloBench",
    lambda dataset: any(question.gold.is_set and question.gold.supporting for question in dataset.questions),
)


@dataclass(frozen=True, slots=True)
class RequiredRun:
    """One run that a study needs, in a folder of its name. Studies share a run of the same name."""

    name: str
    methods: tuple[str, ...]
    kind: DatasetKind = SHORT_ANSWERS
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    """Thresholds in place of those in force."""
    injection: Injection = field(default_factory=Injection)
    splits: tuple[str, ...] | None = None
    """The splits of the questions, if the study is about certain ones; None for those that the user asked for."""
    make_intervention: Callable[[str, Mapping[str, Recording]], Intervention] | None = None
    """Makes the answerability that calibrated methods decide with, from a dataset's name and earlier recordings."""
    needs_fitted_value: bool = False
    """Whether the run says something only with a fitted retrieval value: see `MechanismStudy`."""
    after: tuple[str, ...] = ()
    """The runs whose recordings `make_intervention` reads; the study names them before this one."""


@dataclass(frozen=True, slots=True)
class StudyContext:
    """What is the same for all studies that are made together."""

    label: Label = "f1"
    drafts_answers: bool = True
    """Whether the verifier drafts an answer at every state, for which it can be judged."""


class Study(Protocol):
    """One study: the runs that it needs, and a pure function from their recordings to a result."""

    protocol: ClassVar[tuple[str, ...]]
    """How its question is answered, in sentences; also how that differs from the paper."""

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the runs that the study needs."""
        ...

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute the result from the recordings of these runs, by name."""
        ...


ChosenStudy = ExtensionChoice[Study, StudyContext]
"""A study with its options, its name and its title; the summary of its registration is the question that it answers."""

STUDIES: Registry[Study, StudyContext] = Registry(
    "study",
    "beliefrag.studies",
    {
        name: f"beliefrag.studies.{name}"
        for name in ("mechanism", "thresholds", "belief", "robustness", "holobench", "frontier")
    },
)


def choose_studies(text: str) -> tuple[ChosenStudy, ...]:
    """Return the study named by `NAME` or `NAME:key=value,...`, or all of them for `all`."""
    names = [each.name for each in STUDIES.usable()] if text == "all" else [text]
    return tuple(map(STUDIES.choose, names))
