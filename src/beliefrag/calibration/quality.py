"""How good probabilities are: Brier score, AUC, expected calibration error and the reliability curve.

Every function takes the probabilities, the outcomes (1 or 0) and a weight for each, all along the last axis. Weights
may have several rows, one per resample: the result then has one number for each row. For the AUC outcomes may, too.

The calibration error is read in ten equal bins of probability, [0, 0.1) to [0.9, 1]: the sum over bins of their share
of the weight times the distance between mean probability and mean outcome. The binning is ours; the paper gives none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.report import Bin

__all__ = ["BINS", "Floats", "auc", "brier", "expected_calibration_error", "reliability_curve"]

BINS = 10

Floats = NDArray[np.float64]


def brier(p: Floats, y: Floats, weights: Floats) -> Floats:
    """The mean squared distance of the probabilities from what came true: lower is better."""
    mean: Floats = np.asarray(weights @ (p - y) ** 2 / weights.sum(axis=-1))
    return mean


def auc(p: Floats, y: Floats, weights: Floats) -> Floats:
    """The chance that a case that came true has the higher probability than one that did not; ties count half.

    It has no value where all cases of a row came out alike: that row is not a number, and the caller leaves it out.
    """
    order = np.argsort(p, kind="stable")
    p, y, weights = p[order], y[..., order], weights[..., order]
    ties = np.flatnonzero(np.concatenate([[True], np.diff(p) > 0]))
    yes = np.add.reduceat(weights * y, ties, axis=-1)
    no = np.add.reduceat(weights * (1 - y), ties, axis=-1)
    won = (yes * (np.cumsum(no, axis=-1) - no / 2)).sum(axis=-1)
    pairs = yes.sum(axis=-1) * no.sum(axis=-1)
    share: Floats = np.divide(won, pairs, out=np.full_like(pairs, np.nan), where=pairs > 0)
    return share


def expected_calibration_error(p: Floats, y: Floats, weights: Floats) -> Floats:
    """How far probabilities lie from what came true, on average over the bins: 0 is perfect."""
    members = _places(p)[:, None] == np.arange(BINS)
    gaps: Floats = np.asarray(np.abs((weights * (p - y)) @ members).sum(axis=-1) / weights.sum(axis=-1))
    return gaps


def reliability_curve(p: Floats, y: Floats, weights: Floats) -> tuple[Bin, ...]:
    """The bins that have anything in them, lowest first."""
    places, total = _places(p), float(weights.sum())
    curve = []
    for place in np.unique(places):
        inside = places == place
        share = float(weights[inside].sum())
        curve.append(
            Bin(
                low=place / BINS,
                high=(place + 1) / BINS,
                states=int(inside.sum()),
                share=round(share / total, 6),
                predicted=round(float(weights[inside] @ p[inside]) / share, 6),
                observed=round(float(weights[inside] @ y[inside]) / share, 6),
            )
        )
    return tuple(curve)


def _places(p: Floats) -> NDArray[np.int64]:
    return np.minimum((p * BINS).astype(np.int64), BINS - 1)
