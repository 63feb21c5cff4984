"""A guarantee: from which answerability on answers may be given, and everything that this promise depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from pydantic import Field

from beliefrag.calibration.artifact_parts import Strict
from beliefrag.policy import Thresholds
from beliefrag.types import Budget

__all__ = ["Guarantee", "describe_target"]


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
        """Says whether this is the guarantee for that target."""
        # A target is a number that a person types: 0.1 and 0.10 are one.
        return abs(self.max_error - max_error) < 1e-9 and abs(self.confidence - confidence) < 1e-9

    def differences(self, thresholds: Thresholds, budget: Budget, prompts: Mapping[str, str]) -> Iterator[str]:
        """Lists what is not as it was when the threshold was chosen, each in a few words."""
        now = _name_settings(thresholds, budget)
        for name, value in _name_settings(self.thresholds, self.budget).items():
            if now[name] != value:
                yield f"{name} {value}, not {now[name]}"
        yield from (
            f"another prompt {name}" for name, digest in self.prompts.items() if prompts.get(name, digest) != digest
        )

    def words(self, corpus: str | None) -> str:
        """Says what is guaranteed where passages with that fingerprint are searched; None where that is not known."""
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
    """Gives the values by the names that their settings have."""
    values = asdict(thresholds)
    rewriter = "merged" if values.pop("merge_rewriter") else "apart"
    return {
        **{f"thresholds.{name}": value for name, value in values.items()},
        "correction.rewriter": rewriter,
        **{f"budget.{name}": value for name, value in asdict(budget).items()},
    }


def describe_target(max_error: float, confidence: float) -> str:
    """Gives a target as a person says it."""
    return f"at most {100 * max_error:g} % wrong answers with {100 * confidence:g} % confidence"
