"""What a fit must say before anybody trusts it, one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from beliefrag.calibration.report import PartCount, Quality
from beliefrag.calibration.value_fit import LEAST_QUESTIONS
from beliefrag.policy import ScoreScale
from beliefrag.runs.statistics import MIN_QUESTIONS

__all__ = ["few", "idle", "scales_apart", "too_few_searches", "unproven"]


def idle(names: Iterable[str], where: str) -> Iterator[str]:
    """What does not vary, and so could not be weighed."""
    return (f"{name} does not vary in {where}, and has weight 0" for name in names)


def few(counts: Mapping[str, PartCount]) -> Iterator[str]:
    """Parts with too few questions of either outcome. An empty part has a warning of its own."""
    for part, count in counts.items():
        for questions, words in ((count.questions_positive, ""), (count.questions_negative, "not ")):
            if count.questions and questions < MIN_QUESTIONS:
                yield (
                    f"only {questions} questions of {part} have a state that is {words}answerable: "
                    f"fewer than {MIN_QUESTIONS}"
                )


def unproven(kind: str, selection: Mapping[str, float], found: Quality | None) -> Iterator[str]:
    """What the choice and the held-out questions leave open."""
    if not selection:
        yield f"no question to choose on (xsel is empty): the {kind} kind was taken unseen"
    if found is None:
        yield "no question is held out (xhold is empty): how good the fit is, nobody knows"
    elif found.brier_gain.low is None or found.brier_gain.low <= 0:
        yield "on held-out questions the fit is not clearly better than always saying the base rate"


def too_few_searches(count: PartCount) -> str:
    """Why there is no retrieval value."""
    return (
        f"too few searches for a retrieval value: {count.questions_positive} fitted questions have one that helped and "
        f"{count.questions_negative} one that did not, {LEAST_QUESTIONS} of each are needed; "
        "the paper's schedule stands in"
    )


def scales_apart(scales: Iterable[ScoreScale | None]) -> Iterator[str]:
    """Why the artifact has no score scale of its own."""
    known = set(scales)
    if None in known:
        yield "a run does not say where its corpus's scores lie: it is from an older version"
    elif len(known) > 1:
        yield "several corpora: their score scales are kept apart, under fit.datasets"
