"""The runs that a study rests on: what they are made of, how several studies share them, what can stand in for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beliefrag.methods.intervention import Intervention
from beliefrag.runs.comparability import unmet_settings
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.settings import Settings
from beliefrag.studies.errors import StudyError
from beliefrag.studies.kinds import SHORT_ANSWERS, Kind
from beliefrag.studies.recording import Recording

__all__ = ["Intervene", "RequiredRun", "changed", "refuse_idle", "shared", "stand_ins", "unfit"]

Intervene = Callable[[str, Mapping[str, Recording]], Intervention]
"""Makes an intervention for the dataset of that name, knowing the recordings of earlier runs."""


@dataclass(frozen=True, slots=True)
class RequiredRun:
    """One run that a study needs. Needs of the same name are one run, whose methods are those of all of them."""

    name: str
    """Of its folder."""
    methods: tuple[str, ...]
    kind: Kind = SHORT_ANSWERS
    """Which of the given datasets it is made on."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings by their dotted names, such as `thresholds.answer`, in place of those in force."""
    injection: Injection = field(default_factory=Injection)
    """What takes the place of what searches find."""
    splits: tuple[str, ...] | None = None
    """In place of those asked for, where the study is about certain splits."""
    least: tuple[str, ...] | None = None
    """The methods that an existing run must have to stand in for this one; all by default."""
    intervene: Intervene | None = None
    """Which answerability the calibrated methods decide with, in place of their own."""
    after: tuple[str, ...] = ()
    """Needed runs whose recordings `intervene` looks at: they are made before."""


def shared(needs: Iterable[RequiredRun]) -> list[RequiredRun]:
    """One run for each name, in an order in which each comes after those it looks at."""
    found: dict[str, RequiredRun] = {}
    for need in needs:
        before = found.get(need.name, need)
        if replace(before, methods=(), least=None) != replace(need, methods=(), least=None):
            raise ValueError(f"two studies need different runs under the name {need.name!r}")
        found[need.name] = replace(
            before,
            methods=tuple(dict.fromkeys((*before.methods, *need.methods))),
            least=tuple(dict.fromkeys((*_least(before), *_least(need)))),
        )
    if lost := [name for need in found.values() for name in need.after if name not in found]:
        raise ValueError(f"a run comes after {lost[0]!r}, which no study needs")
    ordered: list[RequiredRun] = []
    while len(ordered) < len(found):
        placed = {need.name for need in ordered}
        ready = [need for need in found.values() if need.name not in placed and placed.issuperset(need.after)]
        if not ready:
            raise ValueError("runs wait for each other")
        ordered += ready
    return ordered


def changed(settings: Settings, need: RequiredRun) -> Settings:
    """The settings that a needed run is made with."""
    values = settings.model_dump()
    for name, value in need.changes.items():
        *groups, last = name.split(".")
        place = values
        for group in groups:
            place = place[group]
        if last not in place:
            raise ValueError(f"no setting is called {name!r}")
        place[last] = value
    return Settings.model_validate(values)


def unfit(need: RequiredRun, run: RunRecord) -> str:
    """Why an existing run cannot stand in for a needed one; empty where it can."""
    return next(_objections(need, run), "")


def _objections(need: RequiredRun, run: RunRecord) -> Iterator[str]:
    if missing := [method for method in _least(need) if method not in run.methods]:
        yield f"it has no episodes of {', '.join(missing)}"
    if not any(need.kind.has_name(name) for name in run.datasets):
        yield f"it has no {need.kind.words}"
    if need.intervene:
        yield "its episodes rest on those of another run"
    if run.interventions:
        yield "its episodes do not decide with their own answerability"
    yield from unmet_settings(run, need.changes, need.injection)


def stand_ins(needs: Iterable[RequiredRun], runs: Mapping[str, RunRecord]) -> dict[str, str]:
    """For each need the first of the given runs, by what they are called, that can stand in for it."""
    found = {}
    for need in needs:
        if called := next((called for called, run in runs.items() if not unfit(need, run)), None):
            found[need.name] = called
    return found


def refuse_idle(needs: Iterable[RequiredRun], runs: Mapping[str, RunRecord]) -> None:
    """Makes sure that each of the given runs is of use.

    Raises:
        StudyError: One can stand in for none of the needs; the message says why.
    """
    wanted = list(needs)
    for called, run in runs.items():
        reasons = {need.name: unfit(need, run) for need in wanted}
        if all(reasons.values()):
            why = "; ".join(f"{reason} (run {name})" for name, reason in reasons.items())
            raise StudyError(
                f"The run {called} has not what is needed: {why}.",
                remedy="Name another run with --from, or datasets with --data to make what is needed.",
            )


def _least(need: RequiredRun) -> tuple[str, ...]:
    return need.methods if need.least is None else need.least
