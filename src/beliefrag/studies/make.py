"""Make studies: find or make the runs that they need, compute each study from their records, and write it.

Nothing is printed and no user is asked. `run` makes one study; `prepare_studies` only plans, for callers that show an
estimate first, as the command line does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.benchmark import PreparedRun, Preview, RunProgress
from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.questions import Dataset
from beliefrag.bench.setup import RunSpec
from beliefrag.models import default_verifier
from beliefrag.models.providers import use_server_model
from beliefrag.opening import open_engine, open_model, run_to_end
from beliefrag.report.figure import save_figure
from beliefrag.report.table import Block, Heading, Page, PageLink, Table
from beliefrag.runs.record import RUN_FILE, thresholds_of
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate
from beliefrag.settings import Settings, load_settings
from beliefrag.studies.study import (
    METHOD,
    STUDIES,
    ChosenStudy,
    Recording,
    RequiredRun,
    StudyContext,
    StudyError,
    StudyResult,
    choose_studies,
)
from beliefrag.verifiers import build_verifier

NUMBERS_FILE = "numbers.json"
_PICTURES = ("figure.png", "figure.pdf")


def combine_runs(required: Iterable[RequiredRun]) -> list[RequiredRun]:
    """Return one run for each name, with the methods of all studies that need it."""
    by_name: dict[str, RequiredRun] = {}
    for run in required:
        first = by_name.get(run.name, run)
        if replace(first, methods=()) != replace(run, methods=()):
            raise ValueError(f"two studies need different runs under the name {run.name!r}")
        by_name[run.name] = replace(first, methods=tuple(dict.fromkeys((*first.methods, *run.methods))))
    return list(by_name.values())


def _explain_missing(
    runs: Sequence[RequiredRun], existing_run: Path | None, datasets: Sequence[Dataset], unfitted: str
) -> str:
    """Return why a study cannot be made; empty if it can."""
    if existing_run is not None:
        return "it needs several runs: name datasets for them." if len(runs) > 1 else ""
    for each in runs:
        if not any(map(each.kind.includes, datasets)):
            given = f"none of the {len(datasets)} datasets given is" if datasets else "none is given"
            return f"it needs {each.kind.description}, and {given} of them."
    if any(each.needs_fitted_value for each in runs) and unfitted:
        return (
            f"it needs a fitted retrieval value, and the calibration {unfitted} has none. Fit one with "
            "'beliefrag calibrate collect' and 'beliefrag calibrate fit', and name it with --set calibration=FILE."
        )
    return ""


def _find_unfitted(settings: Settings) -> str:
    """Return the name of the calibration that the studied method would use, if it has no retrieval value."""
    engine = open_engine(settings, methods=(METHOD,), model=open_model(settings, preview=True))
    run_to_end(engine.model.aclose())
    artifact = engine.parts_of(METHOD).artifact
    return artifact.name if artifact and artifact.retrieval_value is None else ""


def write_study(
    study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording], folder: Path
) -> list[Path]:
    """Write the files of a study into its folder, over earlier ones. The same records give the same bytes."""
    runs = {name: _provenance(recording) for name, recording in recordings.items()}
    record = {
        "format": 2,
        "study": study.name,
        "title": study.extension.title,
        "question": study.extension.summary,
        "protocol": list(study.options.protocol),
        "n": result.sample,
        "findings": list(result.findings),
        "notes": list(result.notes),
        "published": [{"what": p.what, "theirs": p.theirs, "ours": _as_json(p.ours)} for p in result.paper_values],
        "numbers": _as_json(result.numbers),
        "tables": {table.name: _as_json(table.records) for table in result.tables},
        "runs": runs,
    }
    texts = {NUMBERS_FILE: json.dumps(record, indent=1, allow_nan=False) + "\n"}
    texts |= {f"{table.name}.csv": table.to_csv() for table in result.tables}
    folder.mkdir(parents=True, exist_ok=True)
    figure = result.open_figure()
    pictures = save_figure(figure, (folder / name for name in _PICTURES)) if figure else []
    blocks: list[Block] = [study.extension.summary, *result.page_blocks(figure, _PICTURES[0])]
    blocks += [Heading("Protocol"), study.options.protocol, Heading("Data"), result.sample, result.notes]
    for name, facts in runs.items():
        rows = [(what, _as_text(which)) for what, which in facts.items()]
        blocks += [f"Run {name}:", Table.of_texts(name, "", ("what", "which"), rows)]
    return [*_write_texts(folder, texts | _page_texts(Page(study.extension.title, tuple(blocks)))), *pictures]


def write_index(folder: Path, left_out: Mapping[str, str]) -> None:
    """Write the page that leads to all studies in the folder, and says why others were left out."""
    blocks: list[Block] = []
    for name in STUDIES:
        path = folder / name / NUMBERS_FILE
        if name in left_out:
            blocks += [Heading(STUDIES[name].title), f"Not made: {left_out[name]}"]
        elif path.exists():
            findings = tuple(map(str, json.loads(path.read_bytes())["findings"]))
            blocks += [Heading(STUDIES[name].title), STUDIES[name].summary, findings]
            blocks.append(PageLink(f"The whole study: {name}", f"{name}/index"))
    _write_texts(folder, _page_texts(Page("Studies", tuple(blocks))))


def _write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _page_texts(page: Page) -> dict[str, str]:
    return {"index.md": page.to_markdown(), "index.html": page.to_html()}


def _provenance(recording: Recording) -> dict[str, Any]:
    """Return what the numbers of a run depend on, without time or path."""
    run = recording.run
    used = next(iter(run.calibrations), None)
    return {
        "model": run.model,
        "verifier form": run.verifier,
        "retriever": run.searched_with,
        "calibration": f"{used.name} ({used.sha256[:12]})" if used else "none",
        "judge": run.judge or "none",
        "seed": run.seed,
        "methods": list(run.methods),
        "questions": {name: len(run.datasets[name].question_ids) for name in recording.datasets},
        "seen by the calibration": sum(len(run.datasets[name].seen_by_calibration) for name in recording.datasets),
        "answerability": dict(run.interventions),
        "thresholds": asdict(thresholds_of(run)),
        "budget": asdict(run.budget),
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.record()
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclass(frozen=True, slots=True)
class PreparedStudies:
    """Studies whose runs are found or planned, and not begun."""

    studies: tuple[ChosenStudy, ...]
    left_out: Mapping[str, str]
    """For each study that cannot be made, by name, why."""
    context: StudyContext
    runs: tuple[RequiredRun, ...]
    """All runs that the studies need, each after those that it depends on."""
    existing_run: Path | None
    """The run that the studies are made from, in place of new ones."""
    datasets: tuple[Dataset, ...]
    settings: Settings
    spec: RunSpec
    """Questions, seed, splits, judge and replay; methods and datasets are those of each required run."""
    out: Path
    concurrency: int | None = None

    def folder(self, name: str) -> Path:
        """Return the folder of a required run, which all studies share."""
        return self.existing_run or self.out / "runs" / name

    def previews(self) -> Iterator[tuple[str, Preview]]:
        """Yield a preview of each run that is made. Each is closed again, for open runs hold their indexes."""
        for required in () if self.existing_run else self.runs:
            yield required.name, bench.preview(**self._how_to_make(required, self._read_begun(required)))

    def make_runs(
        self, carry_out: Callable[[str, PreparedRun], None], *, finished: Collection[str] = ()
    ) -> dict[str, Recording]:
        """Make the runs one after the other, and read their records.

        `carry_out` plays a run of that name; `finished` runs are only read.
        """
        recordings: dict[str, Recording] = {}
        for required in self.runs:
            if self.existing_run is None and required.name not in finished:
                carry_out(required.name, bench.prepare_run(**self._how_to_make(required, recordings)))
            recordings[required.name] = Recording.read(self.folder(required.name))
        return recordings

    def analyse(self, study: ChosenStudy, recordings: Mapping[str, Recording]) -> StudyResult:
        """Compute one study from the recordings, and write it into its folder."""
        own = {required.name: recordings[required.name] for required in study.options.required_runs(self.context)}
        result: StudyResult = study.options.analyse(own, self.context)
        write_study(study, result, own, self.out / study.name)
        return result

    def write_index(self) -> None:
        """Write the page that leads to all studies of the folder."""
        write_index(self.out, self.left_out)

    def _how_to_make(self, required: RequiredRun, recordings: Mapping[str, Recording]) -> dict[str, Any]:
        datasets = tuple(filter(required.kind.includes, self.datasets))
        interventions = {}
        # A preview of a run that has not begun needs no intervention: recordings of earlier runs may be missing.
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
        settings = self.settings.model_copy(
            update={"thresholds": replace(self.settings.thresholds, **required.thresholds)}
        )
        return {
            "spec": spec,
            "out": self.folder(required.name),
            "settings": settings,
            "concurrency": self.concurrency,
        }

    def _read_begun(self, required: RequiredRun) -> dict[str, Recording]:
        """Read the recordings that a run depends on, if it has begun: a resumed run must have the same intervention."""
        folders = {name: self.folder(name) for name in required.after}
        if not all((folder / RUN_FILE).exists() for folder in (*folders.values(), self.folder(required.name))):
            return {}
        return {name: Recording.read(folder) for name, folder in folders.items()}


def prepare_studies(
    studies: Sequence[ChosenStudy],
    *,
    out: str | Path,
    data: Iterable[str | Path | Dataset] = (),
    existing_run: str | Path | None = None,
    settings: Settings | None = None,
    spec: RunSpec | None = None,
    label: Label = "f1",
    concurrency: int | None = None,
    checks_calibration: bool = True,
) -> PreparedStudies:
    """Find which runs studies need, which existing runs can be used, and which studies cannot be made.

    Args:
        studies: From `choose_studies`.
        out: The folder of the studies, each in a folder of its own; the runs that are made go to its folder `runs`.
        data: Datasets, or folders of datasets, to make runs on.
        existing_run: The folder of a run to make the studies from. Those that need several runs are left out.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        spec: Questions, seed, splits, judge and replay of the runs; by default all questions and no judge.
        label: The measure that says whether an answer is right.
        concurrency: Most calls at a time.
        checks_calibration: Whether studies that need a fitted retrieval value are left out without one. An estimate
            that is made before anything is fitted counts them.
    """
    settings = settings or use_server_model(load_settings({}).settings)
    form = build_verifier(settings.verifier or default_verifier(settings.model))
    context = StudyContext(label, drafts_answers="answer" in form.prompts)
    datasets = tuple(each if isinstance(each, Dataset) else load_dataset(Path(each)) for each in data)
    source = None if existing_run is None else Path(existing_run)
    required = {study.name: study.options.required_runs(context) for study in studies}
    needs_value = any(run.needs_fitted_value for each in required.values() for run in each)
    unfitted = _find_unfitted(settings) if checks_calibration and needs_value and source is None else ""
    reasons = {name: _explain_missing(each, source, datasets, unfitted) for name, each in required.items()}
    left_out = {name: why for name, why in reasons.items() if why}
    if len(left_out) == len(studies):
        name, why = next(iter(left_out.items()))
        raise StudyError(f"The study {name} cannot be made: {why}", remedy="Name other datasets with --data.")
    runs = combine_runs(run for name, each in required.items() if name not in left_out for run in each)
    return PreparedStudies(
        studies=tuple(study for study in studies if study.name not in left_out),
        left_out=left_out,
        context=context,
        runs=tuple(runs),
        existing_run=source,
        datasets=datasets,
        settings=settings,
        spec=spec or RunSpec(judge=False),
        out=Path(out),
        concurrency=concurrency,
    )


def run(
    name: str,
    *,
    progress: Callable[[str, RunProgress], object] | None = None,
    **how: Any,
) -> StudyResult:
    """Make one study: the runs that it needs, its numbers, its figure and a page.

    Args:
        name: The name of the study, also as `NAME:key=value,...`.
        progress: Called with the name of the run at the beginning of each and after every episode. An exception that
            it raises ends the runs early; the same call resumes them.
        how: The arguments of `prepare_studies`.
    """
    prepared = prepare_studies(choose_studies(name), **how)
    if len(prepared.studies) != 1:
        raise StudyError(f"{name!r} names several studies.", remedy="Name one of them.")

    def carry_out(run_name: str, planned: PreparedRun) -> None:
        bench.carry_out(planned, progress=partial(progress, run_name) if progress else None)

    recordings = prepared.make_runs(carry_out)
    result = prepared.analyse(prepared.studies[0], recordings)
    prepared.write_index()
    return result
