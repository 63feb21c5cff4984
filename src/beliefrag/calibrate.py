"""Calibration for programs and notebooks: collect states, fit, check, compare, bound the risk, and tune thresholds.

Each function does what the command of the same name does, without printing or asking. A result has `tables`, which a
notebook shows and which become a `DataFrame` with `to_pandas()`. Only `collect` and `auto` ask a model.

    from beliefrag import calibrate
    fitted = calibrate.fit("runs/states", out="mine.json")
    calibrate.check("mine.json", "runs/other").tables[0].to_pandas()
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.benchmark import format_duration, format_usage, run_to_end
from beliefrag.bench.made_questions import (
    CALLS_PER_QUESTION,
    TOKENS_PER_CALL,
    MadeQuestions,
    QuestionSeed,
    draw_seeds,
    make_dataset,
    make_questions,
)
from beliefrag.bench.own_ranker import OwnRanker, fit_own_ranker
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import collection_spec
from beliefrag.calibration.artifact import (
    Artifact,
    Guarantee,
    conditions_of_run,
    count_guarantees_in_file,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
    select_artifact,
    shipped_artifacts,
    write_artifact,
)
from beliefrag.calibration.examples import StateCollection, parse_label, read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.quality import ArtifactCheck, ArtifactComparison, check_artifact, compare_artifacts
from beliefrag.calibration.risk import (
    RiskCoverageCurve,
    RiskSample,
    add_guarantees,
    answers_needed,
    load_artifact_for_run,
    make_guarantees,
    read_risk_sample,
    risk_coverage,
)
from beliefrag.calibration.tuning import RECORDING, Grid, Setting, Tuning, TuningError, has_corrections, tune_thresholds
from beliefrag.errors import SettingsError
from beliefrag.models.providers import use_server_model
from beliefrag.opening import open_model
from beliefrag.paths import cache_dir
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.prompts import Prompts
from beliefrag.report import calibration_tables
from beliefrag.report.figure import draw_risk_coverage
from beliefrag.report.table import CellValue, Column, Table
from beliefrag.retrieval import docs_index
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.states import Label, read_trajectories
from beliefrag.runs.summary import MEASURES
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Passage, Question, Usage

__all__ = [
    "Grid",
    "OwnRanker",
    "auto",
    "check",
    "collect",
    "collection_spec",
    "compare",
    "fit",
    "fit_own_ranker",
    "risk",
    "show",
    "tune",
]

Folders = str | Path | Sequence[str | Path]
"""The folder of a run, or several."""
ArtifactOrName = Artifact | str | Path
"""A calibration, the name of a shipped one, or its file."""

_TUNED = ("answer", "retrieval_value", "correct_conflict", "correct_unreliable", "correct_flagged")
_MADE = "made_questions"
_FEWEST_HELD_OUT = 20
_JUDGED = {"lean": ("uncertainty",), "beliefrag": ("support", "conflict", "uncertainty", "gap")}
"""The diagnostics that a model gives, by method. Those that compare words are left out of the fit on made questions: a
made question has words of its passage, so they tell an answerable one at once, and people's questions not so."""


def _show_tables(result: Any) -> str:
    """Return the tables of a result as a notebook shows them."""
    return "\n".join(table._repr_html_() for table in result.tables)


@dataclass(frozen=True)
class CollectResult:
    """Recorded states."""

    _repr_html_ = _show_tables

    run: bench.Run

    @property
    def tables(self) -> tuple[Table, ...]:
        """What there is to fit on, by part of the questions."""
        _, trajectories = read_trajectories(self.run.folder)
        return (calibration_tables.state_counts_table(trajectories),)


@dataclass(frozen=True)
class FitResult:
    """A fitted calibration."""

    _repr_html_ = _show_tables

    artifact: Artifact
    label: Label
    """What said whether an answer was right."""
    path: Path | None = None
    """The file that it was written to."""
    lost_guarantees: int = 0
    """How many guarantees an earlier fit in this file had. They do not hold for the new fit."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before trusting the fit."""
        return self.artifact.fit.warnings if self.artifact.fit else ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it was fitted on, its quality, and its coefficients."""
        return calibration_tables.artifact_tables(self.artifact)


@dataclass(frozen=True)
class AutoCalibration(FitResult):
    """A calibration from made questions."""

    made: MadeQuestions = field(kw_only=True)
    folder: Path = field(kw_only=True)
    """Holds the questions and the run with the recorded states."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before trusting it."""
        held_out = sum(partition(each.id) is Partition.XHOLD for each in self.made.questions)
        few = (f"only {held_out} held-out questions say how good it is: ask for more with -n",)
        return (*(few if held_out < _FEWEST_HELD_OUT else ()), *super().warnings)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions there are of each kind."""
        return dict(Counter(each.kind for each in self.made.questions))


@dataclass(frozen=True)
class ShowResult:
    """One calibration with all about it, or a list of several."""

    _repr_html_ = _show_tables

    artifacts: tuple[Artifact, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class CheckResult:
    """The quality of a calibration on states that it has not seen."""

    _repr_html_ = _show_tables

    artifact: Artifact
    label: Label
    check: ArtifactCheck
    warnings: tuple[str, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Its quality over all states and for each dataset, and the AUC of each diagnostic by itself."""
        return calibration_tables.check_tables(self.check)


@dataclass(frozen=True)
class CompareResult:
    """Two calibrations side by side, and with states the difference on them with its interval."""

    _repr_html_ = _show_tables

    first: Artifact
    second: Artifact
    tables: tuple[Table, ...]
    comparison: ArtifactComparison | None = None
    """Both on the same states; None where no states were given."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class RiskResult:
    """Guarantees for a calibration."""

    _repr_html_ = _show_tables

    artifact: Artifact
    """The calibration with the guarantees."""
    guarantees: tuple[Guarantee, ...]
    """One for each target. One without a threshold could not be met."""
    sample: RiskSample
    curve: RiskCoverageCurve | None
    """None where the policy declines every question."""
    files: tuple[Path, ...] = ()
    """What was written."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which questions were left out, and which targets could not be met."""
        left_out = [f"left out: {n:,} questions, because {reason}" for reason, n in self.sample.left_out.items()]
        unmet = [
            f"no threshold met a largest error of {each.max_error:g}: it takes "
            f"at least {answers_needed(each.max_error, each.confidence):,} right answers, and more if some are wrong"
            for each in self.guarantees
            if each.threshold is None
        ]
        return (*left_out, *unmet, *(() if self.curve else ("no curve: the policy declines every question",)))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The targets with their thresholds."""
        return (calibration_tables.guarantee_table(self.guarantees),)


@dataclass(frozen=True)
class TuneResult:
    """Thresholds tried on a recorded run, and the chosen ones."""

    _repr_html_ = _show_tables

    tuning: Tuning
    measure: Label
    file: Path | None = None
    """The written table."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every setting on xsel, and the chosen and current ones on xhold."""
        found = self.tuning
        rows = [self._row("xsel", each) for each in found.settings]
        if found.current.thresholds not in {each.thresholds for each in found.settings}:
            rows.append(self._row("xsel", found.current))
        rows += [self._row("xhold", each) for each in found.held_out or ()]
        names = ("part", "setting", "answer", "retrieval_value", "corrections", "n")
        bounded = (Column(MEASURES[self.measure], bounded=True), Column("tokens", digits=0, bounded=True))
        columns = (*map(Column, names), *bounded, *map(Column, ("answered", "error", "unrecorded")))
        return (Table("tune", "Thresholds on recorded states", columns, tuple(rows)),)

    @property
    def settings(self) -> str | None:
        """The chosen thresholds for the settings file: those that were tried, and others that are not the default."""
        if self.tuning.chosen is None:
            return None
        chosen = self.tuning.chosen.thresholds
        lines = ["[thresholds]"]
        for each in fields(Thresholds):
            value = getattr(chosen, each.name)
            if each.name != "merge_rewriter" and (each.name in _TUNED or value != each.default):
                lines.append(f"{each.name} = {json.dumps(value)}")
        if not chosen.merge_rewriter:
            lines += ["", "[correction]", 'rewriter = "apart"']
        return "\n".join(lines) + "\n"

    def _row(self, part: str, setting: Setting) -> tuple[CellValue, ...]:
        found, own = self.tuning, setting.thresholds
        marks = {
            "chosen": found.chosen is not None and own == found.chosen.thresholds,
            "current": own == found.current.thresholds,
            "frontier": part == "xsel" and any(each is setting for each in found.frontier),
        }
        return (
            part,
            ", ".join(name for name, holds in marks.items() if holds),
            own.answer,
            own.retrieval_value,
            "on" if has_corrections(own) else "off",
            setting.questions,
            setting.quality,
            setting.tokens,
            setting.answered,
            setting.error,
            setting.unrecorded,
        )


def collect(
    spec: bench.RunSpec,
    *,
    out: str | Path,
    method: str = "beliefrag",
    uncorrected: bool = False,
    searches: bool = True,
    settings: Settings | None = None,
    concurrency: int | None = None,
    progress: Callable[[bench.RunProgress], object] | None = None,
    control: bench.RunControl | None = None,
) -> CollectResult:
    """Visit states on labelled questions, and record the answer that each state would give. This asks a model.

    The methods of `spec` are not used: `method` is the one whose states are collected, beliefrag or lean. With
    `uncorrected` each question is visited a second time without corrections, so that `tune` can switch them off. Lean
    searches where its first answer is unsure, so that `fit` learns what a search is worth, unless `searches` is off.
    The other arguments are those of `bench.run`; a call with the same ones continues a run that was stopped.
    """
    states = collection_spec(spec, method=method, uncorrected=uncorrected, searches=searches)
    return CollectResult(
        bench.run(states, out=out, settings=settings, concurrency=concurrency, progress=progress, control=control)
    )


def fit(
    runs: Folders,
    *,
    label: str | None = None,
    name: str | None = None,
    everything: bool = False,
    quality_on: Folders = (),
    out: str | Path | None = None,
) -> FitResult:
    """Fit answerability and retrieval value to the recorded states of runs. No model is asked.

    Args:
        runs: Folders with recorded states.
        label: What says whether an answer was right: judge, f1, exact_match or cover. By default judge where every
            answer has a verdict, otherwise f1.
        name: The name of the calibration; by default that of the model.
        everything: Fit the chosen kind again on all questions, also those that are held out. The calibration is then
            marked as contaminated.
        quality_on: Other runs to measure the quality of both fits on, instead of the held-out questions of `runs`.
        out: The file to write it to. By default nothing is written.
    """
    folders, others = _folders(runs), _folders(quality_on)
    path = Path(out) if out is not None else None
    lost = count_guarantees_in_file(path) if path else 0
    collection, used = _read_states(folders, label)
    elsewhere = None
    if others:
        # This refuses states that do not mean the same.
        read_collection(list({folder.resolve(): folder for folder in (*folders, *others)}.values()))
        elsewhere = read_collection(others)
    artifact = fit_artifact(collection, used, name=name, everything=everything, elsewhere=elsewhere)
    if path:
        write_artifact(artifact, path)
    return FitResult(artifact, used, path, lost)


def show(artifact: ArtifactOrName | None = None) -> ShowResult:
    """Return a calibration by its name or file; without one, all that come with the package."""
    if artifact is None:
        shipped = tuple(shipped_artifacts().values())
        return ShowResult(shipped, (calibration_tables.artifact_list(shipped),))
    found = _load(artifact)
    return ShowResult((found,), calibration_tables.artifact_tables(found))


def check(artifact: ArtifactOrName, states: Folders, *, label: str | None = None) -> CheckResult:
    """Measure a calibration on recorded states of questions that it was neither fitted nor chosen on.

    The `label` says whether an answer was right, as in `fit`.
    """
    fitted = _load(artifact)
    collection, used = _read_states(_folders(states), label)
    return CheckResult(fitted, used, check_artifact(fitted, collection, used), tuple(_warn(collection, fitted)))


def compare(
    first: ArtifactOrName, second: ArtifactOrName, *, states: Folders = (), label: str | None = None
) -> CompareResult:
    """Set two calibrations side by side; with states also on those that neither has seen.

    The `label` says whether an answer was right, as in `fit`; it needs states.
    """
    one, other = _load(first), _load(second)
    folders = _folders(states)
    table = calibration_tables.side_by_side_table(one, other)
    if not folders:
        if label:
            raise SettingsError(f"The label {label} needs states.", remedy="Add --states.")
        return CompareResult(one, other, (table,))
    collection, used = _read_states(folders, label)
    found = compare_artifacts(one, other, collection, used)
    tables = (table, calibration_tables.comparison_table(found, used))
    return CompareResult(one, other, tables, found, tuple(_warn(collection, one, other)))


def risk(
    artifact: str | Path,
    run: str | Path,
    *,
    max_error: float | Sequence[float],
    confidence: float = 0.9,
    label: str | None = None,
    thresholds: Thresholds = Thresholds(),
    out: str | Path | None = None,
) -> RiskResult:
    """Choose from which answerability on to answer, so that at most a given share of the answers is wrong.

    It is chosen on the held-out questions of a recorded run, for one policy. No model is asked.

    Args:
        artifact: The name or file of a calibration that was fitted for what the run was recorded with.
        run: The folder of the run.
        max_error: The largest share of wrong answers among those given, or several such targets.
        confidence: The probability with which each limit must hold.
        label: What says whether an answer was right, as in `fit`.
        thresholds: The policy that the guarantee is for.
        out: A new file, or that of this calibration, to write it with its guarantees to; the curve is drawn next to it.
    """
    targets = sorted({max_error} if isinstance(max_error, float | int) else set(max_error))
    for share in (*targets, confidence):
        if not 0 < share < 1:
            raise SettingsError(f"A share lies between 0 and 1, not at {share:g}.")
    if not thresholds.abstain:
        raise SettingsError("A policy that never abstains keeps to no bound.", remedy="Set thresholds.abstain to true.")
    path = Path(out) if out is not None else None
    if path:
        _require_own_file(path, str(artifact))
    policy = replace(thresholds, decline_below=None)
    collection, used = _read_states([Path(run)], label)
    (record,) = collection.runs
    fitted = load_artifact_for_run(str(artifact), record)
    # The scale is not used: relevance was measured when the states were recorded.
    calibration = fitted.calibration(fitted.score_scale or ScoreScale(0.0, 1.0))
    seen = fitted.find_seen(each for dataset in record.datasets.values() for each in dataset.question_ids)
    sample = read_risk_sample(record, collection.trajectories, calibration, label=used, thresholds=policy, seen=seen)
    guarantees = make_guarantees(sample, record, targets=targets, confidence=confidence, label=used, thresholds=policy)
    bounded = add_guarantees(fitted, guarantees)
    curve = risk_coverage(sample) if len(sample.probability) else None
    files: list[Path] = []
    if path:
        write_artifact(bounded, path)
        files.append(path)
        if curve:
            files += draw_risk_coverage(curve, guarantees, path.with_name(f"{path.stem}.risk"))
    return RiskResult(bounded, guarantees, sample, curve, tuple(files))


def tune(
    run: str | Path,
    *,
    max_tokens: float | None = None,
    min_quality: float | None = None,
    measure: str = "f1",
    grid: Grid | None = None,
    calibration: str | None = None,
    borrow: str | None = None,
    out: str | Path | None = None,
) -> TuneResult:
    """Choose thresholds from the recorded states of a run: the best for a token budget, or the cheapest good ones.

    A setting is chosen on one part of the questions (xsel) and checked on another (xhold). No model is asked.

    Args:
        run: The folder of the run.
        max_tokens: Choose the greatest quality at no more mean tokens per question than this.
        min_quality: Choose the fewest tokens at no less mean quality than this. Without a goal nothing is chosen.
        measure: The quality of an answer: f1, exact_match, cover or judge.
        grid: Which thresholds to try; by default values over their whole range.
        calibration: The calibration to decide with; by default the shipped one that fits the run.
        borrow: A calibration to decide with although it was fitted for something else.
        out: The CSV file to write the table to. By default nothing is written.
    """
    if max_tokens is not None and min_quality is not None:
        raise SettingsError("A token budget and a least quality are two goals.", remedy="Give one or the other.")
    label = parse_label(measure)
    record, trajectories = read_trajectories(Path(run), *RECORDING)
    conditions = conditions_of_run(record)
    artifact = select_artifact(conditions, calibration=calibration, borrow=borrow)
    tuning = tune_thresholds(
        record, trajectories, artifact, grid=grid, measure=label, max_tokens=max_tokens, min_quality=min_quality
    )
    warnings = find_calibration_warnings(artifact, conditions)
    notes = (*tuning.notes, *(f"{artifact.name} may be off here: {each}" for each in warnings))
    found = TuneResult(replace(tuning, notes=notes), label, Path(out) if out is not None else None)
    if found.file:
        try:
            found.file.parent.mkdir(parents=True, exist_ok=True)
            found.file.write_text(found.tables[0].to_csv(), encoding="utf-8")
        except OSError as error:
            raise TuningError(
                f"{found.file} cannot be written: {error.strerror}.", remedy="Name another file with --out."
            ) from error
    return found


@dataclass(frozen=True, slots=True)
class AutoPlan:
    """An estimate of what a calibration will take."""

    passages: int
    questions: int
    making: Usage
    asking: Usage | None
    """None where the cost of a part is unknown."""
    seconds: float
    """Of the asking, which follows the making."""

    def __str__(self) -> str:
        asking = f"{format_usage(self.asking)}, {format_duration(self.seconds)}" if self.asking else "an unknown cost"
        return (
            f"{self.questions:,} questions are made from {self.passages:,} passages and asked, about "
            f"{format_usage(self.making)} to make them, and {asking} to ask them; less where the cache has replies"
        )


def auto(
    docs: Folders,
    *,
    out: str | Path,
    n: int = 120,
    method: str | None = None,
    searches: bool = True,
    name: str | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    concurrency: int | None = None,
    confirm: Callable[[AutoPlan], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
    run_progress: Callable[[bench.RunProgress], object] | None = None,
) -> AutoCalibration | None:
    """Calibrate a model on questions that it makes from your own documents. This asks the model.

    Questions that need one passage, questions that need two, and questions whose passage is taken out are made, checked
    and asked. The fit is made on one part of them, chosen on another, and its quality is measured on the rest. A call
    with the same arguments continues where one was ended, if replies are cached.

    Args:
        docs: Files or folders.
        out: The file of the calibration. The questions and the states go into a folder beside it.
        n: How many questions to make.
        method: The method to calibrate, beliefrag or lean; by default that of the settings.
        searches: For lean: search where the first answer is unsure, so that the value of a search is fitted.
        name: The name of the calibration; by default that of the model.
        seed: Another seed draws other passages.
        settings: As in `bench.run`.
        concurrency: As in `bench.run`.
        confirm: Called with the plan; if it returns False, no model is asked and the result is None.
        progress: Called with how many questions are made, and how many are wanted.
        run_progress: Called while the questions are asked.
    """
    chosen = settings or use_server_model(load_settings({}).settings)
    if n < 10:
        raise SettingsError(f"{n} questions are too few to fit anything on.", remedy="Make at least 10.")
    path = Path(out)
    lost = count_guarantees_in_file(path)
    folder = path.with_name(f"{path.stem}.questions")
    used = (method or chosen.method).partition(":")[0]
    spec = collection_spec(bench.RunSpec(judge=False), method=used, searches=searches)
    index, _ = docs_index(_folders(docs), cache_dir())
    passages = index.first(len(index))
    seeds = draw_seeds(passages, n, seed=seed)
    if confirm is not None and not confirm(_plan(seeds[:n], passages, spec, settings=chosen, folder=folder)):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The folder {folder} for the questions cannot be made: {error.strerror}.", remedy="Name another --out."
        ) from None
    made = run_to_end(_make(seeds, n, chosen, concurrency or chosen.concurrency, progress))
    dataset = make_dataset(_MADE, made.questions, passages)
    lines = "".join(f"{each.record()}\n" for each in made.questions)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    bench.run(
        replace(spec, datasets=(dataset,)),
        out=folder / "states",
        settings=chosen,
        concurrency=concurrency,
        progress=run_progress,
    )
    # The model must not judge its own answers to questions of its own.
    artifact = fit_artifact(read_collection([folder / "states"]), "f1", name=name, diagnostics=_JUDGED[used])
    write_artifact(artifact, path)
    return AutoCalibration(artifact, "f1", path, lost, made=made, folder=folder)


def _plan(
    seeds: Sequence[QuestionSeed], passages: Sequence[Passage], spec: bench.RunSpec, *, settings: Settings, folder: Path
) -> AutoPlan:
    # What asking costs depends on how many questions there are, not on their words.
    placeholders = tuple(
        LabelledQuestion(Question(each.passages[0].text[:80], f"stand_in_{number}"), Gold(("unknown",)))
        for number, each in enumerate(seeds)
    )
    dataset = Dataset(_MADE, placeholders, tuple(passages), Card(name=_MADE))
    planned = replace(spec, datasets=(dataset,), preview=True)
    ahead = bench.preview(planned, out=folder / "planned", settings=settings).plan.estimate
    calls = CALLS_PER_QUESTION * len(seeds)
    making = Usage(calls=calls, tokens_in=calls * TOKENS_PER_CALL, tokens_out=calls * 20)
    return AutoPlan(len(passages), len(seeds), making, None if ahead.unknown else ahead.methods, ahead.seconds)


async def _make(
    seeds: Sequence[QuestionSeed],
    n: int,
    settings: Settings,
    at_once: int,
    progress: Callable[[int, int], object] | None,
) -> MadeQuestions:
    model = open_model(settings)
    try:
        return await make_questions(model, Prompts.load(settings.prompts), seeds, n, at_once=at_once, progress=progress)
    finally:
        await model.aclose()


def _read_states(folders: Sequence[Path], label: str | None) -> tuple[StateCollection, Label]:
    wanted = parse_label(label) if label else None
    collection = read_collection(folders)
    return collection, wanted or collection.default_label()


def _load(artifact: ArtifactOrName) -> Artifact:
    return artifact if isinstance(artifact, Artifact) else load_artifact(str(artifact))


def _folders(given: Folders) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def _require_own_file(path: Path, artifact: str) -> None:
    """Refuse a file that exists, unless it is the one of this calibration."""
    own = Path(artifact).expanduser()
    is_own = artifact not in shipped_artifacts() and own.exists() and path.exists() and path.samefile(own)
    if path.exists() and not is_own:
        raise SettingsError(f"{path} is there already.", remedy="Name another file with --out.")


def _warn(collection: StateCollection, *artifacts: Artifact) -> Iterator[str]:
    for artifact in artifacts:
        for reason in find_mismatches(artifact, collection.conditions):
            yield f"{artifact.name} is not for these states: it was {reason}"
        if artifact.fit is None:
            yield f"{artifact.name} does not say which questions it has seen; some of these may be among them"
