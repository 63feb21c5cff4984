"""The artifact: fitted numbers as readable JSON with their origin, read from a file and written to one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from beliefrag.calibration.artifact_parts import AnswerabilityFit, FitReport, Strict, ValueFit
from beliefrag.calibration.guarantee import Guarantee
from beliefrag.errors import CalibrationError
from beliefrag.policy import Calibration, ScheduledValue, ScoreScale
from beliefrag.runs.partitions import select_held_out

__all__ = ["Artifact", "write_artifact"]


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
        """Finds which of these questions it was fitted or chosen on, as far as it has them on record.

        Numbers on such questions flatter it.
        """
        if self.fit is None:
            return ()
        known = {*self.fit.fit_questions, *self.fit.selection_questions}
        return tuple(question_id for question_id in question_ids if question_id in known)

    def find_scale(self, corpus: str) -> ScoreScale | None:
        """Finds the score scale that the questions of the fit had on the corpus with this fingerprint."""
        reports = self.fit.datasets.values() if self.fit else ()
        return next((each.score_scale for each in reports if each.fingerprint == corpus), None)

    def calibration(self, score_scale: ScoreScale | None) -> Calibration:
        """Gives the fitted functions, on a corpus with that score scale."""
        value = self.retrieval_value
        return Calibration(
            score_scale=score_scale,
            answerability=self.answerability.function(),
            retrieval_value=value.function() if value else ScheduledValue(),
        )


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Writes it to another file first: a kill leaves the old file or the new one, never half of one.

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
