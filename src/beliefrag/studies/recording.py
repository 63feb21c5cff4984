"""What was recorded in one run, as studies read it: its record, its episodes and their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beliefrag.runs.episode import EpisodeKey, EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.states import Label, Trajectory, read_trajectories
from beliefrag.runs.summary import MEASURES, measure_values
from beliefrag.studies.study_result import StudyError

__all__ = ["Recording"]

_SPECIAL_MEASURES = ("rows_needed", "rows_read", "row_recall_read", "false_read")
"""Measures of questions about sets of rows and of runs with false passages: no episode of another run has them."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The part of a run that a study may look at: the episodes that were asked for, of the datasets it is about."""

    run: RunRecord
    episodes: tuple[EpisodeSummary, ...]
    """Finished and failed ones, in an order that does not depend on the file."""
    trajectories: tuple[Trajectory, ...]
    """The states of those episodes that measured any."""

    @classmethod
    def read(cls, folder: Path, counts: Callable[[str], bool] = lambda dataset: True) -> Recording:
        """Reads the folder of a run.

        Args:
            folder: The folder of the run.
            counts: Whether the dataset of that name counts; all do by default.

        Raises:
            RunError: The folder holds no run, or it cannot be read.
        """
        run, trajectories = read_trajectories(folder)
        asked = {
            EpisodeKey(dataset, method, question_id, run.seed)
            for dataset, record in run.datasets.items()
            if counts(dataset)
            for method in run.methods
            for question_id in record.question_ids
        }
        places = {(key.dataset, key.method, key.question_id) for key in asked}
        return cls(
            run=run,
            episodes=tuple(e for key, e in sorted(read_summaries(folder).items()) if key in asked),
            trajectories=tuple(
                sorted(
                    (t for t in trajectories if (t.dataset, t.method, t.question_id) in places),
                    key=lambda t: (t.dataset, t.method, t.question_id),
                )
            ),
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets that have episodes, in the order of the run."""
        present = {episode.key.dataset for episode in self.episodes}
        return tuple(name for name in self.run.datasets if name in present)

    def episodes_of(self, method: str, dataset: str | None = None) -> list[EpisodeSummary]:
        """Gives the episodes of one method, on one dataset or on all."""
        return [e for e in self.episodes if e.key.method == method and dataset in (None, e.key.dataset)]

    def trajectories_of(self, *methods: str) -> list[Trajectory]:
        """Gives the states of these methods, by episode."""
        return [trajectory for trajectory in self.trajectories if trajectory.method in methods]

    def values(self, method: str, dataset: str, measure: str) -> dict[str, float]:
        """Gives one value of a measure for each question, without failed episodes and those that lack the measure.

        Raises:
            StudyError: No episode of the run can have a measure of that name.
        """
        known = {*MEASURES, *_SPECIAL_MEASURES, *(name for episode in self.episodes for name in episode.metrics)}
        if measure not in known:
            raise StudyError(f"There is no measure {measure!r}.", remedy=f"Known: {', '.join(sorted(known))}.")
        return measure_values(self.episodes_of(method, dataset), measure)

    def accuracy(self, method: str, dataset: str, label: Label) -> dict[str, float]:
        """Gives for each question 1 where the answer is right by that measure, otherwise 0, as for an abstention."""
        return {key: float(value >= 0.5) for key, value in self.values(method, dataset, label).items()}

    def describe_missing(self, *methods: str) -> str:
        """Says how many episodes of these methods are in no number; empty where none is missing."""
        own = [episode for episode in self.episodes if episode.key.method in methods]
        asked = sum(len(self.run.datasets[name].question_ids) for name in self.datasets) * len(methods)
        failed = sum(not episode.finished for episode in own)
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{asked - len(own):,} are missing"] if asked > len(own) else []
        return f"Of {asked:,} episodes {' and '.join(parts)}: they are in no number." if parts else ""
