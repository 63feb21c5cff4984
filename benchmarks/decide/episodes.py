"""The episodes of runs as a table without texts: what each did, scored and cost. It is committed with the results.

All numbers of the page are worked out from these rows, so that whoever has the table can work them out again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pydantic import TypeAdapter

from beliefrag import bench
from beliefrag.record import Episode, Outcome
from beliefrag.types import Diagnostics

__all__ = ["EpisodeRow", "measure_rows", "read_rows", "read_run_rows", "write_rows"]

_DIGITS = 6
_DIAGNOSTICS = tuple(field.name for field in fields(Diagnostics))


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode, without question, passages, prompts and answer."""

    run: str
    """The name of the run's folder."""
    method: str
    dataset: str
    question: str
    """Its id."""
    outcome: str
    actions: str | None
    """The actions in their order, with spaces between them; None where it failed before the first one."""
    answerability: float | None
    exact_match: float | None
    f1: float | None
    cover: float | None
    evidence_recall: float | None
    tokens: int
    tokens_in: int
    tokens_out: int
    tokens_by_purpose: str | None
    """As `answer=422 verifier=310`, sorted; None where no model was asked."""
    calls: int
    rounds: float | None
    relevance: float | None = None
    """This diagnostic and the following ones are those of the last state; None for methods that measure nothing."""
    support: float | None = None
    conflict: float | None = None
    uncertainty: float | None = None
    gap: float | None = None
    novelty: float | None = None
    cost: float | None = None
    least_token: float | None = None
    """The probability of the least likely token of the first reply whose token probabilities were asked for."""

    @property
    def finished(self) -> bool:
        """Whether it ended with an answer or an abstention."""
        return self.outcome != Outcome.FAILED

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Which episode it is."""
        return self.run, self.method, self.dataset, self.question


_ROWS = TypeAdapter(list[EpisodeRow])


def read_run_rows(folder: Path) -> list[EpisodeRow]:
    """Read the episodes of a run, in the order of their keys."""
    episodes = sorted(bench.Run.open(folder).episodes(), key=lambda each: each.key)
    return [_row_of(folder.resolve().name, episode) for episode in episodes]


def write_rows(rows: Iterable[EpisodeRow], file: Path) -> None:
    """Write the table. The same rows give the same bytes."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, [field.name for field in fields(EpisodeRow)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def read_rows(file: Path) -> list[EpisodeRow]:
    """Read a table that `write_rows` wrote."""
    with file.open(encoding="utf-8", newline="") as lines:
        return _ROWS.validate_python(
            [{name: text or None for name, text in row.items()} for row in csv.DictReader(lines)]
        )


def measure_rows(rows: Iterable[EpisodeRow], measures: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the values of some columns by dataset, measure and question, as comparisons take them."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        own = found.setdefault(row.dataset, {measure: {} for measure in measures})
        for measure in measures:
            own[measure][row.question] = float(getattr(row, measure) or 0.0)
    return found


def _row_of(run: str, episode: Episode) -> EpisodeRow:
    key, usage, scores = episode.key, episode.usage, episode.metrics
    last = episode.steps[-1].diagnostics if episode.steps else None
    measured = {name: _round(getattr(last, name)) for name in _DIAGNOSTICS} if last else {}
    return EpisodeRow(
        run=run,
        method=key.method,
        dataset=key.dataset,
        question=key.question_id,
        outcome=str(episode.outcome),
        actions=" ".join(step.action for step in episode.steps) or None,
        answerability=_round(episode.answerability),
        exact_match=_round(scores.get("exact_match")),
        f1=_round(scores.get("f1")),
        cover=_round(scores.get("cover")),
        evidence_recall=_round(scores.get("evidence_recall")),
        tokens=usage.tokens,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_by_purpose=" ".join(f"{name}={part.tokens}" for name, part in sorted(usage.by_purpose.items())) or None,
        calls=usage.calls,
        rounds=_round(scores.get("rounds")),
        **measured,
        least_token=_round(next((call.least_token for call in episode.calls if call.least_token is not None), None)),
    )


def _round(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)
