"""The fitted functions that the policy decides with, together."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.policy.answerability import Answerability
from beliefrag.policy.diagnostics import ScoreScale
from beliefrag.policy.value import RetrievalValue

__all__ = ["Calibration"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted for a model and a corpus: an artifact gives it, and a method decides with it."""

    score_scale: ScoreScale | None
    """None where the retriever's scores have no say about relevance."""
    answerability: Answerability
    retrieval_value: RetrievalValue
