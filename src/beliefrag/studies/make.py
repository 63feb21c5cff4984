"""Makes studies: finds or makes the runs that they need, works each study out of their records, and writes it.

Nothing is printed and nobody is asked. `run` makes one study; `prepare_studies` first says what is ahead, for callers
that ask before they go on, as the command line does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.benchmark import PreparedRun, Preview, RunProgress
from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.questions import Dataset
from beliefrag.bench.runner import RunControl
from beliefrag.bench.setup import RunSpec
from beliefrag.models import default_verifier
from beliefrag.models.providers import use_server_model
from beliefrag.report.figure import save_figure
from beliefrag.report.page import Block, BulletList, Heading, Page, PageLink, Paragraph, Picture
from beliefrag.report.table import Table
from beliefrag.runs.record import RUN_FILE, RunRecord, thresholds_of
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate
from beliefrag.settings import Settings, load_settings
from beliefrag.studies.study import (
    STUDIES,
    ChosenStudy,
    Recording,
    RequiredRun,
    StudyContext,
    StudyError,
    StudyResult,
    apply_changes,
    choose_studies,
    combine_runs,
    find_reusable_runs,
    reject_unused_runs,
)
from beliefrag.verifiers import build_verifier

__all__ = ["NUMBERS_FILE", "PreparedStudies", "StudyProgress", "prepare_studies", "run", "write_index", "write_study"]

NUMBERS_FILE = "numbers.json"
_PICTURES = ("figure.png", "figure.pdf")


def write_study(
    study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording], folder: Path
) -> list[Path]:
    """Write the files of a study into its folder, over those of an earlier time. The same records give the same bytes.

    Raises:
        StudyError: They cannot be written.
    """
    texts = {NUMBERS_FILE: json.dumps(_study_record(study, result, recordings), indent=1, allow_nan=False) + "\n"}
    texts |= {f"{table.name}.csv": table.to_csv() for table in result.tables}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_earlier_files(folder)
        figure = result.open_figure()
        pictures = save_figure(figure, (folder / name for name in _PICTURES)) if figure else []
        page = Page(study.extension.title, tuple(_study_blocks(study, result, recordings, pictures)))
        texts |= {"index.md": page.to_markdown(), "index.html": page.to_html()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return [*(folder / name for name in texts), *pictures]


def write_index(folder: Path, left_out: Mapping[str, str]) -> list[Path]:
    """Write the page that leads to all studies that the folder holds.

    Args:
        folder: Where the folders of the studies are.
        left_out: For each study that was not made, by name, why.

    Raises:
        StudyError: It cannot be written, or the numbers of a study cannot be read.
    """
    made = {path.parent.name for path in folder.glob(f"*/{NUMBERS_FILE}")}
    try:
        page = Page(
            "Studies", tuple(_index_blocks(folder, [n for n in STUDIES if n in made or n in left_out], left_out))
        )
        files = {folder / "index.md": page.to_markdown(), folder / "index.html": page.to_html()}
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return list(files)


def _study_blocks(
    study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording], pictures: Sequence[Path]
) -> Iterator[Block]:
    """Return what the page of a study holds, from top to bottom."""
    yield Paragraph(study.extension.summary)
    figure: list[Block] = []
    if pictures:
        figure = [Picture(pictures[0], pictures[0].name, result.caption)]
        figure.append(Paragraph(f"{result.caption} Also as figure.pdf."))
    yield from result.page_blocks(figure)
    yield Heading("How")
    yield BulletList(study.options.protocol)
    yield Heading("What it rests on")
    yield Paragraph(result.sample)
    yield BulletList(result.notes)
    for name, recording in recordings.items():
        yield Paragraph(f"Run {name}:")
        facts = ((what, _as_text(which)) for what, which in _provenance(recording).items())
        yield Table.of_texts(name, "", ("what", "which"), facts)


def _index_blocks(folder: Path, names: Iterable[str], left_out: Mapping[str, str]) -> Iterator[Block]:
    yield Paragraph("In brackets: 95 % intervals over questions; ? marks one that rests on few of them.")
    for name in names:
        study = STUDIES[name]
        yield Heading(study.title)
        yield Paragraph(study.summary)
        if name in left_out:
            yield Paragraph(f"Not made: {left_out[name]}")
            continue
        path = folder / name / NUMBERS_FILE
        try:
            record = json.loads(path.read_bytes())
            findings = tuple(str(each) for each in record["findings"])
            sample = str(record["n"])
            calibrations = sorted({str(run["calibration"]) for run in record["runs"].values()})
        except (ValueError, KeyError, TypeError):
            raise StudyError(f"{path} holds no study.", remedy="Delete it and make the study again.") from None
        yield BulletList(findings)
        yield Paragraph(f"{sample} Calibration: {', '.join(calibrations)}.")
        yield PageLink(f"The whole study: {name}", f"{name}/index")


def _study_record(study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording]) -> dict[str, Any]:
    return {
        "format": 1,
        "study": study.name,
        "title": study.extension.title,
        "question": study.extension.summary,
        "protocol": list(study.options.protocol),
        "n": result.sample,
        "findings": list(result.findings),
        "notes": list(result.notes),
        "published": [
            {"what": each.what, "theirs": each.theirs, "ours": _as_json(each.ours)} for each in result.paper_values
        ],
        "numbers": _as_json(result.numbers),
        "tables": [table.name for table in result.tables],
        "runs": {name: _provenance(recording) for name, recording in recordings.items()},
    }


def _provenance(recording: Recording) -> dict[str, Any]:
    """Return what the numbers of a run depend on. Nothing of it changes when the same run is made again."""
    run = recording.run
    used = next(iter(run.calibrations), None)
    sources = {name: source for name in recording.datasets if (source := run.datasets[name].source)}
    return {
        "model": run.model,
        "verifier form": run.verifier,
        "retriever": run.searched_with,
        "calibration": f"{used.name} ({used.sha256[:12]})" if used else "none",
        "judge": run.judge or "none",
        "seed": run.seed,
        "methods": list(run.methods),
        "questions": {name: len(run.datasets[name].question_ids) for name in recording.datasets},
        **({"source": sources} if sources else {}),
        "seen by the calibration": sum(len(run.datasets[name].seen_by_calibration) for name in recording.datasets),
        **({"answerability": dict(run.interventions)} if run.interventions else {}),
        "thresholds": asdict(thresholds_of(run)),
        "budget": dict(run.budget),
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.record()
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _remove_earlier_files(folder: Path) -> None:
    """Removes tables and pictures of an earlier time: if they are not written again, they must not stay."""
    try:
        earlier = json.loads((folder / NUMBERS_FILE).read_bytes())["tables"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    # Other files in the folder belong to somebody else, and stay.
    for name in [f"{Path(str(table)).name}.csv" for table in earlier] + list(_PICTURES):
        (folder / name).unlink(missing_ok=True)


def _cannot_write(folder: Path, error: OSError) -> StudyError:
    return StudyError(
        f"The study cannot be written to {folder}: {error.strerror}.", remedy="Name another folder with --out."
    )


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
        """Return the folder of a required run: of an existing one, or in a folder that all studies share."""
        name = required if isinstance(required, str) else required.name
        return self.reusable.get(name, self.out / "runs" / name)

    def previews(self) -> Iterator[tuple[str, Preview]]:
        """Return what is ahead in each run that is made. Each is closed again, for open runs hold their indexes."""
        for required in self.runs:
            if required.name not in self.reusable:
                how = self._how_to_make(required, self._read_begun(required))
                yield required.name, bench.preview(**how)

    def make_runs(
        self, carry_out: Callable[[str, PreparedRun], bool], *, finished: Collection[str] = ()
    ) -> dict[str, Recording] | None:
        """Make the runs one after the other, and reads what was recorded.

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
        """Work out one study from the recordings, and writes it into its folder.

        Raises:
            StudyError: It cannot be written.
        """
        own = {required.name: recordings[required.name] for required in study.options.required_runs(self.context)}
        result: StudyResult = study.options.analyse(own, self.context)
        write_study(study, result, own, self.out / study.name)
        return result

    def write_index(self) -> list[Path]:
        """Write the page that leads to all studies of the folder."""
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
        """Read the recordings that a run rests on, where it has begun: what is asked for now is compared with them."""
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
    """Find out which runs studies need, which existing runs can be used, and which studies cannot be made.

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
    """Make one study: the runs that it needs, its numbers, its figure and a page.

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
    """Return why a study cannot be made; empty where it can."""
    runs = combine_runs(required)
    reusable = find_reusable_runs(runs, records)
    for each in runs:
        if each.name not in reusable and not _matching_datasets(each, datasets):
            given = f"none of the {len(datasets)} datasets given is" if datasets else "none is given"
            return f"it needs {each.kind.description}, and {given} of them."
    return ""
