"""The artifact: fitted numbers as readable JSON with their origin, quality and guarantees.

In all numbers a question counts once: its states share its weight. Intervals are 95 % bootstraps over questions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer, Tag, model_validator
from pydantic_core import PydanticCustomError

from beliefrag.errors import CalibrationError
from beliefrag.policy import (
    Answerability,
    Calibration,
    FittedValue,
    IsotonicAnswerability,
    LogisticAnswerability,
    PlattAnswerability,
    RawAnswerability,
    ScheduledValue,
    ScoreScale,
    Thresholds,
)
from beliefrag.runs.estimate import Estimate
from beliefrag.runs.partitions import select_held_out
from beliefrag.types import Budget, Diagnostics

__all__ = [
    "AnswerabilityFit",
    "AnswerabilityReport",
    "Artifact",
    "Bin",
    "Bounded",
    "CorpusReport",
    "FitReport",
    "Guarantee",
    "IsotonicFit",
    "Kind",
    "LogisticFit",
    "PartCount",
    "PlattFit",
    "Quality",
    "QualityOnOtherStates",
    "RawFit",
    "Strict",
    "ValueFit",
    "ValueReport",
    "describe_target",
    "write_artifact",
]


class Strict(BaseModel):
    """Frozen. Unknown fields and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Kind = Literal["logistic", "platt", "isotonic", "raw"]


class LogisticFit(Strict):
    """Intercept and one weight per diagnostic. An artifact that names no kind of fit holds this kind."""

    kind: Literal["logistic"] = "logistic"
    intercept: float
    weights: Diagnostics

    def function(self) -> Answerability:
        """Return the probability that these numbers stand for."""
        return LogisticAnswerability(self.intercept, self.weights)


class PlattFit(Strict):
    """A line in the log-odds of the raw score."""

    kind: Literal["platt"] = "platt"
    intercept: float
    slope: float

    def function(self) -> Answerability:
        """Return the probability that these numbers stand for."""
        return PlattAnswerability(self.intercept, self.slope)


class IsotonicFit(Strict):
    """Points of a rising line over the raw score."""

    kind: Literal["isotonic"] = "isotonic"
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    @model_validator(mode="after")
    def _check_rising(self) -> Self:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise ValueError("needs as many probabilities as scores, and at least one")
        if any(a >= b for a, b in pairwise(self.scores)) or any(a > b for a, b in pairwise(self.probabilities)):
            raise ValueError("scores and probabilities must rise")
        if self.probabilities[0] < 0 or self.probabilities[-1] > 1:
            raise ValueError("probabilities lie between 0 and 1")
        return self

    def function(self) -> Answerability:
        """Return the probability that these points stand for."""
        return IsotonicAnswerability(self.scores, self.probabilities)


class RawFit(Strict):
    """Nothing fitted: the raw score is taken for a probability."""

    kind: Literal["raw"] = "raw"

    def function(self) -> Answerability:
        """Return the raw score."""
        return RawAnswerability()


def _read_kind(given: Any) -> Any:
    return given.get("kind", "logistic") if isinstance(given, dict) else getattr(given, "kind", None)


AnswerabilityFit = Annotated[
    Annotated[LogisticFit, Tag("logistic")]
    | Annotated[PlattFit, Tag("platt")]
    | Annotated[IsotonicFit, Tag("isotonic")]
    | Annotated[RawFit, Tag("raw")],
    Discriminator(_read_kind),
]
"""Any of the kinds. Files from before there were kinds name none: they are logistic."""


class ValueFit(Strict):
    """The retrieval-value logistic."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float

    def function(self) -> FittedValue:
        """Return the probability that these numbers stand for."""
        return FittedValue(self.intercept, self.rounds, self.novelty, self.sufficiency)


def _three_numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


Bounded = Annotated[Estimate, PlainSerializer(_three_numbers)]
"""An estimate in the file of an artifact: its value and its bounds, null where there is too little to tell."""


class Bin(Strict):
    """One step of a reliability curve: what was predicted there, and what came true."""

    low: float
    high: float
    states: int
    share: float
    """The bin's share of all weight."""
    predicted: float
    observed: float


class Quality(Strict):
    """How good probabilities are on questions that neither the fit nor the choice has seen."""

    states: int
    questions: int
    share: float
    """The share of positive outcomes, by weight."""
    brier: Bounded
    brier_base_rate: float
    """The Brier score of always saying the share of the fitted questions."""
    brier_gain: Bounded
    """Base rate minus fit: above 0 the fit is better than no fit."""
    auc: Bounded | None
    """None where all states came out alike."""
    ece: float
    curve: tuple[Bin, ...]


class QualityOnOtherStates(Quality):
    """The quality on states of any run, also compared with always saying the share of these very states.

    The share of the fitted questions is a soft mark where other datasets are easier or harder. Always saying the share
    of these states is the best that one number can do here; nobody could know it beforehand.
    """

    brier_share: float
    """The Brier score of always saying `share`."""
    brier_gain_over_share: Bounded
    """The Brier score of always saying `share` minus that of the fit: above 0 the fit tells these states apart."""


class PartCount(Strict):
    """How many states and questions one part of the questions has, by outcome."""

    states: int
    positive: int
    """States with the outcome that is predicted."""
    questions: int
    questions_positive: int
    """Questions with at least one such state."""
    questions_negative: int
    """Questions with at least one other state."""


class AnswerabilityReport(Strict):
    """What is reported about the fit of answerability."""

    counts: Mapping[str, PartCount]
    without_evidence: int
    """States that were left out because nothing was retained: their diagnostics are constants."""
    unlabelled: int
    """States that were left out because nobody tried or judged an answer there."""
    base_rate: float
    selection: Mapping[str, float]
    """Brier score of each kind on the questions for choosing; empty if there were none."""
    coefficients: Mapping[str, Mapping[str, Bounded]]
    """Coefficients by kind; also of a kind that was not chosen."""
    alone: Mapping[str, float]
    """AUC of each diagnostic by itself on the fitted questions: 0.5 is no signal."""
    held_out: Quality | None


class ValueReport(Strict):
    """What is reported about the fit of the retrieval value, on searches from states that were not answerable."""

    counts: Mapping[str, PartCount]
    base_rate: float
    coefficients: Mapping[str, Bounded]
    held_out: Quality | None


class CorpusReport(Strict):
    """One dataset that states come from."""

    fingerprint: str
    passages: int
    questions: int
    score_scale: ScoreScale | None


class FitReport(Strict):
    """Everything about a fit that is not needed to use it."""

    label: str
    judge: str | None
    """Who judged, where the label is the judge's."""
    methods: tuple[str, ...]
    """The methods that visited these states."""
    datasets: Mapping[str, CorpusReport]
    budget: Mapping[str, int]
    versions: Mapping[str, str]
    fit_questions: tuple[str, ...]
    selection_questions: tuple[str, ...]
    answerability: AnswerabilityReport
    retrieval_value: ValueReport | None
    warnings: tuple[str, ...]


class Guarantee(Strict):
    """What `beliefrag calibrate risk` found for one target.

    The threshold was chosen on the endings of one policy. With other thresholds, another budget or other prompts,
    questions end elsewhere, and nothing is known about the errors there.
    """

    max_error: float = Field(gt=0, lt=1)
    """Of the answers given, at most this share is wrong."""
    confidence: float = Field(gt=0, lt=1)
    """The probability with which that holds, over the draw of the questions that it was chosen on."""
    threshold: float | None = Field(ge=0, le=1)
    """Answers are given from this answerability on; None: no threshold could be shown to meet the target."""
    questions: int
    """How many questions it was chosen on; nothing was fitted or selected on them."""
    answered: int
    """How many of them were answered: those at or above the threshold."""
    wrong: int
    """How many of the answers were wrong."""
    label: str
    """What said whether an answer is wrong."""
    datasets: Mapping[str, str]
    """Where the questions came from, with the fingerprint of the passages."""
    method: str
    thresholds: Thresholds
    budget: Budget
    prompts: Mapping[str, str]
    """Hash of each prompt that shapes an episode."""
    made: str

    @property
    def coverage(self) -> float:
        """The share of its questions that were answered at the threshold."""
        return self.answered / self.questions if self.questions else 0.0

    def has_target(self, max_error: float, confidence: float) -> bool:
        """Return whether this is the guarantee for that target."""
        # A target is a number that a person types: 0.1 and 0.10 are one.
        return abs(self.max_error - max_error) < 1e-9 and abs(self.confidence - confidence) < 1e-9

    def differences(self, thresholds: Thresholds, budget: Budget, prompts: Mapping[str, str]) -> Iterator[str]:
        """List what is not as it was when the threshold was chosen, each in a few words."""
        now = _name_settings(thresholds, budget)
        for name, value in _name_settings(self.thresholds, self.budget).items():
            if now[name] != value:
                yield f"{name} {value}, not {now[name]}"
        yield from (
            f"another prompt {name}" for name, digest in self.prompts.items() if prompts.get(name, digest) != digest
        )

    def words(self, corpus: str | None) -> str:
        """Return what is guaranteed where passages with that fingerprint are searched; None where that is not known."""
        if corpus in self.datasets.values():
            return str(self)
        return f"{self}; these documents are others, so it holds as far as questions about them are like those"

    def __str__(self) -> str:
        source = " and ".join(self.datasets)
        return (
            f"the guarantee of {describe_target(self.max_error, self.confidence)}, for questions like the "
            f"{self.questions:,} of {source}"
        )


def _name_settings(thresholds: Thresholds, budget: Budget) -> dict[str, object]:
    """Return the values by the names that their settings have."""
    values = asdict(thresholds)
    rewriter = "merged" if values.pop("merge_rewriter") else "apart"
    return {
        **{f"thresholds.{name}": value for name, value in values.items()},
        "correction.rewriter": rewriter,
        **{f"budget.{name}": value for name, value in asdict(budget).items()},
    }


def describe_target(max_error: float, confidence: float) -> str:
    """Return a target as a person says it."""
    return f"at most {100 * max_error:g} % wrong answers with {100 * confidence:g} % confidence"


_ADDED_LATER = ("fit",)
"""Fields that the first artifacts did not have."""


class Artifact(Strict):
    """One fit, its provenance and how good it was on questions that it had not seen."""

    format: Literal[1] = 1
    name: str
    origin: Literal["published", "fitted"]
    backbone: str
    """The model it was fitted for, as the beginning of the model's identity."""
    retriever: str
    verifier: str
    prompts: Mapping[str, str] = Field(default_factory=dict)
    """Hash of each prompt that shaped the diagnostics and the answers; empty where they are not known."""
    target: str
    """What counted as answerable."""
    partition: str
    seed: int | None
    contaminated: bool
    """Whether the fit or the choice saw questions that are held out: worked out by the fit, never given to it.

    Reading holds it against the questions that the artifact names: one that saw them cannot say that it did not.
    """
    made: str
    counts: Mapping[str, int] = Field(default_factory=dict)
    quality: Mapping[str, float] = Field(default_factory=dict)
    note: str = ""
    score_scale: ScoreScale | None = None
    """The score scale of the corpus it was fitted on; None where it is not known or there were several corpora."""
    answerability: AnswerabilityFit
    retrieval_value: ValueFit | None = None
    """None: the paper's schedule by round stands in."""
    fit: FitReport | None = None
    """How it was fitted, in full; None where that is not known."""
    guarantees: tuple[Guarantee, ...] = ()
    """Thresholds with a bound on the errors among answers, at most one for each target."""

    @model_validator(mode="after")
    def _check_contamination(self) -> Artifact:
        if self.fit is not None and not self.contaminated:
            seen = select_held_out({*self.fit.fit_questions, *self.fit.selection_questions})
            if seen:
                raise PydanticCustomError(
                    "contaminated",
                    "contaminated is false, and {count} of the questions that it was fitted or chosen on are held out, "
                    "such as {example}",
                    {"count": len(seen), "example": repr(min(seen))[:60]},
                )
        return self

    @property
    def sha256(self) -> str:
        """A hash of the fit and its provenance.

        What was added to the format later counts only where it is used, so that a run which began before can go on.
        Guarantees never count: they change no probability.
        """
        unused: dict[str, Any] = {name: True for name in _ADDED_LATER if getattr(self, name) is None}
        unused["guarantees"] = True
        if self.answerability.kind == "logistic":
            unused["answerability"] = {"kind"}
        return hashlib.sha256(self.model_dump_json(exclude=unused).encode()).hexdigest()

    def find_seen(self, question_ids: Iterable[str]) -> tuple[str, ...]:
        """Find which of these questions it was fitted or chosen on, as far as it has them on record.

        Numbers on such questions flatter it.
        """
        if self.fit is None:
            return ()
        known = {*self.fit.fit_questions, *self.fit.selection_questions}
        return tuple(question_id for question_id in question_ids if question_id in known)

    def find_scale(self, corpus: str) -> ScoreScale | None:
        """Find the score scale that the questions of the fit had on the corpus with this fingerprint."""
        reports = self.fit.datasets.values() if self.fit else ()
        return next((each.score_scale for each in reports if each.fingerprint == corpus), None)

    def calibration(self, score_scale: ScoreScale | None) -> Calibration:
        """Return the fitted functions, on a corpus with that score scale."""
        value = self.retrieval_value
        return Calibration(
            score_scale=score_scale,
            answerability=self.answerability.function(),
            retrieval_value=value.function() if value else ScheduledValue(),
        )


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Write it to another file first: a kill leaves the old file or the new one, never half of one.

    Raises:
        CalibrationError: The file cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(artifact.model_dump_json(indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise CalibrationError(
            f"{path} cannot be written: {error.strerror}.", remedy="Name another file with --out."
        ) from error
