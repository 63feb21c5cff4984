"""The recordings of a run that operating points are replayed on, and what a reader must know about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.calibration import Artifact
from beliefrag.errors import BeliefRAGError
from beliefrag.policy import Thresholds
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord, thresholds_of
from beliefrag.runs.states import Label, State, Trajectory, read_trajectories
from beliefrag.runs.summary import MEASURES

__all__ = [
    "RECORDING",
    "Questions",
    "RecordedQuestions",
    "TuningError",
    "UnrecordedPointError",
    "list_notes",
    "read_recorded_questions",
]


class TuningError(BeliefRAGError):
    """A run's recorded states cannot be used to choose an operating point."""


class UnrecordedPointError(TuningError):
    """The result of an operating point is not known, because it takes steps that nobody recorded."""


RECORDING = ("survey", "survey_uncorrected", "beliefrag")
"""The methods on whose episodes the policy can be replayed, the one with the most states first."""

Questions = Mapping[str, Mapping[str, tuple[Trajectory, ...]]]
"""The recordings of each question, by dataset and question id."""


@dataclass(frozen=True, slots=True)
class RecordedQuestions:
    """What a run recorded."""

    run: RunRecord
    measure: Label
    """What says how good an answer is."""
    parts: Mapping[Partition, Questions]
    expected: int
    """How many questions the run was given, in the datasets that count here."""
    left_out: tuple[str, ...]
    """Datasets for whose questions the measure has no meaning."""

    @property
    def thresholds(self) -> Thresholds:
        """The run's own thresholds."""
        return thresholds_of(self.run)

    @property
    def found(self) -> int:
        """How many questions have a recording."""
        return sum(1 for _ in self.recordings())

    @property
    def disagreeing(self) -> int:
        """How many questions have two recordings that did the same and yet came to different states."""
        return sum(not _recordings_agree(recordings) for recordings in self.recordings())

    def recordings(self) -> Iterator[tuple[Trajectory, ...]]:
        """Gives the recordings of each question."""
        for questions in self.parts.values():
            for by_id in questions.values():
                yield from by_id.values()

    def size(self, part: Partition) -> int:
        """Says how many questions of a part have a recording."""
        return sum(len(by_id) for by_id in self.parts[part].values())


def read_recorded_questions(folder: Path, measure: Label = "f1") -> RecordedQuestions:
    """Reads what a run recorded, and makes sure that every answer on trial has a score.

    Raises:
        RunError: The folder holds no run.
        TuningError: The run has no answers on trial, or they lack the measure.
    """
    run, trajectories = read_trajectories(folder, *RECORDING)
    asked = {name: set(dataset.question_ids) for name, dataset in run.datasets.items()}
    own = [each for each in trajectories if each.question_id in asked.get(each.dataset, ())]
    if not any(state.answer is not None for each in own for state in each.states):
        what = "at none of its states" if own else f"it ran {', '.join(run.methods)}"
        raise TuningError(
            f"{folder} has no answers on trial to choose from: {what} (verifier form: {run.verifier}).",
            remedy="Collect states with 'beliefrag calibrate collect', and tune that run.",
        )
    kept = _with_measure(own, measure)
    left_out = tuple(name for name in run.datasets if _has_dataset(own, name) and not _has_dataset(kept, name))
    return RecordedQuestions(
        run=run,
        measure=measure,
        parts={part: _by_question(kept, part) for part in Partition},
        expected=sum(len(ids) for name, ids in asked.items() if name not in left_out),
        left_out=left_out,
    )


def _with_measure(trajectories: list[Trajectory], measure: Label) -> list[Trajectory]:
    """Keeps the recordings whose answers have the measure: all of a dataset's questions must have one, or none."""
    kept = [each for each in trajectories if all(measure in s.scores for s in each.states if s.answer is not None)]
    if not any(state.answer is not None for each in kept for state in each.states):
        raise TuningError(
            f"No answer on trial of this run has the measure {MEASURES[measure]}.",
            remedy="Collect states with a judge." if measure == "judge" else "Choose another one with --measure.",
        )
    questions = {(each.dataset, each.question_id) for each in trajectories if _has_dataset(kept, each.dataset)}
    if lacking := questions - {(each.dataset, each.question_id) for each in kept}:
        raise TuningError(
            f"{len(lacking):,} of {len(questions):,} questions have answers on trial without the measure "
            f"{MEASURES[measure]}.",
            remedy="Finish collecting, or choose another one with --measure.",
        )
    return kept


def _has_dataset(trajectories: list[Trajectory], dataset: str) -> bool:
    return any(each.dataset == dataset for each in trajectories)


def _by_question(trajectories: list[Trajectory], part: Partition) -> Questions:
    found: dict[str, dict[str, list[Trajectory]]] = defaultdict(lambda: defaultdict(list))
    # Sorted, so that neither the order of the file nor of its methods can change a number.
    for each in sorted(trajectories, key=lambda t: (t.dataset, t.question_id, RECORDING.index(t.method))):
        if partition(each.question_id) is part:
            found[each.dataset][each.question_id].append(each)
    return {dataset: {key: tuple(own) for key, own in by_id.items()} for dataset, by_id in found.items()}


def _recordings_agree(recordings: tuple[Trajectory, ...]) -> bool:
    """Says whether the recordings are in the same state as long as they do the same."""
    seen: dict[tuple[object, ...], State] = {}
    for each in recordings:
        way: tuple[object, ...] = ()
        for state in each.states:
            before = seen.setdefault(way, state)
            if (before.diagnostics, before.tokens) != (state.diagnostics, state.tokens):
                return False
            way = (*way, state.action, state.reason)
    return True


def list_notes(recorded: RecordedQuestions, artifact: Artifact, calibration_warnings: Sequence[str]) -> tuple[str, ...]:
    """Lists what a reader must know about the recordings and the calibration, one sentence each."""
    return tuple(_write_notes(recorded, artifact, calibration_warnings))


def _write_notes(recorded: RecordedQuestions, artifact: Artifact, calibration_warnings: Sequence[str]) -> Iterator[str]:
    if calibration_warnings:
        yield f"The calibration {artifact.name} may be off here: {'; '.join(calibration_warnings)}."
    for part in (Partition.XSEL, Partition.XHOLD):
        asked = [question for questions in recorded.parts[part].values() for question in questions]
        if seen := artifact.find_seen(asked):
            yield f"Its fit saw {len(seen):,} of {len(asked):,} {part.value} questions: its figures are too good."
    if artifact.contaminated:
        yield "Its fit saw questions that were held out, so its figures on xhold are too good."
    used = next(iter(recorded.run.calibrations), None)
    if used and used.name != artifact.name:
        yield f"The run's own episodes were decided with the calibration {used.name}; figures here are with this one."
    if recorded.disagreeing:
        yield (
            f"{recorded.disagreeing:,} questions have recordings with the same steps and different states: the model "
            "did not repeat itself, and the figures mix both."
        )
    if recorded.left_out:
        title = MEASURES[recorded.measure]
        yield f"Left out, because {title} has no meaning there: {', '.join(recorded.left_out)}."
    everywhere = {dataset for questions in recorded.parts.values() for dataset in questions}
    for part in (Partition.XSEL, Partition.XHOLD):
        if recorded.size(part) and (absent := sorted(everywhere - recorded.parts[part].keys())):
            yield f"No question of {part.value} is from {', '.join(absent)}: its means are over the other datasets."
