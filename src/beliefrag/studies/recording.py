"""What was recorded in one run, as studies read it: its record, its finished episodes and their states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beliefrag.runs.episode import EpisodeKey, EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import Trajectory, read_trajectories
from beliefrag.runs.store import read_summaries
from beliefrag.runs.summary import values_of
from beliefrag.studies.kinds import Kind

__all__ = ["Recording"]


@dataclass(frozen=True, slots=True)
class Recording:
    """The part of a run that a study may look at: what was asked for, of datasets of the kind that it is about."""

    run: RunRecord
    episodes: tuple[EpisodeSummary, ...]
    """Finished and failed ones, in an order that no file decides."""
    trajectories: tuple[Trajectory, ...]
    """The states of those episodes that measured any."""

    @classmethod
    def read(cls, folder: Path, kind: Kind | None = None) -> Recording:
        """Reads a run's folder.

        Args:
            folder: Of the run.
            kind: Which of its datasets count; all by default.

        Raises:
            RunError: The folder holds no run, or it cannot be read.
        """
        run, trajectories = read_trajectories(folder)
        asked = {
            EpisodeKey(dataset, method, question_id, run.seed)
            for dataset, record in run.datasets.items()
            if kind is None or kind.has_name(dataset)
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
        """Those that have episodes, in the order of the run."""
        present = {episode.key.dataset for episode in self.episodes}
        return tuple(name for name in self.run.datasets if name in present)

    def of(self, method: str, dataset: str | None = None) -> list[EpisodeSummary]:
        """The episodes of one method, on one dataset or on all."""
        return [e for e in self.episodes if e.key.method == method and dataset in (None, e.key.dataset)]

    def values(self, method: str, dataset: str, measure: str) -> dict[str, float]:
        """One value of a measure for each question; failed episodes and those without it left out."""
        return values_of(self.of(method, dataset), measure)

    def states_of(self, *methods: str) -> list[Trajectory]:
        """The trajectories of these methods."""
        return [trajectory for trajectory in self.trajectories if trajectory.method in methods]

    def lacking(self, *methods: str) -> str:
        """A sentence on the episodes of these methods that are not in any number; empty where none is lacking."""
        own = [episode for episode in self.episodes if episode.key.method in methods]
        asked = sum(len(self.run.datasets[name].question_ids) for name in self.datasets) * len(methods)
        failed = sum(not episode.finished for episode in own)
        parts = [f"{failed:,} failed"] if failed else []
        parts += [f"{asked - len(own):,} are missing"] if asked > len(own) else []
        return f"Of {asked:,} episodes {' and '.join(parts)}: they are in no number." if parts else ""
