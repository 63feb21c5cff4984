"""The artifact: fitted numbers as readable JSON, with where they come from (SPEC 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.calibration.guarantee import Guarantee
from beliefrag.method import Answerability, FittedValue, RetrievalValue, ScheduledValue, ScoreScale
from beliefrag.types import Diagnostics

__all__ = ["Artifact", "Calibration"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the controller needs of an artifact."""

    score_scale: ScoreScale
    answerability: Answerability
    retrieval_value: RetrievalValue


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerabilityFit(_Strict):
    """Intercept and one weight per diagnostic."""

    intercept: float
    weights: Diagnostics


class ValueFit(_Strict):
    """The retrieval-value logistic."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float


class Artifact(_Strict):
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
    made: str
    counts: Mapping[str, int] = Field(default_factory=dict)
    quality: Mapping[str, float] = Field(default_factory=dict)
    note: str = ""
    score_scale: ScoreScale | None = None
    """Of the corpus it was fitted on; None where it is not known."""
    answerability: AnswerabilityFit
    retrieval_value: ValueFit | None = None
    """None: the paper's schedule by round stands in."""
    guarantees: tuple[Guarantee, ...] = ()
    """Thresholds with a bound on the errors among answers, at most one for each target."""

    @property
    def sha256(self) -> str:
        """A hash of the fit and its provenance.

        Guarantees are no part of it: they change no probability, so a run can go on when one was added.
        """
        return hashlib.sha256(self.model_dump_json(exclude={"guarantees"}).encode()).hexdigest()

    def doubts(self, *, borrowed: bool, verifier: str, prompts: Mapping[str, str]) -> tuple[str, ...]:
        """Why its probabilities may be off in a run with that verifier form and prompts of these hashes."""
        found = []
        if borrowed:
            found.append(f"borrowed, fitted for {self.backbone}")
        if self.contaminated:
            found.append("its fit saw questions that were held out")
        if self.verifier != verifier:
            found.append(f"fitted with the {self.verifier} verifier, not {verifier}")
        if changed := [name for name, digest in self.prompts.items() if prompts.get(name, digest) != digest]:
            found.append(f"fitted with other prompts ({', '.join(changed)})")
        return tuple(found)

    def calibration(self, score_scale: ScoreScale) -> Calibration:
        """The fitted functions, on a corpus with that score scale."""
        value = self.retrieval_value
        return Calibration(
            score_scale=score_scale,
            answerability=Answerability(self.answerability.intercept, self.answerability.weights),
            retrieval_value=FittedValue(**value.model_dump()) if value else ScheduledValue(),
        )
