"""Calibrations as tables: what one was fitted on, its quality and coefficients; two side by side; guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from beliefrag.calibration import Artifact, Guarantee
from beliefrag.calibration.artifact import (
    Bin,
    LogisticFit,
    PartCount,
    PlattFit,
    Quality,
    QualityOnOtherStates,
)
from beliefrag.calibration.quality import ArtifactCheck, ArtifactComparison
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


def check_tables(check: ArtifactCheck) -> tuple[Table, ...]:
    """Return the quality of a calibration on states that it has not seen, over all and for each dataset."""
    by_name = {"all datasets": check.overall, **(check.datasets if len(check.datasets) > 1 else {})}
    tables = [_quality_table(f"Answerability on unseen questions: {name}", found) for name, found in by_name.items()]
    return (*tables, _auc_table("AUC of each diagnostic by itself: 0.5 is no signal", check.diagnostic_aucs))


def side_by_side_table(first: Artifact, second: Artifact) -> Table:
    """Return what two calibrations are, and what each reports about its own held-out questions."""
    one, other = (
        _facts(each)
        | {f"questions in {name}": f"{count:,}" for name, count in each.counts.items()}
        | {f"reported {name.replace('_', ' ')}": f"{value:g}" for name, value in each.quality.items()}
        for each in (first, second)
    )
    names = dict.fromkeys((*first.prompts, *second.prompts))
    changed = [name for name in names if first.prompts.get(name) != second.prompts.get(name)]
    one["prompts"] = other["prompts"] = f"differ: {', '.join(changed)}" if changed else "the same"
    rows = [(name, one.get(name, "-"), other.get(name, "-")) for name in dict.fromkeys((*one, *other))]
    return _table("side_by_side", "", ("what", "A", "B"), rows)


def comparison_table(found: ArtifactComparison, label: str) -> Table:
    """Return the measures of two calibrations on the same states, and A minus B with its interval."""
    rows = []
    for name, each in found.measures.items():
        gap = each.difference
        if name == "ECE":
            reading = "no interval: resampling would bias it"
        elif gap.low is None or gap.high is None:
            reading = "too few questions to say"
        else:
            reading = "clear" if gap.low > 0 or gap.high < 0 else "the interval holds zero"
        rows.append((name, f"{each.first:.4f}", f"{each.second:.4f}", f"{gap.value:+.4f}", _interval(gap, 4), reading))
    title = f"On the same {found.states:,} states of {found.questions:,} questions, label {label}; A minus B"
    return _table("comparison", title, ("measure", "A", "B", "difference", _INTERVAL, "reading"), rows)


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
    yield _auc_table("AUC of each diagnostic by itself, on xfit: 0.5 is no signal", report.alone)
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
        # A calibration without a base rate of its own is compared with the share of these states already.
        if isinstance(found, QualityOnOtherStates) and found.brier_share != found.brier_base_rate:
            words = "of always predicting their share, which is known only afterwards"
            rows.append(("Brier of these states' share", f"{found.brier_share:.4f}", "", words))
            rows.append(_gain_row("gain over these states' share", found.brier_gain_over_share, found.questions))
        if found.auc:
            rows.append(("AUC", f"{found.auc.value:.3f}", _interval(found.auc), "0.5 is no signal"))
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
    if isinstance(fitted, LogisticFit | PlattFit):
        weights = asdict(fitted.weights) if isinstance(fitted, LogisticFit) else {"slope": fitted.slope}
        yield from ((name, f"{weight:+.4f}") for name, weight in {"intercept": fitted.intercept, **weights}.items())


def _bin_row(found: Bin) -> tuple[str, ...]:
    return f"{found.low:.1f}-{found.high:.1f}", f"{found.states:,}", f"{found.predicted:.3f}", f"{found.observed:.3f}"


def _interval(found: Estimate, digits: int = 3) -> str:
    return "-" if found.low is None or found.high is None else f"{found.low:.{digits}f} to {found.high:.{digits}f}"
