"""The paper from one command: its calibration, its runs, its studies, and one report of ours beside theirs.

OUT/train and OUT/dev hold the states of the calibration, OUT/calibration.json the fit, OUT/studies every other run with
the page of each study, and OUT/report.html and OUT/report.pdf the result. A call with the same arguments goes on
wherever an earlier one ended; nothing is printed and nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag import bench, calibrate
from beliefrag.bench.benchmark import PreparedRun, Preview, format_duration
from beliefrag.bench.datasets import find_format, is_dataset, load_dataset
from beliefrag.bench.questions import TRAIN
from beliefrag.bench.setup import RunSpec, collection_spec
from beliefrag.calibration import Artifact, load_artifact
from beliefrag.opening import run_to_end
from beliefrag.report.figure import open_figure
from beliefrag.report.paper_comparison import Drawn, Part, draw_comparison, tables_with_paper, write_report
from beliefrag.report.published import published_numbers
from beliefrag.report.run_report import CHARGED_EACH_STEP, format_usage
from beliefrag.report.table import Heading
from beliefrag.runs.record import RunRecord, in_dollars
from beliefrag.runs.run_errors import DataError
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.states import Label
from beliefrag.runs.summary import Summary, summarise
from beliefrag.settings import Settings
from beliefrag.studies.make import PreparedStudies, prepare_studies
from beliefrag.studies.study import STUDIES, ChosenStudy, StudyResult, choose_studies
from beliefrag.types import Usage

FACTOID = ("nq", "triviaqa", "popqa")
SETS = ("hotpotqa", "2wikimultihopqa", "musique", *FACTOID)
"""The sets of the paper's main table, by the names that their folders have."""
PARTS = {"": "gpt-oss-120b", "table1": "gpt-oss-120b", "qwen": "Qwen3-32B", "studies": ""}
"""What can be reproduced alone, and the backbone whose tables ours are compared with."""
_TABLE_STUDY = "frontier"
_FITTED_ON = SETS[0]
_STATES = ("train", "dev")
"""The folders of the states that the calibration is fitted and chosen on."""

Play = Callable[[str, PreparedRun], bool]
"""Carries out a run of that name, and returns whether every episode has finished."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What to reproduce, with which model, from which data."""

    settings: Settings
    """Under the profile `paper`. A calibration in it is used in place of a fit."""
    data: Path
    out: Path
    n: int = 100
    n_factoid: int | None = None
    """Questions of each factoid set, in place of `n`."""
    fit: int = 300
    select: int = 156
    only: str = ""
    judge: bool = True
    """Whether the model judges answers, as in the paper. Without it, a token F1 of one half makes an answer right."""

    @property
    def calibration(self) -> Path:
        """The file of the fit."""
        return self.out / "calibration.json"

    @property
    def is_fitted(self) -> bool:
        """Whether there is a calibration to use."""
        return bool(self.settings.calibration or self.settings.borrow) or self.calibration.exists()

    @property
    def calibrated_settings(self) -> Settings:
        """The settings of all runs but those that the calibration is fitted on."""
        given = self.settings.calibration or self.settings.borrow
        return self.settings.model_copy(update={} if given else {"calibration": str(self.calibration)})

    @property
    def label(self) -> Label:
        """What makes an answer right."""
        return "judge" if self.judge else "f1"

    @property
    def backbone(self) -> str:
        """Whose tables ours are compared with."""
        return "Qwen3-32B" if not self.only and "qwen3" in self.settings.model.lower() else PARTS[self.only]

    def folders(self) -> dict[str, Path]:
        """Return the folder of each set; DataError lists those that are missing and how to make them."""
        wanted = [*SETS, *(() if self.only in ("table1", "qwen") else ("rgb", "holobench"))]
        missing = [name for name in wanted if not is_dataset(self.data / name)]
        if missing:
            raise DataError(
                f"{self.data} lacks {len(missing)} of {len(wanted)} datasets: {', '.join(missing)}.",
                remedy="; ".join(map(self._describe_import, missing)),
            )
        return {name: self.data / name for name in wanted}

    def _describe_import(self, name: str) -> str:
        published = find_format(name)
        corpus = " --corpus PASSAGES" if name in ("nq", "popqa") else ""
        # Without files, an import takes them from the hub.
        files = "" if published.hub else " FILE..."
        source = "" if published.hub else f" ({published.expects} from {published.source})"
        return f"beliefrag data import {name}{files}{corpus} --out {self.data / name}{source}"


def describe(wanted: Reproduction) -> Iterator[str]:
    """Yield the plan: each run with its cost, and all of them together. No model is asked, and nothing is written."""
    previews: list[tuple[str, Preview]] = []
    settings = wanted.calibrated_settings
    if not wanted.is_fitted:
        for name, spec in _collections(wanted).items():
            planned = replace(spec, preview=True)
            previews.append((name, bench.preview(planned, out=wanted.out / name, settings=wanted.settings)))
        # Before one is fitted, any calibration will do: it shapes no estimate.
        settings = wanted.settings.model_copy(update={"borrow": "published"})
    prepared = _prepare_studies(wanted, settings, preview=True)
    for name, why in prepared.left_out.items():
        yield f"the study {name} is left out: {why}"
    previews += prepared.previews()
    for name, preview in previews:
        plan = preview.plan
        yield f"run {name}: {plan.total:,} episodes, {plan.left:,} left, {plan.estimate.calls:,} calls"
    parts = [part for _, each in previews for part in (each.plan.estimate.methods, each.plan.estimate.judge)]
    total = Usage(sum(p.calls for p in parts), sum(p.tokens_in for p in parts), sum(p.tokens_out for p in parts))
    seconds = sum(each.plan.estimate.seconds for _, each in previews)
    record = previews[-1][1].record
    yield f"all together, an estimate that can be off by a factor of two: {format_usage(total)}, judging included"
    yield f"time: {format_duration(seconds)}; money: {in_dollars(record.model, record.price, total)}"


def carry_out(wanted: Reproduction, play: Play) -> tuple[list[Path], bool]:
    """Carry out what is left, and write the report. Return its files, and whether no episode is missing."""
    # What a report lacks is found now and not after hours of calls.
    open_figure((1, 1))
    # A second fit would carry another date, and a run refuses to go on with another calibration.
    if not wanted.is_fitted:
        _calibrate(wanted, play)
    prepared = _prepare_studies(wanted, wanted.calibrated_settings)
    finished: list[bool] = []
    recordings = prepared.make_runs(lambda name, planned: finished.append(play(name, planned)))
    results = [(study, prepared.analyse(study, recordings)) for study in prepared.studies]
    prepared.write_index()
    return _report(wanted, prepared, results), all(finished)


def _collections(wanted: Reproduction) -> dict[str, RunSpec]:
    """Return the runs that the calibration is fitted and chosen on, by the names of their folders."""
    folder = wanted.folders()[_FITTED_ON]
    dataset = load_dataset(folder)
    if TRAIN not in dataset.splits():
        raise DataError(
            f"{folder} has no train questions to fit a calibration on.",
            remedy="Import the train file too, or name a calibration with --set calibration=FILE.",
        )
    shared = collection_spec(RunSpec(data=(folder,), judge=wanted.judge))
    parts = (wanted.fit, (TRAIN,)), (wanted.select, dataset.evaluation_splits())
    return {name: replace(shared, n=n, splits=splits) for name, (n, splits) in zip(_STATES, parts, strict=True)}


def _calibrate(wanted: Reproduction, play: Play) -> None:
    for name, spec in _collections(wanted).items():
        # What failed is tried once more. A model that is not there ends the run with an error of its own.
        for _ in range(2):
            planned = bench.prepare_run(spec, out=wanted.out / name, settings=wanted.settings)
            if not planned.plan.left:
                run_to_end(planned.aclose())
            elif not play(name, planned):
                continue
            break
    train, dev = (wanted.out / name for name in _STATES)
    calibrate.fit(train, select=dev, label=wanted.label, name="reproduced", out=wanted.calibration)


def _prepare_studies(wanted: Reproduction, settings: Settings, *, preview: bool = False) -> PreparedStudies:
    names = [each.name for each in STUDIES.usable()]
    if wanted.only:
        names = [name for name in names if (name == _TABLE_STUDY) is (wanted.only != "studies")]
    counts = {} if wanted.n_factoid is None else dict.fromkeys(FACTOID, wanted.n_factoid)
    return prepare_studies(
        [study for name in names for study in choose_studies(name)],
        out=wanted.out / "studies",
        data=wanted.folders().values(),
        settings=settings,
        spec=RunSpec(n=wanted.n, n_of=counts, judge=wanted.judge, preview=preview),
        label=wanted.label,
        checks_calibration=not preview or wanted.is_fitted,
    )


def _report(
    wanted: Reproduction, prepared: PreparedStudies, results: list[tuple[ChosenStudy, StudyResult]]
) -> list[Path]:
    parts: list[Part] = []
    summary = summarise(prepared.folder("comparison"))
    if wanted.backbone:
        parts += [Heading(f"Tables beside {wanted.backbone}"), *tables_with_paper(summary, wanted.backbone)]
    for study, result in results:
        parts += [Heading(study.extension.title), study.extension.summary, result.findings, result.sample, result.notes]
        if figure := result.open_figure():
            parts.append(Drawn(figure, result.caption))
        values = [(each.what, each.ours, each.theirs) for each in result.paper_values]
        if study.name != _TABLE_STUDY and (drawn := draw_comparison(values, study.extension.title)):
            parts += [result.paper_note, drawn]
    parts += [Heading("Deviations from the paper"), tuple(_deviations(wanted, prepared, summary))]
    title = "The BeliefRAG paper, reproduced"
    files = write_report(title, summary.first_line, parts, wanted.out / "report", complete=summary.complete)
    return [*files, prepared.out / "index.html"]


def _deviations(wanted: Reproduction, prepared: PreparedStudies, summary: Summary) -> Iterator[str]:
    run = summary.run
    yield f"The model is {run.model}; the paper's are gpt-oss-120b and Qwen3-32B behind a university's server."
    if wanted.settings.prompts is None:
        yield "All prompts are in our own words; --set prompts=DIR takes others."
    records = [RunRecord.read(prepared.folder(each.name)) for each in prepared.runs]
    for name, dataset in {name: used for each in records for name, used in each.datasets.items()}.items():
        asked, source = len(dataset.question_ids), dataset.source or "a source that its card does not name"
        theirs = " where the paper has 100" if name in SETS else ""
        yield f"{name}: {asked:,} questions{theirs}, {dataset.passages:,} passages, from {source}."
    is_paper = run.rules == Settings(profile="paper").rules
    yield f"The rules: {CHARGED_EACH_STEP if is_paper else run.rules or 'methods pay for what they use'}."
    for name in _STATES:
        if failed := sum(not each.finished for each in read_summaries(wanted.out / name).values()):
            yield f"{failed:,} episodes of {name}, for the calibration, failed and are left out."
    settings = wanted.calibrated_settings
    yield from _describe_calibration(load_artifact(settings.borrow or str(settings.calibration)))
    yield "The judge is the model itself, as in the paper." if wanted.judge else "No judge: right is by token F1."
    yield (
        "Where the paper is silent: the token budget bounds every call but the final answer; abstaining takes three "
        "thresholds of ours; the scale of BM25's scores is measured with each set's questions; a reply that cannot be "
        "read is asked for again once; counterfactual runs replace two of five hits."
    )
    yield from (f"The study {name} was not made: {why}" for name, why in prepared.left_out.items())
    if not summary.complete:
        yield f"Episodes are missing: {summary.first_line}"


def _describe_calibration(used: Artifact) -> Iterator[str]:
    if used.fit is None:
        yield f"The calibration {used.name} is borrowed: it was fitted for {used.backbone} with other prompts."
        return
    theirs = {name: published_numbers()[name].value for name in ("brier", "brier_base")}
    score = used.fit.answerability.selection.get(used.answerability.kind)
    counts = f"{used.counts.get('xfit', 0)} and {used.counts.get('xsel', 0)}"
    yield (
        f"Answerability is fitted and chosen on {counts} questions with states (the paper: 300 and 156); the "
        f"{used.answerability.kind} kind has the Brier score {'unknown' if score is None else f'{score:.4f}'} "
        f"where the paper's has {theirs['brier']} and its base rate {theirs['brier_base']}."
    )
    if used.retrieval_value is None:
        yield "Too few searches helped to fit a retrieval value; the paper's schedule by round is used."
