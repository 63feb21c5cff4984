"""Calibration for programs and notebooks: collect states, fit, check, compare, bound the risk, and tune thresholds.

Each function does what the command of the same name does, without printing or asking. A result has `tables`, which a
notebook shows and which become a `DataFrame` with `to_pandas()`. Only `collect` and `auto` ask a model.

    from beliefrag import calibrate
    fitted = calibrate.fit("runs/states", out="mine.json")
    calibrate.check("mine.json", "runs/other").tables[0].to_pandas()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from beliefrag import bench
from beliefrag.auto_calibration import AutoCalibration, AutoPlan, auto
from beliefrag.bench.own_ranker import OwnRanker, fit_own_ranker
from beliefrag.bench.setup import collection_spec
from beliefrag.calibration import (
    Artifact,
    Guarantee,
    conditions_of_run,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
    select_artifact,
    shipped_artifacts,
)
from beliefrag.calibration.artifact import write_artifact
from beliefrag.calibration.artifact_checks import ArtifactCheck, ArtifactComparison, check_artifact, compare_artifacts
from beliefrag.calibration.collection import StateCollection, parse_label, read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.guarantee_from_run import (
    RunRiskSample,
    add_guarantees,
    load_artifact_for_run,
    make_guarantees,
    read_risk_sample,
)
from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.calibration.risk import RiskCoverageCurve, answers_needed, risk_coverage
from beliefrag.calibration.selection import count_guarantees_in_file, require_own_file
from beliefrag.calibration.tuning import RECORDING, Grid, Setting, Tuning, TuningError, tune_thresholds
from beliefrag.errors import SettingsError
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.report import calibration_tables
from beliefrag.report.figure import draw_risk_coverage
from beliefrag.report.table import CellValue, Column, Table
from beliefrag.runs.states import Label, read_trajectories
from beliefrag.runs.summary import MEASURES
from beliefrag.settings import Settings

__all__ = [
    "AutoCalibration",
    "AutoPlan",
    "CheckResult",
    "CollectResult",
    "CompareResult",
    "FitResult",
    "Grid",
    "OwnRanker",
    "RiskResult",
    "ShowResult",
    "TuneResult",
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


class _WithTables:
    """A result that a notebook shows as its tables."""

    @property
    def tables(self) -> tuple[Table, ...]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return "\n".join(table._repr_html_() for table in self.tables)


@dataclass(frozen=True)
class CollectResult(_WithTables):
    """Recorded states."""

    run: bench.Run
    """The run on disk, and what came of this call."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """What there is to fit on, by part of the questions."""
        _, trajectories = read_trajectories(self.run.folder)
        return (calibration_tables.state_counts_table(trajectories),)


@dataclass(frozen=True)
class FitResult(_WithTables):
    """A fitted calibration."""

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
        """What it was fitted on, how good it is, and its coefficients."""
        return calibration_tables.artifact_tables(self.artifact)


@dataclass(frozen=True)
class ShowResult(_WithTables):
    """One calibration, or a list of several."""

    artifacts: tuple[Artifact, ...]
    is_list: bool = False

    @property
    def tables(self) -> tuple[Table, ...]:
        """All about the one, or a row for each of several."""
        if self.is_list:
            return (calibration_tables.artifact_list(self.artifacts),)
        return calibration_tables.artifact_tables(self.artifacts[0])


@dataclass(frozen=True)
class CheckResult(_WithTables):
    """How good a calibration is on states that it has not seen."""

    artifact: Artifact
    label: Label
    check: ArtifactCheck
    warnings: tuple[str, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Its quality over all states and for each dataset, and the AUC of each diagnostic by itself."""
        return calibration_tables.check_tables(self.check)


@dataclass(frozen=True)
class CompareResult(_WithTables):
    """Two calibrations beside each other."""

    first: Artifact
    second: Artifact
    label: Label | None
    comparison: ArtifactComparison | None
    """Both on the same states; None where no states were given."""
    warnings: tuple[str, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """What each is, and where there are states, the difference on them with its interval."""
        table = calibration_tables.side_by_side_table(self.first, self.second)
        if self.comparison is None or self.label is None:
            return (table,)
        return table, calibration_tables.comparison_table(self.comparison, self.label)


@dataclass(frozen=True)
class RiskResult(_WithTables):
    """Guarantees for a calibration."""

    artifact: Artifact
    """The calibration with the guarantees."""
    guarantees: tuple[Guarantee, ...]
    """One for each target. One without a threshold could not be met."""
    sample: RunRiskSample
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
class TuneResult(_WithTables):
    """Thresholds tried on a recorded run, and the chosen ones."""

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
        for field in fields(Thresholds):
            value = getattr(chosen, field.name)
            if field.name != "merge_rewriter" and (field.name in _TUNED or value != field.default):
                lines.append(f"{field.name} = {json.dumps(value)}")
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
    """Visit states on labelled questions, and records the answer that each state would give. This asks a model.

    A call with the same arguments goes on with a run that was stopped.

    Args:
        spec: Which questions, and who judges the answers. Its methods are not used.
        out: The folder of the run.
        method: The method whose states they are: beliefrag or lean.
        uncorrected: Visit each question a second time without corrections, so that `tune` can switch them off.
        searches: For lean: make each move where the first answer is unsure, so that `fit` learns what they are worth.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        concurrency: How many calls are made at a time.
        progress: Called at the beginning and after every episode.
        control: Its `stop` and `cancel` end the run early.

    Raises:
        RunChanged: The run in that folder began with something else.
        BeliefRAGError: Something cannot be used; the message says what.
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
        quality_on: Other runs that tell the quality of both fits, instead of the held-out questions of `runs`.
        out: The file to write it to. By default nothing is written.

    Raises:
        CalibrationError: There is nothing to fit on, or the file cannot be written.
        SettingsError: The label is not known, or the file exists and is not a calibration.
        RunError: A folder holds no run.
    """
    folders, others = _folders(runs), _folders(quality_on)
    wanted = parse_label(label) if label else None
    path = Path(out) if out is not None else None
    lost = count_guarantees_in_file(path) if path else 0
    collection = read_collection(folders)
    elsewhere = None
    if others:
        # This refuses states that do not mean the same.
        read_collection(list({folder.resolve(): folder for folder in (*folders, *others)}.values()))
        elsewhere = read_collection(others)
    used = wanted or collection.default_label()
    artifact = fit_artifact(collection, used, name=name, everything=everything, elsewhere=elsewhere)
    if path:
        write_artifact(artifact, path)
    return FitResult(artifact, used, path, lost)


def show(artifact: ArtifactOrName | None = None) -> ShowResult:
    """Return a calibration by its name or file; without one, all that come with the package.

    Raises:
        CalibrationError: There is no such calibration.
    """
    if artifact is None:
        return ShowResult(tuple(shipped_artifacts().values()), is_list=True)
    return ShowResult((_load(artifact),))


def check(artifact: ArtifactOrName, states: Folders, *, label: str | None = None) -> CheckResult:
    """Measure a calibration on recorded states of questions that it was neither fitted nor chosen on.

    Args:
        artifact: The calibration.
        states: Folders with recorded states.
        label: What says whether an answer was right, as in `fit`.

    Raises:
        CalibrationError: There is no such calibration, or no state is left that it has not seen.
    """
    fitted = _load(artifact)
    wanted = parse_label(label) if label else None
    collection = read_collection(_folders(states))
    used = wanted or collection.default_label()
    warnings = (*_mismatch_warnings(collection, fitted), *_unknown_questions_warnings(fitted))
    return CheckResult(fitted, used, check_artifact(fitted, collection, used), warnings)


def compare(
    first: ArtifactOrName, second: ArtifactOrName, *, states: Folders = (), label: str | None = None
) -> CompareResult:
    """Set two calibrations beside each other; with states also on those that neither has seen.

    Args:
        first: A calibration.
        second: Another one.
        states: Folders with recorded states.
        label: What says whether an answer was right, as in `fit`; needs states.

    Raises:
        CalibrationError: There is no such calibration, or no state is left that neither has seen.
        SettingsError: A label is given without states.
    """
    one, other = _load(first), _load(second)
    folders = _folders(states)
    if label and not folders:
        raise SettingsError(
            f"The label {label} says what is right at states, and no states were given.", remedy="Add --states."
        )
    wanted = parse_label(label) if label else None
    if not folders:
        return CompareResult(one, other, None, None, ())
    collection = read_collection(folders)
    used = wanted or collection.default_label()
    warnings = (*_mismatch_warnings(collection, one, other), *_unknown_questions_warnings(one, other))
    return CompareResult(one, other, used, compare_artifacts(one, other, collection, used), warnings)


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
        out: The file to write the calibration with its guarantees to; the curve is drawn next to it. It must be new,
            or the file of this calibration. By default nothing is written.

    Raises:
        CalibrationError: The calibration is not for this run, or the run has no held-out question.
        SettingsError: The policy never abstains, a share is not between 0 and 1, or the file belongs to something else.
    """
    targets = sorted({max_error} if isinstance(max_error, float | int) else set(max_error))
    for share in (*targets, confidence):
        if not 0 < share < 1:
            raise SettingsError(f"A share lies between 0 and 1, not at {share:g}.")
    if not thresholds.abstain:
        raise SettingsError("A policy that never abstains keeps to no bound.", remedy="Set thresholds.abstain to true.")
    wanted = parse_label(label) if label else None
    path = Path(out) if out is not None else None
    if path:
        require_own_file(path, str(artifact))
    policy = replace(thresholds, decline_below=None)
    collection = read_collection([Path(run)])
    (record,) = collection.runs
    used = wanted or collection.default_label()
    fitted = load_artifact_for_run(str(artifact), record)
    # The scale is not used: relevance was measured when the states were recorded.
    calibration = fitted.calibration(fitted.score_scale or ScoreScale(0.0, 1.0))
    seen = fitted.find_seen(each for dataset in record.datasets.values() for each in dataset.question_ids)
    sample = read_risk_sample(record, collection.trajectories, calibration, label=used, thresholds=policy, seen=seen)
    guarantees = make_guarantees(sample, record, targets=targets, confidence=confidence, label=used, thresholds=policy)
    bounded = add_guarantees(fitted, guarantees)
    curve = risk_coverage(sample.points) if len(sample.points.probability) else None
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
        measure: What says how good an answer is: f1, exact_match, cover or judge.
        grid: Which thresholds to try; by default values over their whole range.
        calibration: The calibration to decide with; by default the shipped one that fits the run.
        borrow: A calibration to decide with although it was fitted for something else.
        out: The CSV file to write the table to. By default nothing is written.

    Raises:
        TuningError: The run cannot be tuned, or the table cannot be written.
        SettingsError: The measure is unknown, or both goals are given.
        CalibrationError: There is no calibration for this run.
    """
    if max_tokens is not None and min_quality is not None:
        raise SettingsError("A token budget and a least quality are two goals.", remedy="Give one or the other.")
    label = parse_label(measure)
    record, trajectories = read_trajectories(Path(run), *RECORDING)
    conditions = conditions_of_run(record)
    artifact = select_artifact(conditions, calibration=calibration, borrow=borrow)
    tuning = tune_thresholds(
        record,
        trajectories,
        artifact,
        grid=grid,
        measure=label,
        max_tokens=max_tokens,
        min_quality=min_quality,
    )
    warnings = tuple(
        f"{artifact.name} may be off here: {each}" for each in find_calibration_warnings(artifact, conditions)
    )
    found = TuneResult(replace(tuning, notes=(*tuning.notes, *warnings)), label, Path(out) if out is not None else None)
    if found.file:
        try:
            found.file.parent.mkdir(parents=True, exist_ok=True)
            found.file.write_text(found.tables[0].to_csv(), encoding="utf-8")
        except OSError as error:
            raise TuningError(
                f"{found.file} cannot be written: {error.strerror}.", remedy="Name another file with --out."
            ) from error
    return found


def _load(artifact: ArtifactOrName) -> Artifact:
    return artifact if isinstance(artifact, Artifact) else load_artifact(str(artifact))


def _folders(given: Folders) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def _mismatch_warnings(collection: StateCollection, *artifacts: Artifact) -> Iterator[str]:
    for artifact in artifacts:
        for reason in find_mismatches(artifact, collection.conditions):
            yield f"{artifact.name} is not for these states: it was {reason}"


def _unknown_questions_warnings(*artifacts: Artifact) -> Iterator[str]:
    for artifact in artifacts:
        if artifact.fit is None:
            yield f"{artifact.name} does not say which questions it has seen; some of these may be among them"
