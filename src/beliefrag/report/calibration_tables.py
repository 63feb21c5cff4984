"""Calibrations as tables: what one was fitted on, its quality and coefficients; guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from beliefrag.calibration import Artifact, Guarantee
from beliefrag.calibration.artifact import (
    Bin,
    PartCount,
    Quality,
)
from beliefrag.policy import IsotonicAnswerability, LogisticAnswerability
from beliefrag.report.table import Table
from beliefrag.runs.estimate import MIN_QUESTIONS, Estimate
from beliefrag.runs.partitions import Partition
from beliefrag.runs.states import LABELS, Trajectory

_INTERVAL = "95 % interval"
_table = Table.of_texts


def artifact_list(artifacts: Iterable[Artifact]) -> Table:
    """Return a table of calibrations."""
    rows = [(a.name, a.origin, a.answerability.kind, a.verifier, a.made, a.backbone) for a in artifacts]
    return _table("artifacts", "", ("name", "origin", "kind", "verifier", "made", "fitted for"), rows)


def artifact_tables(artifact: Artifact) -> tuple[Table, ...]:
    """Return all that is known about a calibration, without empty tables."""
    return tuple(table for table in _artifact_tables(artifact) if table.rows)


def state_counts_table(trajectories: Sequence[Trajectory]) -> Table:
    """Count what there is to fit on, by part. States without evidence are left out, as in a fit."""
    rows = []
    for part in Partition:
        own = [trajectory for trajectory in trajectories if trajectory.partition is part]
        states = [state for trajectory in own for state in trajectory.states if state.retained]
        questions = {(trajectory.dataset, trajectory.question_id) for trajectory in own}
        known = [[right for state in states if (right := state.correct(label)) is not None] for label in LABELS]
        shares = (f"{sum(each) / len(each):.0%}" if each else "-" for each in known)
        rows.append((part.value, f"{len(questions):,}", f"{len(states):,}", *shares))
    headings = ("part", "questions", "states", *(f"right by {label.replace('_', ' ')}" for label in LABELS))
    return _table("states", "", headings, rows)


def guarantee_table(guarantees: Iterable[Guarantee]) -> Table:
    """Return guarantees: the target, the threshold chosen for it, and what it was chosen on."""
    rows = []
    for each in guarantees:
        threshold = "none" if each.threshold is None else f"{each.threshold:.2f}"
        answered = f"{each.answered:,} of {each.questions:,}"
        rows.append((f"{each.max_error:g}", f"{each.confidence:g}", threshold, answered, f"{each.wrong:,}"))
    return _table("guarantees", "", ("max error", "confidence", "answer from", "answered", "wrong"), rows)


def _artifact_tables(artifact: Artifact) -> Iterator[Table]:
    yield _table("about", "", ("what", "which"), list(_facts(artifact).items()))
    if artifact.fit is None:
        counts = [(f"n {name}", f"{count:,}") for name, count in artifact.counts.items()]
        reported = [(name.replace("_", " "), f"{value:g}") for name, value in artifact.quality.items()]
        yield _table("quality", "Quality, as it was reported", ("measure", "value"), counts + reported)
        yield _table("coefficients", "Coefficients", ("name", "weight"), _numbers_in_use(artifact))
        return
    report = artifact.fit.answerability
    title = "States with evidence and a label, by part of the questions; a question counts once in all that follows"
    words = ("states", "answerable", "with an answerable state", "with one that is not")
    yield _counts_table(title, report.counts, words)
    yield _quality_table("Answerability on held-out questions", report.held_out)
    chosen = artifact.answerability.kind
    kinds = [(kind, f"{score:.4f}", "chosen" if kind == chosen else "") for kind, score in report.selection.items()]
    yield _table("kinds", "Brier score of each kind on the questions for choosing (xsel)", ("kind", "Brier", ""), kinds)
    yield _coefficient_table(f"Coefficients of the {chosen} kind, fitted on xfit", report.coefficients.get(chosen, {}))
    yield _auc_table("AUC of each diagnostic by itself, on xfit: 0.5 means no signal", report.alone)
    if artifact.contaminated or isinstance(artifact.answerability, IsotonicAnswerability):
        yield _table("numbers", "The numbers in use", ("name", "value"), _numbers_in_use(artifact))
    if report.held_out:
        headings = ("predicted", "states", "mean", "came true")
        yield _table("reliability", "Reliability on held-out questions", headings, map(_bin_row, report.held_out.curve))
    if (value := artifact.fit.retrieval_value) is not None:
        title = "Retrieval value: searches from a state that was not answerable"
        yield _counts_table(
            title, value.counts, ("searches", "helped", "with one that helped", "with one that did not")
        )
        yield _coefficient_table("Coefficients of the retrieval value, fitted on xfit", value.coefficients)
        yield _quality_table("Retrieval value on held-out questions", value.held_out)
    yield _table("warnings", "Warnings", ("warning",), [(warning,) for warning in artifact.fit.warnings])


def _facts(artifact: Artifact) -> dict[str, str]:
    scale = artifact.score_scale
    facts = {
        "name": artifact.name,
        "origin": artifact.origin,
        "kind": artifact.answerability.kind,
        "fitted for": artifact.backbone,
        "verifier": artifact.verifier,
        "retriever": artifact.retriever,
        "prompts": ", ".join(f"{name} {digest}" for name, digest in artifact.prompts.items()) or "not known",
        "answerable means": artifact.target,
        "questions": artifact.partition,
        "seed": "not known" if artifact.seed is None else str(artifact.seed),
        "contaminated": "yes: it saw held-out questions" if artifact.contaminated else "no",
        "made": artifact.made,
        "score scale": f"location {scale.location:.2f}, scale {scale.scale:.2f}" if scale else "not known",
        "retrieval value": "fitted" if artifact.retrieval_value else "the paper's schedule by round",
    }
    if artifact.fit:
        report = artifact.fit.answerability
        facts["states of"] = ", ".join(artifact.fit.methods)
        facts["left out"] = f"{report.without_evidence} states without evidence, {report.unlabelled} without a label"
        facts["base rate"] = f"{report.base_rate:.3f} of the fitted questions' states are answerable"
    return facts | ({"note": artifact.note} if artifact.note else {})


def _counts_table(title: str, counts: Mapping[str, PartCount], words: tuple[str, str, str, str]) -> Table:
    rows = []
    for part, count in counts.items():
        numbers = (count.states, count.positive, count.questions, count.questions_positive, count.questions_negative)
        rows.append((part, *(f"{number:,}" for number in numbers)))
    return _table(words[0], title, ("part", *words[:2], "questions", *words[2:]), rows)


def _quality_table(title: str, found: Quality | None) -> Table:
    rows: list[tuple[str, str, str, str]] = []
    if found is not None:
        rows = [
            ("states, questions", f"{found.states:,}, {found.questions:,}", "", f"{found.share:.1%} came true"),
            ("Brier", f"{found.brier.value:.4f}", _interval(found.brier, 4), "lower is better"),
            ("Brier of the base rate", f"{found.brier_base_rate:.4f}", "", "of always predicting it"),
            _gain_row("gain over the base rate", found.brier_gain, found.questions),
        ]
        if found.auc:
            rows.append(("AUC", f"{found.auc.value:.3f}", _interval(found.auc), "0.5 means no signal"))
        rows.append(("ECE", f"{found.ece:.3f}", "", "ten equal bins; 0 is perfect"))
    return _table("quality", title, ("measure", "value", _INTERVAL, "reading"), rows)


def _gain_row(name: str, gain: Estimate, questions: int) -> tuple[str, str, str, str]:
    reading = "clear" if questions >= MIN_QUESTIONS else f"not clear: fewer than {MIN_QUESTIONS} questions"
    if gain.low is None or gain.low <= 0:
        reading = "not clear: the interval reaches 0"
    return name, f"{gain.value:+.4f}", _interval(gain, 4), reading


def _coefficient_table(title: str, coefficients: Mapping[str, Estimate]) -> Table:
    rows = [(name, f"{each.value:+.3f}", _interval(each)) for name, each in coefficients.items()]
    return _table("coefficients", title, ("name", "weight", _INTERVAL), rows)


def _auc_table(title: str, aucs: Mapping[str, float]) -> Table:
    return _table("diagnostics", title, ("name", "AUC"), [(name, f"{value:.3f}") for name, value in aucs.items()])


def _numbers_in_use(artifact: Artifact) -> Iterator[tuple[str, str]]:
    fitted = artifact.answerability
    if isinstance(fitted, IsotonicAnswerability):
        for score, probability in zip(fitted.scores, fitted.probabilities, strict=True):
            yield f"at {score:.3f}", f"{probability:.3f}"
    else:
        weights = asdict(fitted.weights) if isinstance(fitted, LogisticAnswerability) else {"slope": fitted.slope}
        yield from ((name, f"{weight:+.4f}") for name, weight in {"intercept": fitted.intercept, **weights}.items())


def _bin_row(found: Bin) -> tuple[str, ...]:
    return f"{found.low:.1f}-{found.high:.1f}", f"{found.states:,}", f"{found.predicted:.3f}", f"{found.observed:.3f}"


def _interval(found: Estimate, digits: int = 3) -> str:
    return "-" if found.low is None or found.high is None else f"{found.low:.{digits}f} to {found.high:.{digits}f}"
