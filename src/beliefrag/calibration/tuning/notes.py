"""What a reader must know before believing the numbers of a tuning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beliefrag.calibration import Artifact
from beliefrag.calibration.tuning.recorded import Recorded
from beliefrag.runs.cells import MEASURES
from beliefrag.runs.samples import Partition

__all__ = ["notes"]


def notes(recorded: Recorded, artifact: Artifact, calibration_warnings: Sequence[str]) -> tuple[str, ...]:
    """All of them, one sentence each."""
    return tuple(_notes(recorded, artifact, calibration_warnings))


def _notes(recorded: Recorded, artifact: Artifact, calibration_warnings: Sequence[str]) -> Iterator[str]:
    if calibration_warnings:
        yield f"The calibration {artifact.name} may be off here: {'; '.join(calibration_warnings)}."
    for part in (Partition.XSEL, Partition.XHOLD):
        asked = [question for questions in recorded.parts[part].values() for question in questions]
        if seen := artifact.seen(asked):
            yield f"Its fit saw {len(seen):,} of {len(asked):,} questions of {part.value}: figures on them flatter it."
    if artifact.contaminated:
        yield "Its fit saw questions that were held out, so that figures on xhold flatter it."
    used = recorded.run.calibration
    if used and used.name != artifact.name:
        yield f"The run's own episodes were decided with the calibration {used.name}; figures here are with this one."
    if recorded.disagreeing:
        yield (
            f"{recorded.disagreeing:,} questions have recordings that did the same and differ all the same: the model "
            "did not repeat itself, and figures mix both."
        )
    if recorded.left_out:
        title = MEASURES[recorded.measure]
        yield f"Left out, for {title} has no meaning there: {', '.join(recorded.left_out)}."
    everywhere = {dataset for questions in recorded.parts.values() for dataset in questions}
    for part in (Partition.XSEL, Partition.XHOLD):
        if recorded.size(part) and (absent := sorted(everywhere - recorded.parts[part].keys())):
            yield f"No question of {part.value} is from {', '.join(absent)}: its means are over the other datasets."
