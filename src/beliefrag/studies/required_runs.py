"""The runs that a study needs: on which datasets, with which changes, and which existing runs can take their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beliefrag.bench.questions import Dataset
from beliefrag.methods.intervention import Intervention
from beliefrag.runs.comparability import unmet_settings
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.settings import Settings
from beliefrag.studies.recording import Recording
from beliefrag.studies.study_result import StudyError

__all__ = [
    "MULTI_HOP",
    "ROW_SETS",
    "SHORT_ANSWERS",
    "WITH_FALSE_PASSAGES",
    "WITH_NOISE",
    "DatasetKind",
    "InterventionMaker",
    "RequiredRun",
    "apply_changes",
    "combine_runs",
    "find_reusable_runs",
    "reason_against",
    "reject_unused_runs",
]

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
    """Gives one run for each name, each after the runs that it depends on."""
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
    """Gives the settings that a required run is made with."""
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
    """Says why an existing run cannot be used for a required one; empty where it can."""
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
    """Finds for each required run the first existing one that can be used for it.

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
    """Makes sure that each of the given runs can be used for one of the required ones.

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
