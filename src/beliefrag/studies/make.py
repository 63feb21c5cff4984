"""Makes studies: finds or makes the runs that they need, works each study out of their records, and writes it.

Nothing is printed and nobody is asked. `run` makes one study; `prepare_studies` first says what is ahead, for callers
that ask before they go on, as the command line does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.benchmark import PreparedRun, Preview, RunProgress
from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.questions import Dataset
from beliefrag.bench.runner import RunControl
from beliefrag.bench.setup import RunSpec
from beliefrag.models import default_verifier
from beliefrag.models.server_models import use_server_model
from beliefrag.runs.record import RUN_FILE, RunRecord
from beliefrag.runs.states import Label
from beliefrag.settings import Settings, load_settings
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import (
    RequiredRun,
    apply_changes,
    combine_runs,
    find_reusable_runs,
    reject_unused_runs,
)
from beliefrag.studies.study import ChosenStudy, StudyContext, choose_studies
from beliefrag.studies.study_result import StudyError, StudyResult
from beliefrag.studies.writing import write_index, write_study
from beliefrag.verifiers import build_verifier

__all__ = ["PreparedStudies", "StudyProgress", "prepare_studies", "run"]

_RUN_TO_THE_END = "The same call goes on where it was."


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far the runs of a study have come."""

    run: str
    """The name of the run that is being made."""
    progress: RunProgress


@dataclass(frozen=True, slots=True)
class PreparedStudies:
    """Studies whose runs are found or planned, and not begun."""

    studies: tuple[ChosenStudy, ...]
    """The studies that can be made."""
    left_out: Mapping[str, str]
    """For each study that cannot be made, by name, why."""
    context: StudyContext
    runs: tuple[RequiredRun, ...]
    """All runs that the studies need, each after those that it rests on."""
    reusable: Mapping[str, Path]
    """The folders of existing runs that are used, by the names of the required ones."""
    datasets: tuple[Dataset, ...]
    settings: Settings
    spec: RunSpec
    """Questions, seed, splits, judge and replay; methods and datasets are those of each required run."""
    out: Path
    concurrency: int | None = None

    def folder(self, required: RequiredRun | str) -> Path:
        """Gives the folder of a required run: of an existing one, or in a folder that all studies share."""
        name = required if isinstance(required, str) else required.name
        return self.reusable.get(name, self.out / "runs" / name)

    def previews(self) -> Iterator[tuple[str, Preview]]:
        """Says what is ahead in each run that is made. Each is closed again, for open runs hold their indexes."""
        for required in self.runs:
            if required.name not in self.reusable:
                how = self._how_to_make(required, self._read_begun(required))
                yield required.name, bench.preview(**how)

    def make_runs(
        self, carry_out: Callable[[str, PreparedRun], bool], *, finished: Collection[str] = ()
    ) -> dict[str, Recording] | None:
        """Makes the runs one after the other, and reads what was recorded.

        Args:
            carry_out: Plays a run of that name; gives False where it was stopped.
            finished: Names of runs that have nothing left to do, as a preview said.

        Returns:
            The recordings by name; None where a run was stopped.
        """
        recordings: dict[str, Recording] = {}
        for required in self.runs:
            reused = required.name in self.reusable
            if not reused and required.name not in finished:
                prepared = bench.prepare_run(**self._how_to_make(required, recordings))
                if not carry_out(required.name, prepared):
                    return None
            # A run that was made here has no other datasets than it should; of an existing one some may not count.
            counts = required.kind.may_include if reused else lambda dataset: True
            recordings[required.name] = Recording.read(self.folder(required), counts)
        return recordings

    def analyse(self, study: ChosenStudy, recordings: Mapping[str, Recording]) -> StudyResult:
        """Works out one study from the recordings, and writes it into its folder.

        Raises:
            StudyError: It cannot be written.
        """
        own = {required.name: recordings[required.name] for required in study.options.required_runs(self.context)}
        result: StudyResult = study.options.analyse(own, self.context)
        write_study(study, result, own, self.out / study.name)
        return result

    def write_index(self) -> list[Path]:
        """Writes the page that leads to all studies of the folder."""
        return write_index(self.out, self.left_out)

    def _how_to_make(self, required: RequiredRun, recordings: Mapping[str, Recording]) -> dict[str, Any]:
        datasets = _matching_datasets(required, self.datasets)
        interventions = {}
        # A plan does not depend on an intervention, and is made before the recordings of earlier runs are there.
        if required.make_intervention is not None and recordings.keys() >= set(required.after):
            interventions = {each.name: required.make_intervention(each.name, recordings) for each in datasets}
        spec = replace(
            self.spec,
            data=(),
            datasets=datasets,
            methods=required.methods,
            splits=self.spec.splits if required.splits is None else required.splits,
            injection=replace(required.injection, seed=self.spec.seed),
            interventions=interventions,
        )
        settings = apply_changes(self.settings, required)
        return {"spec": spec, "out": self.folder(required), "settings": settings, "concurrency": self.concurrency}

    def _read_begun(self, required: RequiredRun) -> dict[str, Recording]:
        """Reads the recordings that a run rests on, where it has begun: what is asked for now is compared with them."""
        folders = {name: self.folder(name) for name in required.after}
        if not all((folder / RUN_FILE).exists() for folder in (*folders.values(), self.folder(required))):
            return {}
        return {name: Recording.read(folder) for name, folder in folders.items()}


def prepare_studies(
    studies: Sequence[ChosenStudy],
    *,
    out: str | Path,
    data: Iterable[str | Path | Dataset] = (),
    reuse: Iterable[str | Path] = (),
    settings: Settings | None = None,
    spec: RunSpec | None = None,
    label: Label = "f1",
    concurrency: int | None = None,
) -> PreparedStudies:
    """Finds out which runs studies need, which existing runs can be used, and which studies cannot be made.

    Args:
        studies: What to make.
        out: The folder of the studies, each in a folder of its own; the runs that are made go to its folder `runs`.
        data: Datasets, or folders of datasets, to make runs on.
        reuse: Folders of existing runs, to use instead of making new ones.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        spec: Questions, seed, splits, judge and replay of the runs; by default all questions and no judge.
        label: The measure that says whether an answer is right.
        concurrency: Most calls at a time.

    Raises:
        StudyError: A given run cannot be used, or none of the studies can be made.
        BeliefRAGError: A dataset or a run cannot be read.
    """
    settings = settings or use_server_model(load_settings({}).settings)
    form = build_verifier(settings.verifier or default_verifier(settings.model))
    context = StudyContext(label, drafts_answers="answer" in form.prompts)
    datasets = tuple(each if isinstance(each, Dataset) else load_dataset(Path(each)) for each in data)
    records = {str(path): RunRecord.read(Path(path)) for path in reuse}
    required = {study.name: study.options.required_runs(context) for study in studies}
    reject_unused_runs(combine_runs(run for each in required.values() for run in each), records)
    left_out = {name: why for name, each in required.items() if (why := _explain_missing(each, records, datasets))}
    if len(left_out) == len(studies):
        name, why = next(iter(left_out.items()))
        raise StudyError(f"The study {name} cannot be made: {why}", remedy="Name datasets with --data.")
    runs = combine_runs(run for name, each in required.items() if name not in left_out for run in each)
    return PreparedStudies(
        studies=tuple(study for study in studies if study.name not in left_out),
        left_out=left_out,
        context=context,
        runs=tuple(runs),
        reusable={name: Path(folder) for name, folder in find_reusable_runs(runs, records).items()},
        datasets=datasets,
        settings=settings,
        spec=spec or RunSpec(judge=False),
        out=Path(out),
        concurrency=concurrency,
    )


def run(
    name: str,
    *,
    out: str | Path,
    data: Iterable[str | Path | Dataset] = (),
    reuse: Iterable[str | Path] = (),
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    spec: RunSpec | None = None,
    label: Label = "f1",
    concurrency: int | None = None,
    progress: Callable[[StudyProgress], object] | None = None,
    control: RunControl | None = None,
) -> StudyResult:
    """Makes one study: the runs that it needs, its numbers, its figure and a page.

    Args:
        name: The name of the study, also as `NAME:key=value,...`.
        out: The folder of the studies, each in a folder of its own; the runs that are made go to its folder `runs`.
        data: Datasets, or folders of datasets, to make runs on.
        reuse: Folders of existing runs, to use instead of making new ones.
        options: Options of the study, by name.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        spec: Questions, seed, splits, judge and replay of the runs; by default all questions and no judge.
        label: The measure that says whether an answer is right.
        concurrency: Most calls at a time.
        progress: Called at the beginning of each run and after every episode.
        control: Its `stop` and `cancel` end the runs early; the same call goes on with them.

    Raises:
        SettingsError: The name, an option or a value cannot be used.
        StudyError: The study lacks something that it needs, or was stopped.
        BeliefRAGError: Something else cannot be used; the message says what.
    """
    prepared = prepare_studies(
        choose_studies(name, options),
        out=out,
        data=data,
        reuse=reuse,
        settings=settings,
        spec=spec,
        label=label,
        concurrency=concurrency,
    )
    if len(prepared.studies) != 1:
        raise StudyError(f"{name!r} stands for several studies.", remedy="Name one of them.")

    def carry_out(run_name: str, planned: PreparedRun) -> bool:
        def report(each: RunProgress) -> None:
            if progress is not None:
                progress(StudyProgress(run_name, each))

        tally = bench.carry_out(planned, progress=report, control=control).tally
        return not (tally.stopped or tally.cancelled)

    recordings = prepared.make_runs(carry_out)
    if recordings is None:
        raise StudyError(f"The study {name} was stopped before its runs had ended.", remedy=_RUN_TO_THE_END)
    result = prepared.analyse(prepared.studies[0], recordings)
    prepared.write_index()
    return result


def _matching_datasets(required: RequiredRun, datasets: Sequence[Dataset]) -> tuple[Dataset, ...]:
    return tuple(dataset for dataset in datasets if required.kind.includes(dataset))


def _explain_missing(
    required: Iterable[RequiredRun], records: Mapping[str, RunRecord], datasets: Sequence[Dataset]
) -> str:
    """Says why a study cannot be made; empty where it can."""
    runs = combine_runs(required)
    reusable = find_reusable_runs(runs, records)
    for each in runs:
        if each.name not in reusable and not _matching_datasets(each, datasets):
            given = f"none of the {len(datasets)} datasets given is" if datasets else "none is given"
            return f"it needs {each.kind.description}, and {given} of them."
    return ""
