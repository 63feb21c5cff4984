"""The numbers of a run by dataset and method with their intervals, what is missing, and paired differences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.methods import METHODS
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunError, UnequalQuestions
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.statistics import (
    Estimate,
    PairedComparison,
    compare,
    mean_estimate,
    mean_over_datasets,
)
from beliefrag.types import Usage


@dataclass(frozen=True, slots=True)
class Failures:
    """Episodes of one method on one dataset that failed for one cause."""

    cause: str
    dataset: str
    method: str
    question_ids: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """All cells of a run."""

    run: RunRecord
    cells: tuple[Cell, ...]
    failures: tuple[Failures, ...]
    spent: Usage
    judge_spent: Usage

    @property
    def expected(self) -> int:
        """How many episodes would be in the numbers if none were missing."""
        return self._count("asked")

    @property
    def missing(self) -> int:
        """How many episodes were not begun, or not ended."""
        return self._count("missing")

    @property
    def failed(self) -> int:
        """How many episodes failed."""
        return self._count("failed")

    @property
    def unjudged(self) -> int:
        """Finished episodes that lack a verdict although the run has a judge."""
        return self._count("unjudged")

    def _count(self, what: str) -> int:
        return sum(getattr(cell, what) for cell in self.cells if cell.dataset != MEAN)

    @property
    def causes(self) -> Mapping[str, int]:
        """Failed episodes by cause."""
        counts: Counter[str] = Counter()
        for failures in self.failures:
            counts[failures.cause] += len(failures.question_ids)
        return counts

    @property
    def without_mean(self) -> tuple[str, ...]:
        """Methods whose mean over datasets is withheld: it would be over fewer datasets than that of the others."""
        begun = {cell.method for cell in self.cells if cell.dataset == MEAN}
        return tuple(dict.fromkeys(cell.method for cell in self.cells if cell.method in begun and not cell.episodes))

    @property
    def complete(self) -> bool:
        """Whether every episode that was asked for is in the numbers."""
        return not (self.missing or self.failed or self.unjudged)

    @property
    def first_line(self) -> str:
        """What a reader must know before any number."""
        words, count = self._completeness, self.run.seen_by_calibration
        if trained := [name for name, each in self.run.datasets.items() if "train" in each.splits]:
            words += f" Train questions of {', '.join(trained)} are among the questions."
        if count and self.run.calibrations:
            words += (
                f" The calibration {self.run.calibrations[0].name} was fitted or chosen on {count:,} of the questions: "
                "BeliefRAG's numbers flatter it."
            )
        return words

    @property
    def _completeness(self) -> str:
        if self.complete:
            return f"Complete: all {self.expected:,} episodes are in these numbers."
        parts = []
        if self.missing:
            parts.append(f"{self.missing:,} of {self.expected:,} episodes are missing")
        if self.failed:
            causes = ", ".join(f"{cause} {count:,}" for cause, count in sorted(self.causes.items()))
            parts.append(f"{self.failed:,} failed and are not scored ({causes})")
        if self.unjudged:
            parts.append(f"{self.unjudged:,} are not judged")
        words = f"INCOMPLETE: {'; '.join(parts)}. Means are over the finished episodes."
        if self.without_mean:
            names = ", ".join(METHODS.title(method) for method in self.without_mean)
            words += f" No mean over datasets for {names}: a dataset has no finished episode of theirs."
        return words


def summarise(folder: Path) -> Summary:
    """Compute the numbers of the run in a folder. Nothing is written and no model is asked.

    Surveys are left out: they are not methods to compare.
    """
    run = RunRecord.read(folder)
    if not any(method in run.methods for method in METHODS):
        raise RunError(
            f"{folder} holds recorded states but no method to report on.",
            remedy="Use them with 'beliefrag calibrate fit' or 'beliefrag tune'.",
        )
    return summarise_episodes(run, read_summaries(folder))


def summarise_episodes(run: RunRecord, episodes: Mapping[EpisodeKey, EpisodeSummary]) -> Summary:
    """Compute the numbers of a run from its record and its episodes, wherever these were read from."""
    methods = [method for method in METHODS if method in run.methods]
    asked = {dataset: set(record.question_ids) for dataset, record in run.datasets.items()}
    found: dict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for key, episode in episodes.items():
        if key.method in methods and key.question_id in asked.get(key.dataset, ()) and key.seed == run.seed:
            found[key.dataset, key.method].append(episode)
    cells = [_make_cell(run, dataset, method, found[dataset, method]) for dataset in run.datasets for method in methods]
    if len(run.datasets) > 1:
        cells += [_make_mean_cell([cell for cell in cells if cell.method == method], found) for method in methods]
    finished = [episode for episodes in found.values() for episode in episodes if episode.finished]
    return Summary(
        run=run,
        cells=tuple(cells),
        failures=tuple(_failures(found)),
        spent=_total([episode.usage for episode in finished]),
        judge_spent=_total([episode.verdict.usage for episode in finished if episode.verdict]),
    )


def _total(usages: Sequence[Usage]) -> Usage:
    return Usage(**{part: sum(getattr(usage, part) for usage in usages) for part in PURPOSE_COSTS})


def _failures(found: Mapping[tuple[str, str], Sequence[EpisodeSummary]]) -> Iterator[Failures]:
    failed: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for (dataset, method), episodes in found.items():
        for episode in episodes:
            if not episode.finished:
                failed[episode.cause, dataset, method][episode.key.question_id] = episode.message
    for (cause, dataset, method), said in sorted(failed.items()):
        ids = tuple(sorted(said))
        yield Failures(cause, dataset, method, ids, said[ids[0]])


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
_COSTS = frozenset({"calls", "tokens", "tokens_in", "tokens_out"})
PURPOSE_COSTS = ("calls", "tokens_in", "tokens_out")
_FINAL_ANSWER = "answer"
"""The purpose of the one call that the token budget does not bound."""


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
    by_purpose: Mapping[str, Mapping[str, float]]
    """Mean `calls`, `tokens_in` and `tokens_out` per episode."""
    above_cap: int
    """Finished episodes whose calls, without that for the final answer, ended above the token budget."""
    judge_tokens: int
    """The cost of all verdicts together. It is evaluation, and in no other number."""
    unjudged: int
    """Finished episodes that lack a verdict although the run has a judge."""
    rests_on: Mapping[str, tuple[str, ...]]
    """For each measure the datasets that its number is over: those for which the measure has a meaning."""

    @property
    def asked(self) -> int:
        """How many episodes were asked for."""
        return self.episodes + self.missing + self.failed

    def is_incomplete(self, measure: str) -> bool:
        """Return whether the number is over fewer questions than were asked."""
        return bool(self.missing or self.failed or (measure == "judge" and self.unjudged))


def measure_values(episodes: Iterable[EpisodeSummary], measure: str) -> dict[str, float]:
    """Return one value per question for a measure; failed episodes and those without it are left out."""
    found = ((episode.key.question_id, _value(episode, measure)) for episode in episodes if episode.finished)
    return {question_id: value for question_id, value in found if value is not None}


def _value(episode: EpisodeSummary, measure: str) -> float | None:
    if measure == "seconds":
        return episode.usage.seconds
    value = getattr(episode.usage, measure) if measure in _COSTS else episode.metrics.get(measure)
    return None if value is None else float(value)


def _tokens_beside_f1(episodes: Sequence[EpisodeSummary]) -> dict[str, float]:
    tokens = measure_values(episodes, "tokens")
    return {question_id: tokens[question_id] for question_id in measure_values(episodes, "f1")}


def _make_cell(run: RunRecord, dataset: str, method: str, episodes: Sequence[EpisodeSummary]) -> Cell:
    finished = [episode for episode in episodes if episode.finished]
    measures = {name: measure_values(finished, name) for name in MEASURES}
    beside = _tokens_beside_f1(finished)
    used = [episode.usage.by_purpose for episode in finished]
    return Cell(
        dataset=dataset,
        method=method,
        episodes=len(finished),
        missing=len(run.datasets[dataset].question_ids) - len(episodes),
        failed=len(episodes) - len(finished),
        outcomes=Counter(episode.outcome for episode in episodes if episode.outcome),
        measures={name: mean_estimate(values) if values else None for name, values in measures.items()},
        tokens_beside_f1=mean_estimate(beside) if beside else None,
        by_purpose={
            purpose: {
                part: sum(getattr(parts.get(purpose, Usage()), part) for parts in used) / len(finished)
                for part in PURPOSE_COSTS
            }
            for purpose in sorted({purpose for parts in used for purpose in parts})
        },
        above_cap=sum(_is_above_cap(episode, run) for episode in finished),
        judge_tokens=sum(episode.verdict.usage.tokens for episode in finished if episode.verdict),
        unjudged=sum(_is_unjudged(episode) for episode in finished) if run.judge else 0,
        rests_on={name: (dataset,) for name, values in measures.items() if values},
    )


def _is_above_cap(episode: EpisodeSummary, run: RunRecord) -> bool:
    bounded = sum(part.tokens for purpose, part in episode.usage.by_purpose.items() if purpose != _FINAL_ANSWER)
    return bounded > run.budget.tokens


def _is_unjudged(episode: EpisodeSummary) -> bool:
    # An answer that is a set of rows has neither F1 nor a verdict.
    return episode.metrics.get("f1") is not None and episode.metrics.get("judge") is None


def _make_mean_cell(cells: Sequence[Cell], found: Mapping[tuple[str, str], Sequence[EpisodeSummary]]) -> Cell:
    """Return one method over all datasets, from its cells and the episodes by dataset and method.

    Where it finished nothing on one of them it has no mean, which would be over fewer datasets than the others'.
    """
    method = cells[0].method
    whole = all(cell.episodes for cell in cells)
    measures: dict[str, Estimate | None] = dict.fromkeys(MEASURES)
    rests_on: dict[str, tuple[str, ...]] = {}
    for name in MEASURES if whole else ():
        over = [cell for cell in cells if cell.measures[name] is not None]
        if over and not (name == "judge" and any(cell.unjudged for cell in cells if cell not in over)):
            rests_on[name] = tuple(cell.dataset for cell in over)
            measures[name] = mean_over_datasets({d: measure_values(found[d, method], name) for d in rests_on[name]})
    beside = {name: _tokens_beside_f1(found[name, method]) for name in rests_on.get("f1", ())}
    purposes = sorted({purpose for cell in cells for purpose in cell.by_purpose}) if whole else []
    counts = ("episodes", "missing", "failed", "above_cap", "judge_tokens", "unjudged")
    return Cell(
        dataset=MEAN,
        method=method,
        outcomes=sum((Counter(cell.outcomes) for cell in cells), Counter()),
        measures=measures,
        tokens_beside_f1=mean_over_datasets(beside) if beside else None,
        by_purpose={
            purpose: {
                part: math.fsum(cell.by_purpose.get(purpose, {}).get(part, 0.0) for cell in cells) / len(cells)
                for part in PURPOSE_COSTS
            }
            for purpose in purposes
        },
        rests_on=rests_on,
        **{name: sum(getattr(cell, name) for cell in cells) for name in counts},
    )


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """How two methods compare on one dataset."""

    dataset: str
    quality: str
    """The measure of quality: `f1`, or `answer_row_recall` for questions about sets of rows."""
    paired: PairedComparison


def compare_methods(
    run: RunRecord, episodes: Collection[EpisodeSummary], first: str, second: str, *, allow_unequal: bool = False
) -> list[DatasetComparison]:
    """Compute the paired differences of two methods, first minus second, for each dataset of a run.

    With `allow_unequal` they are compared on the questions that both finished; a dataset without any is left out.
    """
    if first == second:
        raise RunError(f"{first} would be compared with itself.", remedy="Name two methods of the run.")
    own = [method for method in METHODS if method in run.methods]
    for method in (first, second):
        if method not in own:
            raise RunError(
                f"The run has no method {method!r} to compare.",
                remedy=f"It has {', '.join(own) or 'none: only states'}.",
            )
    found: list[DatasetComparison] = []
    for dataset, record in run.datasets.items():
        asked = set(record.question_ids)
        here = [e for e in episodes if e.key.dataset == dataset and e.key.question_id in asked]
        sides = [[episode for episode in here if episode.key.method == method] for method in (first, second)]
        quality = "f1" if any(measure_values(side, "f1") for side in sides) else "answer_row_recall"
        one, other = ({name: measure_values(side, name) for name in (quality, "tokens")} for side in sides)
        if set(one["tokens"]) & set(other["tokens"]):
            found.append(DatasetComparison(dataset, quality, compare(one, other, allow_unequal=allow_unequal)))
        elif not allow_unequal:
            raise UnequalQuestions(
                f"{first} and {second} share no finished question of {dataset}.",
                remedy="Finish the run, or allow unequal question sets to leave this dataset out.",
            )
    if not found:
        raise RunError(f"{first} and {second} share no finished question.", remedy="Finish the run first.")
    return found


def describe_incomplete(run: RunRecord, episodes: Collection[EpisodeSummary], *methods: str) -> str:
    """Return what a reader of these methods' numbers must know first; empty where all episodes have finished."""
    methods = tuple(method for method in dict.fromkeys(methods) if method in run.methods)
    asked = {(dataset, each) for dataset, record in run.datasets.items() for each in record.question_ids}
    own = [e for e in episodes if e.key.method in methods and (e.key.dataset, e.key.question_id) in asked]
    total, failed = len(methods) * len(asked), sum(not episode.finished for episode in own)
    if len(own) == total and not failed:
        return ""
    names = " and ".join(METHODS.title(method) for method in methods)
    return f"INCOMPLETE: of {total:,} episodes of {names} {total - len(own):,} are missing and {failed:,} failed."
