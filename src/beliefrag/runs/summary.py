"""The numbers of a run by dataset and method, each with its interval, and what is missing from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.methods import METHODS
from beliefrag.runs.cells import MEAN, Cell, cell_of, mean_of
from beliefrag.runs.episode import EpisodeKey, EpisodeSummary
from beliefrag.runs.errors import RunError
from beliefrag.runs.record import RunRecord
from beliefrag.runs.store import read_summaries
from beliefrag.types import Usage

__all__ = ["Failures", "Summary", "summarise", "summary_of"]


@dataclass(frozen=True, slots=True)
class Failures:
    """Episodes of one method on one dataset that failed for one cause."""

    cause: str
    dataset: str
    method: str
    question_ids: tuple[str, ...]
    message: str = ""
    """What was said of the first of them."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All cells of a run."""

    run: RunRecord
    cells: tuple[Cell, ...]
    failures: tuple[Failures, ...]
    expected: int
    """How many episodes would be in the numbers if none were missing."""
    missing: int
    failed: int
    unjudged: int
    """Finished episodes that lack a verdict although the run has a judge."""
    spent: Usage
    """Calls and tokens of all finished episodes."""
    judge_spent: Usage
    """Those of the judge."""

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
        return self._presence + (f" {seen}" if (seen := self._seen) else "")

    @property
    def _seen(self) -> str:
        count = self.run.seen_by_calibration
        if not (count and self.run.calibration):
            return ""
        return (
            f"The calibration {self.run.calibration.name} was fitted or chosen on {count:,} of the questions: "
            "BeliefRAG's numbers flatter it."
        )

    @property
    def _presence(self) -> str:
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
        said = f"INCOMPLETE: {'; '.join(parts)}. Means are over what there is."
        if self.without_mean:
            names = ", ".join(METHODS.title(method) for method in self.without_mean)
            said += f" No mean over datasets for {names}: a dataset has no finished episode of theirs."
        return said


def summarise(folder: Path) -> Summary:
    """The numbers of the run in a folder. Nothing is written and no model is asked.

    Surveys are no methods to compare, and are in no number.

    Raises:
        RunError: The folder holds no run, it cannot be read, or it has no method to report on.
    """
    run = RunRecord.read(folder)
    if not any(method in run.methods for method in METHODS):
        raise RunError(
            f"{folder} holds recorded states, and no method to report on.",
            remedy="Use them with 'beliefrag calibrate fit' or 'beliefrag tune'.",
        )
    return summary_of(run, read_summaries(folder))


def summary_of(run: RunRecord, episodes: Mapping[EpisodeKey, EpisodeSummary]) -> Summary:
    """The numbers of a run from its record and its episodes, wherever these were read from."""
    methods = [method for method in METHODS if method in run.methods]
    found: dict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    asked = {
        EpisodeKey(dataset, method, question_id, run.seed)
        for dataset, record in run.datasets.items()
        for method in methods
        for question_id in record.question_ids
    }
    for key, episode in episodes.items():
        if key in asked:
            found[key.dataset, key.method].append(episode)
    cells = [cell_of(run, dataset, method, found[dataset, method]) for dataset in run.datasets for method in methods]
    means: list[Cell] = []
    if len(run.datasets) > 1:
        means = [mean_of([cell for cell in cells if cell.method == method], found) for method in methods]
    finished = [episode for episodes in found.values() for episode in episodes if episode.finished]
    return Summary(
        run=run,
        cells=(*cells, *means),
        failures=tuple(_failures(found)),
        expected=len(asked),
        missing=sum(cell.missing for cell in cells),
        failed=sum(cell.failed for cell in cells),
        unjudged=sum(cell.unjudged for cell in cells),
        spent=_total(episode.usage for episode in finished),
        judge_spent=_total(episode.verdict.usage for episode in finished if episode.verdict),
    )


def _total(usages: Iterable[Usage]) -> Usage:
    calls = tokens_in = tokens_out = 0
    for usage in usages:
        calls += usage.calls
        tokens_in += usage.tokens_in
        tokens_out += usage.tokens_out
    return Usage(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)


def _failures(found: Mapping[tuple[str, str], Sequence[EpisodeSummary]]) -> Iterator[Failures]:
    failed: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for (dataset, method), episodes in found.items():
        for episode in episodes:
            if not episode.finished:
                failed[episode.cause, dataset, method][episode.key.question_id] = episode.message
    for (cause, dataset, method), said in sorted(failed.items()):
        ids = tuple(sorted(said))
        yield Failures(cause, dataset, method, ids, said[ids[0]])
