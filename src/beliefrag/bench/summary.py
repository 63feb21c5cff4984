"""The numbers of a run by dataset and method, each with its interval, and what is missing from them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.bench.record import RunRecord
from beliefrag.bench.results import Episode, EpisodeKey, read_episodes
from beliefrag.bench.statistics import Estimate, average_seeds, mean_estimate, mean_over_datasets
from beliefrag.methods import METHODS

__all__ = ["MEAN", "MEASURES", "Cell", "Summary", "summarise", "values_of"]

MEAN = "mean"
"""Stands in the place of a dataset for the simple mean over datasets."""

MEASURES: Mapping[str, str] = {
    "exact_match": "EM",
    "f1": "F1",
    "cover": "cover",
    "judge": "judge",
    "evidence_recall": "evidence recall",
    "answer_row_recall": "answer rows",
    "rounds": "rounds",
    "actions": "actions",
    "calls": "calls",
    "tokens": "tokens",
    "tokens_in": "tokens in",
    "tokens_out": "tokens out",
    "seconds": "seconds",
}
"""What is averaged, and its heading."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one dataset, or on the mean of all."""

    dataset: str
    method: str
    episodes: int
    missing: int
    failed: int
    outcomes: Mapping[str, int]
    measures: Mapping[str, Estimate | None]
    """None where the measure has no meaning, or no episode has it."""
    calls_by_purpose: Mapping[str, float]
    """Mean calls per episode."""
    judge_tokens: int
    """Of all verdicts together: evaluation, and in no other number."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All cells of a run."""

    run: RunRecord
    cells: tuple[Cell, ...]
    causes: Mapping[str, int]
    """Failed episodes by cause."""
    missing: int
    failed: int
    unjudged: int
    """Finished episodes that lack a verdict although the run has a judge."""

    @property
    def complete(self) -> bool:
        """Whether every episode that was asked for is in the numbers."""
        return not (self.missing or self.failed or self.unjudged)

    @property
    def first_line(self) -> str:
        """What a reader must know before any number."""
        if self.complete:
            return f"Complete: all {self.run.expected:,} episodes are in these numbers."
        parts = []
        if self.missing:
            parts.append(f"{self.missing:,} of {self.run.expected:,} episodes are missing")
        if self.failed:
            causes = ", ".join(f"{cause} {count:,}" for cause, count in sorted(self.causes.items()))
            parts.append(f"{self.failed:,} failed and are not scored ({causes})")
        if self.unjudged:
            parts.append(f"{self.unjudged:,} could not be judged")
        return f"INCOMPLETE: {'; '.join(parts)}. Means are over what there is."


def summarise(folder: Path) -> Summary:
    """The numbers of the run in a folder. Nothing is written and no model is asked."""
    run = RunRecord.read(folder)
    cells: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    expected = {
        EpisodeKey(dataset, method, question_id, run.seed)
        for dataset, record in run.datasets.items()
        for method in run.methods
        for question_id in record.question_ids
    }
    for key, episode in read_episodes(folder).items():
        if key in expected:
            cells[key.dataset, key.method].append(episode)
    methods = [method for method in METHODS if method in run.methods]
    summed = [
        _cell(dataset, method, cells[dataset, method], len(run.datasets[dataset].question_ids))
        for dataset in run.datasets
        for method in methods
    ]
    if len(run.datasets) > 1:
        summed += [_mean_cell(method, cells, list(run.datasets), summed) for method in methods]
    everything = [episode for episodes in cells.values() for episode in episodes]
    failed = [episode for episode in everything if not episode.finished]
    return Summary(
        run=run,
        cells=tuple(summed),
        causes=Counter(episode.cause for episode in failed),
        missing=len(expected) - len(everything),
        failed=len(failed),
        unjudged=sum(bool(e.judge) and e.metrics["judge"] is None for e in everything if e.finished),
    )


def values_of(episodes: Iterable[Episode], measure: str) -> dict[str, float]:
    """One value per question for a measure, seeds averaged; failed episodes and those without it left out."""
    found = ((episode, _value(episode, measure)) for episode in episodes if episode.finished)
    return average_seeds((e.key.question_id, e.key.seed, value) for e, value in found if value is not None)


def _value(episode: Episode, measure: str) -> float | None:
    if measure == "seconds":
        return episode.seconds
    value = episode.usage[measure] if measure in episode.usage else episode.metrics.get(measure)
    return None if value is None else float(value)


def _cell(dataset: str, method: str, episodes: Sequence[Episode], expected: int) -> Cell:
    finished = [episode for episode in episodes if episode.finished]
    measures = {name: values_of(finished, name) for name in MEASURES}
    purposes: Counter[str] = Counter()
    for episode in finished:
        purposes.update({p: part["calls"] for p, part in episode.usage.get("by_purpose", {}).items()})
    return Cell(
        dataset=dataset,
        method=method,
        episodes=len(finished),
        missing=expected - len(episodes),
        failed=len(episodes) - len(finished),
        outcomes=Counter(episode.outcome for episode in episodes),
        measures={name: mean_estimate(values) if values else None for name, values in measures.items()},
        calls_by_purpose={purpose: count / len(finished) for purpose, count in sorted(purposes.items())},
        judge_tokens=sum(episode.judge["usage"]["tokens"] for episode in finished if episode.judge),
    )


def _mean_cell(
    method: str, episodes: Mapping[tuple[str, str], Sequence[Episode]], datasets: Sequence[str], cells: Sequence[Cell]
) -> Cell:
    own = [cell for cell in cells if cell.method == method]
    measures: dict[str, Estimate | None] = {}
    for name in MEASURES:
        values = {dataset: values_of(episodes[dataset, method], name) for dataset in datasets}
        # Over the datasets for which the measure has a meaning.
        some = {dataset: found for dataset, found in values.items() if found}
        measures[name] = mean_over_datasets(some) if some else None
    purposes = sorted({purpose for cell in own for purpose in cell.calls_by_purpose})
    outcomes: Counter[str] = Counter()
    for cell in own:
        outcomes.update(cell.outcomes)
    return Cell(
        dataset=MEAN,
        method=method,
        episodes=sum(cell.episodes for cell in own),
        missing=sum(cell.missing for cell in own),
        failed=sum(cell.failed for cell in own),
        outcomes=outcomes,
        measures=measures,
        calls_by_purpose={
            purpose: math.fsum(cell.calls_by_purpose.get(purpose, 0.0) for cell in own) / len(own)
            for purpose in purposes
        },
        judge_tokens=sum(cell.judge_tokens for cell in own),
    )
