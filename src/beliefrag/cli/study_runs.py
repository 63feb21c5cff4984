"""Makes the runs that studies need, or takes existing ones: one preview over all of them, then one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag.bench.benchmark import PreparedRun, format_duration, format_usage
from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.plan import Plan
from beliefrag.bench.questions import Dataset
from beliefrag.bench.setup import RunSpec
from beliefrag.cli.bench_run import carry_out, is_confirmed, prepare, print_preview
from beliefrag.cli.exit_codes import INTERRUPTED, OK
from beliefrag.cli.output import print_notice, show_status
from beliefrag.runs.record import RUN_FILE, RunRecord
from beliefrag.settings import Settings
from beliefrag.studies.errors import StudyError
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun, changed, shared, stand_ins
from beliefrag.studies.study import Study, StudyOptions
from beliefrag.types import Usage

__all__ = ["Making", "Sources", "made", "missing"]

_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where episodes come from: existing runs, and datasets to make new ones on."""

    runs: Mapping[str, RunRecord]
    """Existing runs by their folders."""
    datasets: tuple[Dataset, ...]

    @classmethod
    def open(cls, runs: Iterable[Path], data: Iterable[Path]) -> Sources:
        """Reads the datasets."""
        with show_status("reading datasets"):
            return cls({str(path): RunRecord.read(path) for path in runs}, tuple(map(load_dataset, data)))

    def datasets_for(self, need: RequiredRun) -> tuple[Dataset, ...]:
        """The datasets that a needed run is made on."""
        return tuple(dataset for dataset in self.datasets if need.kind.has(dataset))


@dataclass(frozen=True, slots=True)
class Making:
    """How runs are made."""

    settings: Settings
    wanted: RunSpec
    """Questions, seed, splits, judge and replay; methods and datasets are those of each need."""
    out: Path
    at_once: int | None
    dry_run: bool
    yes: bool


def missing(study: Study, asked: StudyOptions, sources: Sources) -> str:
    """Why a study cannot be made from these sources; empty where it can."""
    needs = shared(study.needs(asked))
    there = stand_ins(needs, sources.runs)
    for need in needs:
        if need.name not in there and not sources.datasets_for(need):
            named = f"none of the {len(sources.datasets)} datasets given is" if sources.datasets else "none is given"
            return f"it needs {need.kind.words}, and {named} of them."
    return ""


def made(needs: Iterable[RequiredRun], sources: Sources, making: Making) -> tuple[dict[str, Recording] | None, int]:
    """The recordings of all needed runs and an exit code; None in place of them where there is nothing to study yet.

    Runs that are made go into one folder for all studies, and go on where they were.

    Raises:
        StudyError: A run has neither an existing one nor a dataset to be made on.
    """
    wanted = shared(needs)
    there = {name: Path(folder) for name, folder in stand_ins(wanted, sources.runs).items()}
    for need in wanted:
        if need.name in there:
            print_notice(f"{there[need.name]} stands in for the run {need.name}")
        elif not sources.datasets_for(need):
            raise StudyError(f"The run {need.name} needs {need.kind.words}.", remedy="Name them with --data or --from.")
    previews = {need.name: _previewed(need, sources, making, there) for need in wanted if need.name not in there}
    _tell_total(list(previews.values()))
    if making.dry_run:
        return None, OK
    calls = sum(plan.estimate.calls for plan in previews.values())
    if not making.yes and not is_confirmed(calls, replay=making.wanted.replay):
        print_notice("nothing was run")
        return None, OK
    code = OK
    recordings: dict[str, Recording] = {}
    for need in wanted:
        if need.name in previews:
            went = _carried_out(need, previews[need.name], sources, making, recordings)
            if went == INTERRUPTED:
                return None, went
            code = max(code, went)
        recordings[need.name] = _read(need, making, there)
    return recordings, code


def _previewed(need: RequiredRun, sources: Sources, making: Making, there: Mapping[str, Path]) -> Plan:
    """Says what is ahead in one run. It is closed again: many open runs would hold many indexes in memory."""
    print_notice(f"run {need.name}:")
    prepared = _prepared(need, sources, making, _begun(need, making, there))
    try:
        print_preview(prepared)
    finally:
        asyncio.run(prepared.aclose())
    return prepared.plan


def _carried_out(
    need: RequiredRun, plan: Plan, sources: Sources, making: Making, recordings: Mapping[str, Recording]
) -> int:
    if not plan.left:
        return OK
    print_notice(f"run {need.name}:")
    return carry_out(_prepared(need, sources, making, recordings))


def _prepared(need: RequiredRun, sources: Sources, making: Making, recordings: Mapping[str, Recording]) -> PreparedRun:
    datasets = sources.datasets_for(need)
    interventions = {}
    # A plan does not depend on an intervention, and is made before the recordings of earlier runs are there.
    if need.intervene is not None and recordings.keys() >= set(need.after):
        interventions = {dataset.name: need.intervene(dataset.name, recordings) for dataset in datasets}
    wanted = replace(
        making.wanted,
        own=datasets,
        methods=need.methods,
        splits=making.wanted.splits if need.splits is None else need.splits,
        injection=replace(need.injection, seed=making.wanted.seed),
        interventions=interventions,
    )
    return prepare(changed(making.settings, need), wanted, _folder(need, making), at_once=making.at_once)


def _begun(need: RequiredRun, making: Making, there: Mapping[str, Path]) -> dict[str, Recording]:
    """What there is of the runs that a run looks at, where it has begun: what goes on is held against it."""
    folders = {name: there.get(name, making.out / _RUNS / name) for name in need.after}
    if not all((folder / RUN_FILE).exists() for folder in (*folders.values(), _folder(need, making))):
        return {}
    return {name: Recording.read(folder) for name, folder in folders.items()}


def _read(need: RequiredRun, making: Making, there: Mapping[str, Path]) -> Recording:
    # A run that was made for the need has no other datasets than it should; of an existing one some may not count.
    return Recording.read(there[need.name], need.kind) if need.name in there else Recording.read(_folder(need, making))


def _tell_total(plans: Sequence[Plan]) -> None:
    if len(plans) < 2:
        return
    methods, judge = (_sum(getattr(plan.estimate, name) for plan in plans) for name in ("methods", "judge"))
    words = f"{format_usage(methods)}, {format_duration(sum(plan.estimate.seconds for plan in plans))}"
    episodes = sum(len(plan.to_play) for plan in plans)
    print_notice(
        f"all runs together: {episodes:,} episodes to play; {words}"
        + (f"; judge {format_usage(judge)}" if judge.calls else "")
    )


def _sum(usages: Iterable[Usage]) -> Usage:
    each = list(usages)
    return Usage(**{name: sum(getattr(u, name) for u in each) for name in ("calls", "tokens_in", "tokens_out")})


def _folder(need: RequiredRun, making: Making) -> Path:
    return making.out / _RUNS / need.name
