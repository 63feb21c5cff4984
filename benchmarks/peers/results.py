"""What peers and the methods of a run answered: one row for each question, as a table and without texts as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from beliefrag.bench.metrics import covers, token_f1
from beliefrag.bench.questions import Gold
from beliefrag.record import Episode
from beliefrag.runs.statistics import compare_over_datasets

__all__ = ["SERVED", "Outcome", "Report", "score_method", "score_peer"]

SERVED = "lean_served"
"""Lean as a client of the server that the peers ask. Every other system is compared with it."""
OF_RUN = "lean"
"""Lean in the run, with which the others are compared where lean was not asked through the server."""
_COLUMNS = (
    "",
    "n",
    "F1",
    "answer contains a gold answer",
    "F1 of lean less its",
    "tokens",
    "calls",
    "searches",
    "seconds, median",
    "seconds, mean",
    "processor seconds of the model, median",
    "processor seconds of the model, mean",
    "failed",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one system made of one question. A failure has F1 0, like a wrong answer, and its kind in `error`."""

    system: str
    dataset: str
    question_id: str
    f1: float
    cover: float
    tokens: int
    calls: int
    searches: int
    seconds: float | None
    """On the clock; None where replies came from a cache."""
    processor_seconds: float | None
    """Of the model; None where they were not kept, as for a method of a run."""
    error: str | None


def score_peer(line: Mapping[str, Any], answers: Sequence[str]) -> Outcome:
    """Return the outcome of a line that a peer's answer was written down in."""
    answer = line.get("answer") or ""
    return Outcome(
        system=line["peer"],
        dataset=line["dataset"],
        question_id=line["question_id"],
        f1=round(token_f1(answer, answers), 6),
        cover=float(covers(answer, Gold(answers=tuple(answers)))),
        tokens=line["tokens"],
        calls=line["calls"],
        searches=line["searches"],
        seconds=line["seconds"],
        processor_seconds=line.get("processor_seconds"),
        error=str(line["error"]).split(":")[0] if "error" in line else None,
    )


def score_method(episode: Episode) -> Outcome:
    """Return the outcome of an episode of a run."""
    return Outcome(
        system=episode.key.method,
        dataset=episode.key.dataset,
        question_id=episode.key.question_id,
        f1=round(episode.metrics.get("f1") or 0.0, 6),
        cover=episode.metrics.get("cover") or 0.0,
        tokens=episode.usage.tokens,
        calls=episode.usage.calls,
        searches=episode.usage.searches,
        seconds=None if episode.usage.cached_calls else round(episode.seconds, 1),
        processor_seconds=None,
        error=episode.error.cause if episode.error else None,
    )


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes, and what the systems are called."""

    titles: Mapping[str, str]
    outcomes: Sequence[Outcome]

    def table(self) -> str:
        """Return a row for each system, with lean's F1 less its own on the same questions and the 95 % interval.

        All figures are means but the medians of seconds, which are those of all questions, failures too.
        """
        rows = [
            f"| {' | '.join(_COLUMNS)} |",
            "|---" * len(_COLUMNS) + "|",
        ]
        for system in dict.fromkeys(each.system for each in self.outcomes):
            own = [each for each in self.outcomes if each.system == system]
            cells = [
                self.titles.get(system, system),
                str(len(own)),
                f"{mean(each.f1 for each in own):.3f}",
                f"{mean(each.cover for each in own):.3f}",
                self._gap(own),
                f"{mean(each.tokens for each in own):,.0f}",
                f"{mean(each.calls for each in own):.1f}",
                f"{mean(each.searches for each in own):.1f}",
                *_average_seconds([each.seconds for each in own]),
                *_average_seconds([each.processor_seconds for each in own]),
                str(sum(each.error is not None for each in own)),
            ]
            rows.append(f"| {' | '.join(cells)} |")
        return "\n".join(rows)

    def _gap(self, own: Sequence[Outcome]) -> str:
        reference = SERVED if any(each.system == SERVED for each in self.outcomes) else OF_RUN
        asked = {(each.dataset, each.question_id) for each in own}
        ours = [o for o in self.outcomes if o.system == reference and (o.dataset, o.question_id) in asked]
        if own[0].system == reference or len(ours) != len(own):
            return "-"
        gap = compare_over_datasets(_f1_by_set(ours), _f1_by_set(own)).measures["f1"].difference
        if gap.low is None or gap.high is None:
            return f"{gap.value:+.3f}"
        return f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"

    def as_json(self) -> dict[str, Any]:
        """Return titles and outcomes. Neither questions nor answers nor passages are in it."""
        return {"titles": dict(self.titles), "outcomes": [asdict(each) for each in self.outcomes]}


def _average_seconds(values: Sequence[float | None]) -> tuple[str, str]:
    """Return the median and the mean; neither is given where the seconds of a question are unknown."""
    known = [each for each in values if each is not None]
    return (f"{median(known):.1f}", f"{mean(known):.1f}") if len(known) == len(values) else ("-", "-")


def _f1_by_set(outcomes: Sequence[Outcome]) -> dict[str, dict[str, dict[str, float]]]:
    values: dict[str, dict[str, dict[str, float]]] = {}
    for each in outcomes:
        values.setdefault(each.dataset, {"f1": {}})["f1"][each.question_id] = each.f1
    return values
