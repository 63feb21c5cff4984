"""All numbers of the thresholds study, worked out from visited states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beliefrag.policy import Thresholds
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.rank_agreement import rise_together
from beliefrag.studies.states import StateTable
from beliefrag.studies.thresholds.gate_rates import Reached, reached
from beliefrag.studies.thresholds.gates import GATES
from beliefrag.studies.thresholds.scales import Placed, Scale

__all__ = ["Found", "find"]


@dataclass(frozen=True, slots=True)
class Found:
    """What the study found."""

    visited: StateTable
    datasets: tuple[str, ...]
    raw: Mapping[str | None, Placed]
    calibrated: Mapping[str | None, Placed]
    """By dataset, and for all under None."""
    spreads: Mapping[str, Estimate]
    """Of raw and calibrated medians, of their difference, and of the quantiles; empty with a single dataset."""
    gates: tuple[Reached, ...]
    """By dataset, and pooled."""
    same_order: bool
    """Whether raw and calibrated scores differ in their scale alone."""

    @property
    def pooled(self) -> list[Reached]:
        """The gates on the states of all datasets."""
        return [each for each in self.gates if each.dataset is None]


def find(visited: StateTable, datasets: tuple[str, ...], thresholds: Thresholds) -> Found:
    """Works everything out for the states of these datasets."""
    scores = visited.column(lambda s: s.belief.sufficiency), visited.column(lambda s: s.answerability or 0.0)
    raw, calibrated = (Scale(visited, score, thresholds.answer) for score in scores)
    spreads: dict[str, Estimate] = {}
    if len(datasets) > 1:
        spreads = {
            "raw": raw.median_spread(datasets),
            "calibrated": calibrated.median_spread(datasets),
            "difference": visited.number(
                lambda w: calibrated.median_spreads(w, datasets) - raw.median_spreads(w, datasets)
            ),
            "raw_below_threshold": raw.below_spread(datasets),
            "calibrated_below_threshold": calibrated.below_spread(datasets),
        }
    places: Sequence[str | None] = (*datasets, None)
    gates = tuple(reached(visited, gate, thresholds, place) for place in places for gate in GATES.values())
    rows = [{place: scale.placed(place) for place in places} for scale in (raw, calibrated)]
    return Found(visited, datasets, rows[0], rows[1], spreads, gates, rise_together(*scores))
