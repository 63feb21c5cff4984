"""How good lean's probability is that its answer is right, beside the raw probability of the draft's tokens.

Brier score: how far the probability lies from what came true. Risk and coverage: of the surest answers, how many are
wrong. Both are lower for a better probability. What lean compares by dates has no draft, and so no token probability:
such a question has the same fixed probability on both sides, and a row of its own leaves these questions out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefrag.calibration.quality import auc, brier
from beliefrag.runs.statistics import (
    MEAN_RESAMPLES,
    PAIRED_RESAMPLES,
    Estimate,
    Floats,
    estimate_from_resamples,
    resample_weights,
)
from beliefrag.settings import DECLINE_BELOW
from benchmarks.decide.episodes import EpisodeRow
from benchmarks.find.mixed_corpus import SETS

__all__ = ["ALL", "Told", "area_under_risk", "judge_probabilities", "read_told", "risk_at"]

ALL = "all"
HALF = 0.5
_RIGHT = 0.5
"""The F1 from which on an answer counts as right, as for the calibration."""

Measure = Callable[[Floats, Floats, Floats], Floats]
"""Takes the probabilities, the outcomes and a weight for each; weights may have a row for each resample."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What was said of answers, and what came true: one place for each question."""

    questions: Sequence[str]
    datasets: Sequence[str]
    lean: Floats
    raw: Floats
    """The probability of the draft's least likely token."""
    right: Floats

    def estimate(self, value: Callable[[Floats], Floats], *, resamples: int = MEAN_RESAMPLES) -> Estimate:
        """Return a number with its interval; questions are drawn within their set."""
        blocks = resample_weights(self.questions, self.datasets, resamples=resamples)
        drawn = np.concatenate([value(weights) for weights in blocks])
        return estimate_from_resamples(float(value(np.ones(len(self.right)))), drawn, questions=len(self.right))

    def compare(self, measure: Measure) -> dict[str, Any]:
        """Return a measure of both sides, and the paired difference: lean minus raw."""

        def difference(weights: Floats) -> Floats:
            return measure(self.lean, self.right, weights) - measure(self.raw, self.right, weights)

        return {
            "lean": self.estimate(lambda weights: measure(self.lean, self.right, weights)).record(),
            "raw": self.estimate(lambda weights: measure(self.raw, self.right, weights)).record(),
            "difference": self.estimate(difference, resamples=PAIRED_RESAMPLES).record(),
        }


def area_under_risk(p: Floats, right: Floats, weights: Floats) -> Floats:
    """Return the area under the risk-coverage curve: the share of wrong answers at each answer's own threshold.

    The same as `RiskCoverageCurve.aurc`, for weighted answers.
    """
    answered, wrong = _count_from_surest(p, right, weights)
    sizes = np.diff(answered, axis=-1, prepend=0.0)
    shares = np.divide(wrong, answered, out=np.zeros_like(wrong), where=answered > 0)
    area: Floats = np.asarray((sizes * shares).sum(axis=-1) / answered[..., -1])
    return area


def risk_at(coverage: float, p: Floats, right: Floats, weights: Floats) -> Floats:
    """Return the share of wrong answers among the surest ones, as many as the coverage says.

    Where the border falls among answers of the same probability, each of them counts with the same share.
    """
    answered, wrong = _count_from_surest(p, right, weights)
    wanted = coverage * answered[..., -1:]
    place = (answered < wanted).sum(axis=-1, keepdims=True)
    ends = [np.take_along_axis(counts, place, -1) for counts in (answered, wrong)]
    before = [np.where(place > 0, np.take_along_axis(counts, place - 1, -1), 0.0) for counts in (answered, wrong)]
    part = (wanted - before[0]) / (ends[0] - before[0])
    share: Floats = (before[1] + part * (ends[1] - before[1])) / wanted
    return share[..., 0]


def _count_from_surest(p: Floats, right: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Count the answers at or above each probability that occurs, and the wrong ones among them."""
    order = np.argsort(-p, kind="stable")
    weights = weights[..., order]
    last = np.append(np.diff(p[order]) != 0, True)
    answered = np.cumsum(weights, axis=-1)[..., last]
    wrong = np.cumsum(weights * (1.0 - right[order]), axis=-1)[..., last]
    return answered, wrong


def read_told(rows: Iterable[EpisodeRow]) -> dict[str, Told]:
    """Return what lean on linked retrieval said of its answers: by set, for all, and for all that have a draft."""
    told = sorted(
        (
            row
            for row in rows
            if (row.run, row.method) == ("linked_packed", "lean")
            and row.finished
            and row.answerability is not None
            and (row.least_token is not None or not row.calls)
        ),
        key=lambda row: row.key,
    )
    chosen = {name: [row for row in told if row.dataset == name] for name in SETS}
    chosen |= {ALL: told}
    return {name: _told_by(own) for name, own in chosen.items() if own}


def _told_by(rows: Sequence[EpisodeRow]) -> Told:
    return Told(
        questions=[f"{row.dataset} {row.question}" for row in rows],
        datasets=[row.dataset for row in rows],
        lean=np.array([row.answerability or 0.0 for row in rows]),
        # What was compared by dates has no token: it counts as lean says.
        raw=np.array([row.answerability or 0.0 if row.least_token is None else row.least_token for row in rows]),
        right=np.array([float((row.f1 or 0.0) >= _RIGHT) for row in rows]),
    )


def judge_probabilities(told: dict[str, Told]) -> dict[str, Any]:
    """Return how good lean's answerability is on each set and on all, beside the raw probability of the draft."""
    return dict(_judge(told))


def _judge(told: dict[str, Told]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in told.items():
        lean, right = each.lean, each.right
        share = float(right.mean())
        given = lean >= DECLINE_BELOW
        yield (
            name,
            {
                "n": len(right),
                "right": share,
                "brier": each.compare(brier),
                "brier_share": share * (1.0 - share),
                "auc": float(auc(lean, right, np.ones(len(right)))) if 0.0 < share < 1.0 else None,
                "given": float(given.mean()),
                "right_of_given": float(right[given].mean()) if given.any() else None,
                "wrong_of_surest_half": each.compare(_risk_of_half),
                "area_under_risk": each.compare(area_under_risk),
            },
        )


def _risk_of_half(p: Floats, right: Floats, weights: Floats) -> Floats:
    return risk_at(HALF, p, right, weights)
