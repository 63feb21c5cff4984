"""What a study is, and where all studies are registered, ours and those of other packages.

A study is a frozen dataclass whose fields are its options. It names the runs that it needs, and works its result out of
their recordings, without any model, file or clock. A file of its own is all that a new one takes:

    @STUDIES.register("rounds", title="Rounds", summary="How many searches does each method make?")
    @dataclass(frozen=True, slots=True)
    class RoundsStudy:
        protocol: ClassVar[tuple[str, ...]] = ("Every method answers the same questions.",)
        method: str = "beliefrag"

        def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]: ...

        def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult: ...

Another package names that module in the entry-point group `beliefrag.studies` of its `pyproject.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from beliefrag.bench.questions import Dataset
from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.methods.intervention import Intervention
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.report.figure import figure_svg, open_figure
from beliefrag.report.page import Block, BulletList, Drawing, Heading, Page, Paragraph
from beliefrag.report.published import MARK, published_numbers
from beliefrag.report.table import Table, format_cell
from beliefrag.runs.comparability import Aspect, differences, unmet_settings
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.states import Label, Trajectory, read_trajectories
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEASURES, measure_values
from beliefrag.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ALL",
    "MULTI_HOP",
    "ROW_SETS",
    "SHORT_ANSWERS",
    "STUDIES",
    "WITH_FALSE_PASSAGES",
    "WITH_NOISE",
    "ChosenStudy",
    "DatasetKind",
    "InterventionMaker",
    "PaperValue",
    "Recording",
    "RequiredRun",
    "Study",
    "StudyContext",
    "StudyError",
    "StudyResult",
    "apply_changes",
    "choose_studies",
    "combine_runs",
    "compare_with_paper",
    "find_difference",
    "find_reusable_runs",
    "reason_against",
    "reject_unused_runs",
]

_INTERVALS = (
    "In brackets: 95 % intervals of a seeded bootstrap over questions; ? marks one that rests on fewer than 20 of "
    "them. Where all questions are alike there is none."
)


class StudyError(BeliefRAGError):
    """A study lacks runs, datasets or methods that it needs, or its files cannot be written."""


@dataclass(frozen=True, slots=True)
class PaperValue:
    """A value of the paper beside what was found here."""

    what: str
    theirs: float
    ours: Estimate | None
    """None where it cannot be said."""
    digits: int = 3


def compare_with_paper(ours: Mapping[str, Estimate | None]) -> tuple[PaperValue, ...]:
    """Set our values beside those that the paper has under the same ids (see `report.published`)."""
    theirs = published_numbers()
    return tuple(PaperValue(theirs[name].what, theirs[name].value, estimate) for name, estimate in ours.items())


@dataclass(frozen=True, slots=True)
class StudyResult:
    """All that a study found, worked out from records alone. A notebook shows it as a page."""

    sample: str
    """What the numbers rest on, as a sentence: how many questions, states or episodes of which datasets."""
    findings: tuple[str, ...]
    """What was found, in sentences, the most important first; or why nothing can be said."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for programs; there may be `Estimate`s among them."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out and why, and what cannot be said."""
    paper_values: tuple[PaperValue, ...] = ()
    paper_note: str = ""
    """How the experiment of the paper differs from this one."""
    draw: Callable[[Figure], None] | None = None
    """Draws the figure of the study; None where there is nothing to draw."""
    figure_size: tuple[float, float] = (9.0, 5.5)
    """In inches."""
    caption: str = ""
    """What the figure shows, in a sentence."""

    @classmethod
    def insufficient(cls, why: str, *, sample: str, notes: Iterable[str] = ()) -> StudyResult:
        """Return the result where there is too little data: a sentence that says so, and no number."""
        return cls(sample=sample, findings=(why,), numbers={"too_little": why}, notes=tuple(notes))

    def open_figure(self) -> Figure | None:
        """Draw the figure of the study; None where there is nothing to draw."""
        if self.draw is None:
            return None
        figure = open_figure(self.figure_size)
        self.draw(figure)
        return figure

    def page_blocks(self, figure: Iterable[Block]) -> Iterator[Block]:
        """Return what a page says about the result: findings, the figure, the values of the paper, and all tables."""
        yield Heading("What came out")
        yield BulletList(self.findings)
        yield from figure
        if self.paper_values:
            yield Heading("Beside the paper")
            yield Paragraph(f"The values in the last column are theirs, {MARK}. {self.paper_note}".strip())
            rows = [(p.what, format_cell(p.ours, p.digits), format_cell(p.theirs, p.digits)) for p in self.paper_values]
            yield Table.of_texts("paper", "", ("what", "here", "theirs"), rows)
        if self.tables:
            yield Heading("Numbers")
            yield Paragraph(_INTERVALS)
        yield from self.tables

    def __str__(self) -> str:
        """Return the findings, the tables and the notes for a terminal."""
        tables = (f"\n{table.title}\n{table.to_text()}" for table in self.tables)
        return "\n".join((*self.findings, *tables, self.sample, *self.notes))

    def _repr_html_(self) -> str:
        figure = self.open_figure()
        drawn = (Drawing(figure_svg(figure, self.caption)), Paragraph(self.caption)) if figure else ()
        return Page("Study", (*self.page_blocks(drawn), Paragraph(self.sample), BulletList(self.notes))).to_fragment()


_SPECIAL_MEASURES = ("rows_needed", "rows_read", "row_recall_read", "false_read")
"""Measures of questions about sets of rows and of runs with false passages: no episode of another run has them."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The part of a run that a study may look at: the episodes that were asked for, of the datasets it is about."""

    run: RunRecord
    episodes: tuple[EpisodeSummary, ...]
    """Finished and failed ones, in an order that does not depend on the file."""
    trajectories: tuple[Trajectory, ...]
    """The states of those episodes that measured any."""

    @classmethod
    def read(cls, folder: Path, counts: Callable[[str], bool] = lambda dataset: True) -> Recording:
        """Read the folder of a run.

        Args:
            folder: The folder of the run.
            counts: Whether the dataset of that name counts; all do by default.

        Raises:
            RunError: The folder holds no run, or it cannot be read.
        """
        run, trajectories = read_trajectories(folder)
        asked = {
            EpisodeKey(dataset, method, question_id, run.seed)
            for dataset, record in run.datasets.items()
            if counts(dataset)
            for method in run.methods
            for question_id in record.question_ids
        }
        places = {(key.dataset, key.method, key.question_id) for key in asked}
        return cls(
            run=run,
            episodes=tuple(e for key, e in sorted(read_summaries(folder).items()) if key in asked),
            trajectories=tuple(
                sorted(
                    (t for t in trajectories if (t.dataset, t.method, t.question_id) in places),
                    key=lambda t: (t.dataset, t.method, t.question_id),
                )
            ),
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets that have episodes, in the order of the run."""
        present = {episode.key.dataset for episode in self.episodes}
        return tuple(name for name in self.run.datasets if name in present)

    def episodes_of(self, method: str, dataset: str | None = None) -> list[EpisodeSummary]:
        """Return the episodes of one method, on one dataset or on all."""
        return [e for e in self.episodes if e.key.method == method and dataset in (None, e.key.dataset)]

    def trajectories_of(self, *methods: str) -> list[Trajectory]:
        """Return the states of these methods, by episode."""
        return [trajectory for trajectory in self.trajectories if trajectory.method in methods]

    def values(self, method: str, dataset: str, measure: str) -> dict[str, float]:
        """Return one value of a measure for each question, without failed episodes and those that lack the measure.

        Raises:
            StudyError: No episode of the run can have a measure of that name.
        """
        known = {*MEASURES, *_SPECIAL_MEASURES, *(name for episode in self.episodes for name in episode.metrics)}
        if measure not in known:
            raise StudyError(f"There is no measure {measure!r}.", remedy=f"Known: {', '.join(sorted(known))}.")
        return measure_values(self.episodes_of(method, dataset), measure)

    def accuracy(self, method: str, dataset: str, label: Label) -> dict[str, float]:
        """Return for each question 1 where the answer is right by that measure, otherwise 0, as for an abstention."""
        return {key: float(value >= 0.5) for key, value in self.values(method, dataset, label).items()}

    def describe_missing(self, *methods: str) -> str:
        """Return how many episodes of these methods are in no number; empty where none is missing."""
        own = [episode for episode in self.episodes if episode.key.method in methods]
        asked = sum(len(self.run.datasets[name].question_ids) for name in self.datasets) * len(methods)
        failed = sum(not episode.finished for episode in own)
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{asked - len(own):,} are missing"] if asked > len(own) else []
        return f"Of {asked:,} episodes {' and '.join(parts)}: they are in no number." if parts else ""


InterventionMaker = Callable[[str, Mapping[str, Recording]], Intervention]
"""Makes an intervention for the dataset of that name, from the recordings of earlier runs."""


@dataclass(frozen=True, slots=True)
class DatasetKind:
    """The datasets that serve one purpose."""

    description: str
    """What they are, in the plural: "datasets of questions with short answers"."""
    includes: Callable[[Dataset], bool]
    """Whether a dataset is of this kind."""
    may_include: Callable[[str], bool] = lambda name: True
    """Whether a dataset of an existing run, of which only the name is known, can be of this kind."""


def _has_short_answers(dataset: Dataset) -> bool:
    return not any(question.gold.is_set or question.gold.fake_answer for question in dataset.questions)


def _is_multi_hop(dataset: Dataset) -> bool:
    linked = sum(len(question.gold.supporting or ()) > 1 for question in dataset.questions)
    return _has_short_answers(dataset) and 2 * linked >= len(dataset.questions)


def _cannot_tell(name: str) -> bool:
    """An existing run does not say of which split its questions are, so it is never used."""
    return False


SHORT_ANSWERS = DatasetKind("datasets of questions with short answers", _has_short_answers)
"""Ordinary questions: neither sets of rows nor evidence that was made false on purpose."""
MULTI_HOP = DatasetKind(
    "datasets of questions that rest on several passages",
    _is_multi_hop,
    lambda name: name.casefold() not in {"nq", "triviaqa", "popqa", "rgb"},
)
"""At least half of the questions have two or more supporting passages."""
WITH_NOISE = DatasetKind(
    "datasets with a split 'noise', such as RGB", lambda dataset: "noise" in dataset.splits(), _cannot_tell
)
WITH_FALSE_PASSAGES = DatasetKind(
    "datasets with a split 'fact', such as RGB", lambda dataset: "fact" in dataset.splits(), _cannot_tell
)
ROW_SETS = DatasetKind(
    "datasets of questions about sets of rows, such as HoloBench",
    lambda dataset: any(question.gold.is_set and question.gold.supporting for question in dataset.questions),
    lambda name: "holobench" in name.casefold(),
)


@dataclass(frozen=True, slots=True)
class RequiredRun:
    """One run that a study needs. Studies that need a run of the same name share it, with the methods of all."""

    name: str
    """The name of its folder."""
    methods: tuple[str, ...]
    kind: DatasetKind = SHORT_ANSWERS
    """The kind of datasets that it is made on."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings by their dotted names, such as `thresholds.answer`, in place of those in force."""
    injection: Injection = field(default_factory=Injection)
    """What takes the place of passages that searches find."""
    splits: tuple[str, ...] | None = None
    """The splits of the questions, where the study is about certain ones; None for those that the user asked for."""
    sufficient_methods: tuple[str, ...] | None = None
    """The methods that an existing run must have to be used instead; None for all methods."""
    make_intervention: InterventionMaker | None = None
    """Makes the answerability that calibrated methods decide with, in place of their own."""
    after: tuple[str, ...] = ()
    """The names of the runs whose recordings `make_intervention` reads; they are made before this one."""


def combine_runs(required: Iterable[RequiredRun]) -> list[RequiredRun]:
    """Return one run for each name, each after the runs that it depends on."""
    by_name: dict[str, RequiredRun] = {}
    for run in required:
        first = by_name.get(run.name, run)
        if replace(first, methods=(), sufficient_methods=None) != replace(run, methods=(), sufficient_methods=None):
            raise ValueError(f"two studies need different runs under the name {run.name!r}")
        by_name[run.name] = replace(
            first,
            methods=tuple(dict.fromkeys((*first.methods, *run.methods))),
            sufficient_methods=tuple(dict.fromkeys((*_sufficient_methods(first), *_sufficient_methods(run)))),
        )
    if unknown := [name for run in by_name.values() for name in run.after if name not in by_name]:
        raise ValueError(f"a run comes after {unknown[0]!r}, which no study needs")
    ordered: list[RequiredRun] = []
    while len(ordered) < len(by_name):
        placed = {run.name for run in ordered}
        ready = [run for run in by_name.values() if run.name not in placed and placed.issuperset(run.after)]
        if not ready:
            raise ValueError("runs wait for each other")
        ordered += ready
    return ordered


def apply_changes(settings: Settings, required: RequiredRun) -> Settings:
    """Return the settings that a required run is made with."""
    values = settings.model_dump()
    for name, value in required.changes.items():
        *groups, last = name.split(".")
        group = values
        for each in groups:
            group = group[each]
        if last not in group:
            raise ValueError(f"no setting is called {name!r}")
        group[last] = value
    return Settings.model_validate(values)


def reason_against(required: RequiredRun, run: RunRecord) -> str:
    """Return why an existing run cannot be used for a required one; empty where it can."""
    return next(_reasons_against(required, run), "")


def _reasons_against(required: RequiredRun, run: RunRecord) -> Iterator[str]:
    if missing := [method for method in _sufficient_methods(required) if method not in run.methods]:
        yield f"it has no episodes of {', '.join(missing)}"
    if not any(required.kind.may_include(name) for name in run.datasets):
        yield f"it has no {required.kind.description}"
    if required.make_intervention:
        yield "its episodes rest on another run"
    if run.interventions:
        yield "its episodes do not decide with their own answerability"
    yield from unmet_settings(run, required.changes, required.injection)


def find_reusable_runs(required: Iterable[RequiredRun], runs: Mapping[str, RunRecord]) -> dict[str, str]:
    """Find for each required run the first existing one that can be used for it.

    Args:
        required: The runs that studies need.
        runs: The existing runs, by their folders.

    Returns:
        For the name of each required run that has one, the folder of the existing run.
    """
    reusable = {}
    for each in required:
        if folder := next((folder for folder, run in runs.items() if not reason_against(each, run)), None):
            reusable[each.name] = folder
    return reusable


def reject_unused_runs(required: Iterable[RequiredRun], runs: Mapping[str, RunRecord]) -> None:
    """Make sure that each of the given runs can be used for one of the required ones.

    Raises:
        StudyError: One of them cannot; the message says why.
    """
    wanted = list(required)
    for folder, run in runs.items():
        reasons = {each.name: reason_against(each, run) for each in wanted}
        if all(reasons.values()):
            why = "; ".join(f"{reason} (run {name})" for name, reason in reasons.items())
            raise StudyError(
                f"The run {folder} has not what is needed: {why}.",
                remedy="Name another run with --from, or datasets with --data to make what is needed.",
            )


def _sufficient_methods(required: RequiredRun) -> tuple[str, ...]:
    return required.methods if required.sufficient_methods is None else required.sufficient_methods


ALL = "all"
"""Stands for all studies where the name of one is asked for."""


@dataclass(frozen=True, slots=True)
class StudyContext:
    """What is the same for all studies that are made together."""

    label: Label = "f1"
    """The measure that says whether an answer is right."""
    drafts_answers: bool = True
    """Whether the verifier drafts an answer at every state, so that the states of BeliefRAG have answers to judge."""


class Study(Protocol):
    """One study: the runs that it needs, and a pure function from their recordings to a result."""

    protocol: ClassVar[tuple[str, ...]]
    """How its question is answered, in sentences; also where that is not the way of the paper."""

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the runs that the study needs."""
        ...

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out the result from the recordings of these runs, by name. The same records give the same result."""
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
"""Every study, ours in the order of the paper."""


def choose_studies(text: str, options: Mapping[str, Any] | None = None) -> tuple[ChosenStudy, ...]:
    """Return the study that `NAME` or `NAME:key=value,...` stands for, or all of them for `all`.

    Args:
        text: What was typed.
        options: More options, by name. With `all` each goes to the studies that have it.

    Raises:
        SettingsError: The name, an option or a value cannot be used.
    """
    given = dict(options or {})
    if text != ALL:
        name = text.partition(":")[0].strip()
        return (STUDIES.choose(text, {name: given}),)
    studies = tuple(STUDIES.usable())
    known = {
        study.name: {key: given[key] for key in study.options.__dataclass_fields__ if key in given} for study in studies
    }
    if unused := [key for key in given if not any(key in own for own in known.values())]:
        raise SettingsError(f"No study has an option {unused[0]!r}.", remedy="Leave it out.")
    return tuple(STUDIES.choose(study.name, known) for study in studies)


_COMPARED = (
    *(Aspect.MODEL, Aspect.VERIFIER, Aspect.RETRIEVER, Aspect.PACK, Aspect.SEED, Aspect.BUDGET, Aspect.CALIBRATION),
    *(Aspect.METHOD_OPTIONS, Aspect.PROMPTS, Aspect.CORPUS, Aspect.QUESTIONS, Aspect.THRESHOLDS),
)
"""In which two runs of variants must not differ."""


def find_difference(one: RunRecord, other: RunRecord, *, studied: frozenset[str] = frozenset()) -> str:
    """Return in what two runs differ besides what is studied; empty where in nothing.

    Args:
        one: A run.
        other: Another run.
        studied: Thresholds in which they are meant to differ.
    """
    found = differences(one, other, _COMPARED, free_thresholds=studied)
    return next((difference.what for difference in found), "")
