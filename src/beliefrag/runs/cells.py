"""One method on one dataset, or on the mean over datasets: its numbers, and which questions they rest on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from beliefrag.runs.episode import EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import Estimate, average_seeds, mean_estimate, mean_over_datasets

__all__ = ["MEAN", "MEASURES", "Cell", "cell_of", "mean_of", "values_of"]

MEAN = "mean"
"""Stands in the place of a dataset for the simple mean over datasets."""

MEASURES: Mapping[str, str] = {
    "exact_match": "EM",
    "f1": "F1",
    "cover": "cover",
    "judge": "judge",
    "follows_false": "false answer followed",
    "recovers_true": "true answer recovered",
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
_COSTS = frozenset({"calls", "tokens", "tokens_in", "tokens_out"})
"""The measures that are read from an episode's usage."""


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
    tokens_beside_f1: Estimate | None
    """Tokens over exactly the questions that the F1 is over, to set the two against each other."""
    calls_by_purpose: Mapping[str, float]
    """Mean calls per episode."""
    judge_tokens: int
    """Of all verdicts together: evaluation, and in no other number."""
    unjudged: int
    """Finished episodes that lack a verdict although the run has a judge."""
    rests_on: Mapping[str, tuple[str, ...]]
    """For each measure the datasets that its number is over: those for which the measure has a meaning."""

    @property
    def asked(self) -> int:
        """How many episodes were asked for."""
        return self.episodes + self.missing + self.failed

    def lacks_some(self, measure: str) -> bool:
        """Whether the number is over fewer questions than were asked."""
        return bool(self.missing or self.failed or (measure == "judge" and self.unjudged))


def values_of(episodes: Iterable[EpisodeSummary], measure: str) -> dict[str, float]:
    """One value per question for a measure, seeds averaged; failed episodes and those without it left out."""
    found = ((episode, _value(episode, measure)) for episode in episodes if episode.finished)
    return average_seeds((e.key.question_id, e.key.seed, value) for e, value in found if value is not None)


def _value(episode: EpisodeSummary, measure: str) -> float | None:
    if measure == "seconds":
        return episode.seconds
    value = getattr(episode.usage, measure) if measure in _COSTS else episode.metrics.get(measure)
    return None if value is None else float(value)


def _tokens_beside_f1(episodes: Sequence[EpisodeSummary]) -> dict[str, float]:
    tokens = values_of(episodes, "tokens")
    return {question_id: tokens[question_id] for question_id in values_of(episodes, "f1")}


def cell_of(run: RunRecord, dataset: str, method: str, episodes: Sequence[EpisodeSummary]) -> Cell:
    """The numbers of one method on one dataset, from its episodes."""
    finished = [episode for episode in episodes if episode.finished]
    measures = {name: values_of(finished, name) for name in MEASURES}
    beside = _tokens_beside_f1(finished)
    purposes: Counter[str] = Counter()
    for episode in finished:
        purposes.update({purpose: part.calls for purpose, part in episode.usage.by_purpose.items()})
    return Cell(
        dataset=dataset,
        method=method,
        episodes=len(finished),
        missing=len(run.datasets[dataset].question_ids) - len(episodes),
        failed=len(episodes) - len(finished),
        outcomes=Counter(episode.outcome for episode in episodes),
        measures={name: mean_estimate(values) if values else None for name, values in measures.items()},
        tokens_beside_f1=mean_estimate(beside) if beside else None,
        calls_by_purpose={purpose: count / len(finished) for purpose, count in sorted(purposes.items())},
        judge_tokens=sum(episode.verdict.usage.tokens for episode in finished if episode.verdict),
        unjudged=sum(_is_unjudged(episode) for episode in finished) if run.judge else 0,
        rests_on={name: (dataset,) for name, values in measures.items() if values},
    )


def _is_unjudged(episode: EpisodeSummary) -> bool:
    # An answer that is a set of rows has neither F1 nor a verdict.
    return episode.metrics.get("f1") is not None and episode.metrics.get("judge") is None


def mean_of(cells: Sequence[Cell], found: Mapping[tuple[str, str], Sequence[EpisodeSummary]]) -> Cell:
    """One method over all datasets.

    Where it finished nothing on one of them there is no mean: it would be over fewer datasets than the others'.

    Args:
        cells: The method's, one for each dataset.
        found: Episodes by dataset and method.
    """
    method = cells[0].method
    whole = all(cell.episodes for cell in cells)
    measures: dict[str, Estimate | None] = dict.fromkeys(MEASURES)
    rests_on: dict[str, tuple[str, ...]] = {}
    for name in MEASURES if whole else ():
        over = [cell for cell in cells if cell.measures[name] is not None]
        if name == "judge" and any(cell.unjudged for cell in cells if cell not in over):
            continue
        if over:
            measures[name] = mean_over_datasets(
                {cell.dataset: values_of(found[cell.dataset, method], name) for cell in over}
            )
            rests_on[name] = tuple(cell.dataset for cell in over)
    beside = {name: _tokens_beside_f1(found[name, method]) for name in rests_on.get("f1", ())}
    purposes = sorted({purpose for cell in cells for purpose in cell.calls_by_purpose}) if whole else []
    outcomes: Counter[str] = Counter()
    for cell in cells:
        outcomes.update(cell.outcomes)
    return Cell(
        dataset=MEAN,
        method=method,
        episodes=sum(cell.episodes for cell in cells),
        missing=sum(cell.missing for cell in cells),
        failed=sum(cell.failed for cell in cells),
        outcomes=outcomes,
        measures=measures,
        tokens_beside_f1=mean_over_datasets(beside) if beside else None,
        calls_by_purpose={
            purpose: math.fsum(cell.calls_by_purpose.get(purpose, 0.0) for cell in cells) / len(cells)
            for purpose in purposes
        },
        judge_tokens=sum(cell.judge_tokens for cell in cells),
        unjudged=sum(cell.unjudged for cell in cells),
        rests_on=rests_on,
    )
