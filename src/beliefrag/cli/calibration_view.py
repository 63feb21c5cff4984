"""Shows an artifact: what it was fitted on, how good it is, its coefficients and its reliability curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import typer

from beliefrag.calibration import Artifact
from beliefrag.calibration.artifact_parts import (
    Bin,
    IsotonicFit,
    LogisticFit,
    PartCount,
    PlattFit,
    Quality,
    QualityOnOtherStates,
)
from beliefrag.cli.output import print_table
from beliefrag.runs.statistics import Estimate

__all__ = ["between", "facts", "print_artifact", "print_list", "print_quality"]

_WIDTH = 30
"""Characters of a bar of the reliability curve."""
_FROM = "95 % interval"


def print_list(artifacts: Sequence[Artifact]) -> None:
    """Prints one line for each."""
    rows = [
        (each.name, each.origin, each.answerability.kind, each.verifier, each.made, each.backbone) for each in artifacts
    ]
    print_table(("name", "origin", "kind", "verifier", "made", "fitted for"), rows)


def print_artifact(artifact: Artifact) -> None:
    """Prints all that a person may ask about it."""
    print_table(("what", "which"), list(facts(artifact).items()))
    if artifact.fit is None:
        _section("Quality, as it was reported", ("measure", "value"), _plain_quality(artifact))
        _section("Coefficients", ("name", "weight"), list(_plain_coefficients(artifact)))
        return
    told = artifact.fit.answerability
    _section(
        "States with evidence and a label, by part of the questions; a question counts once in all that follows",
        ("part", "states", "answerable", "questions", "with an answerable state", "with one that is not"),
        list(_counts(told.counts)),
    )
    print_quality("Answerability on held-out questions", told.held_out)
    chosen = artifact.answerability.kind
    rows = [(kind, f"{score:.4f}", "chosen" if kind == chosen else "") for kind, score in told.selection.items()]
    _section("Brier score of each kind on the questions for choosing (xsel)", ("kind", "Brier", ""), rows)
    for kind, coefficients in told.coefficients.items():
        title = f"Coefficients of the {kind} kind, fitted on xfit" + (" (chosen)" if kind == chosen else "")
        rows = [_coefficient(name, each) for name, each in coefficients.items()]
        _section(title, ("name", "weight", _FROM), rows)
    alone = [(name, f"{area:.3f}") for name, area in told.alone.items()]
    _section("AUC of each diagnostic by itself, on xfit: 0.5 is no signal", ("name", "AUC"), alone)
    if artifact.contaminated or isinstance(artifact.answerability, IsotonicFit):
        _section("The numbers in use", ("name", "value"), list(_plain_coefficients(artifact)))
    if told.held_out:
        _section(
            "Reliability on held-out questions: # what came true, | what was predicted",
            ("predicted", "states", "mean", "came true", "0" + " " * (_WIDTH - 2) + "1"),
            [_bin(each) for each in told.held_out.curve],
        )
    value = artifact.fit.retrieval_value
    if value is not None:
        _section(
            "Retrieval value: searches from a state that was not answerable",
            ("part", "searches", "helped", "questions", "with one that helped", "with one that did not"),
            list(_counts(value.counts)),
        )
        rows = [_coefficient(name, each) for name, each in value.coefficients.items()]
        _section("Coefficients of the retrieval value, fitted on xfit", ("name", "weight", _FROM), rows)
        print_quality("Retrieval value on held-out questions (xhold)", value.held_out)
    _section("Warnings", ("warning",), [(warning,) for warning in artifact.fit.warnings])


def facts(artifact: Artifact) -> dict[str, str]:
    """Where it comes from, by name."""
    scale = artifact.score_scale
    found = {
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
        told = artifact.fit.answerability
        found["states of"] = ", ".join(artifact.fit.methods)
        found["left out"] = f"{told.without_evidence} states without evidence, {told.unlabelled} without a label"
        found["base rate"] = f"{told.base_rate:.3f} of the fitted questions' states are answerable"
    if artifact.note:
        found["note"] = artifact.note
    return found


def between(found: Estimate, digits: int = 3) -> str:
    """An interval in words."""
    if found.low is None or found.high is None:
        return "-"
    return f"{found.low:.{digits}f} to {found.high:.{digits}f}"


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        typer.echo(f"\n{title}")
        print_table(headings, rows)


def print_quality(title: str, found: Quality | None) -> None:
    """Prints how good probabilities are, if that is known."""
    _section(title, ("measure", "value", _FROM, "reading"), _quality(found))


def _counts(counts: Mapping[str, PartCount]) -> Iterator[tuple[str, ...]]:
    for part, count in counts.items():
        numbers = (count.states, count.positive, count.questions, count.questions_positive, count.questions_negative)
        yield (part, *(f"{number:,}" for number in numbers))


def _quality(found: Quality | None) -> list[tuple[str, str, str, str]]:
    if found is None:
        return []
    rows = [
        ("states, questions", f"{found.states:,}, {found.questions:,}", "", f"{found.share:.1%} came true"),
        ("Brier", f"{found.brier.value:.4f}", between(found.brier, 4), "lower is better"),
        ("Brier of the base rate", f"{found.brier_base_rate:.4f}", "", "of saying the same always"),
        _gain("gain over the base rate", found.brier_gain),
    ]
    # Where the calibration tells no share of its own, that of these states is the base rate already.
    if isinstance(found, QualityOnOtherStates) and found.brier_share != found.brier_base_rate:
        words = "of always saying what came true here, which nobody could know"
        rows.append(("Brier of these states' share", f"{found.brier_share:.4f}", "", words))
        rows.append(_gain("gain over these states' share", found.brier_gain_over_share))
    if found.auc:
        rows.append(("AUC", f"{found.auc.value:.3f}", between(found.auc), "0.5 is no signal"))
    return [*rows, ("ECE", f"{found.ece:.3f}", "", "ten equal bins; 0 is perfect")]


def _gain(name: str, gain: Estimate) -> tuple[str, str, str, str]:
    clear = gain.low is not None and gain.low > 0
    reading = "clear" if clear else "not clear: the interval reaches 0"
    return name, f"{gain.value:+.4f}", between(gain, 4), reading


def _plain_quality(artifact: Artifact) -> list[tuple[str, str]]:
    counts = [(f"n {name}", f"{count:,}") for name, count in artifact.counts.items()]
    return counts + [(name.replace("_", " "), f"{value:g}") for name, value in artifact.quality.items()]


def _plain_coefficients(artifact: Artifact) -> Iterator[tuple[str, str]]:
    fitted = artifact.answerability
    if isinstance(fitted, LogisticFit | PlattFit):
        yield "intercept", f"{fitted.intercept:+.4f}"
    if isinstance(fitted, LogisticFit):
        for name, weight in asdict(fitted.weights).items():
            yield name, f"{weight:+.4f}"
    elif isinstance(fitted, PlattFit):
        yield "slope", f"{fitted.slope:+.4f}"
    elif isinstance(fitted, IsotonicFit):
        for score, probability in zip(fitted.scores, fitted.probabilities, strict=True):
            yield f"at {score:.3f}", f"{probability:.3f}"


def _coefficient(name: str, found: Estimate) -> tuple[str, str, str]:
    return name, f"{found.value:+.3f}", between(found, 3)


def _bin(found: Bin) -> tuple[str, ...]:
    filled = round(found.observed * _WIDTH)
    bar = list("#" * filled + "." * (_WIDTH - filled))
    bar[min(_WIDTH - 1, round(found.predicted * _WIDTH))] = "|"
    return (
        f"{found.low:.1f}-{found.high:.1f}",
        f"{found.states:,}",
        f"{found.predicted:.3f}",
        f"{found.observed:.3f}",
        "".join(bar),
    )
