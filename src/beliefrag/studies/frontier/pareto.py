"""The Pareto front of quality against cost, and how surely each method is on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from beliefrag.runs.statistics import MEAN_RESAMPLES

__all__ = ["on_front", "share_on_front"]

Floats = NDArray[np.float64]


def on_front(cost: Floats, quality: Floats) -> NDArray[np.bool_]:
    """Which points no other one beats: none is as cheap and as good, and cheaper or better.

    Args:
        cost: Along the last axis one point each; further axes are resamples.
        quality: The same.
    """
    no_dearer = cost[..., None, :] <= cost[..., :, None]
    no_worse = quality[..., None, :] >= quality[..., :, None]
    strictly = (cost[..., None, :] < cost[..., :, None]) | (quality[..., None, :] > quality[..., :, None])
    beaten: NDArray[np.bool_] = np.asarray((no_dearer & no_worse & strictly).any(axis=-1))
    return ~beaten


def share_on_front(
    datasets: Mapping[str, tuple[Floats, Floats]], *, seed: int = 0, resamples: int = MEAN_RESAMPLES
) -> Sequence[float]:
    """For each method the share of resamples in which it is on the front of the means over datasets.

    Questions are resampled within each dataset, with all methods' values attached.

    Args:
        datasets: For each the cost and the quality, a row per question and a column per method.
        seed: Of the resampling.
        resamples: How many.
    """
    costs: list[Floats] = []
    qualities: list[Floats] = []
    for place, name in enumerate(sorted(datasets)):
        cost, quality = datasets[name]
        generator = np.random.default_rng((seed, place))
        drawn = generator.integers(len(cost), size=(resamples, len(cost)))
        costs.append(cost[drawn].mean(axis=1))
        qualities.append(quality[drawn].mean(axis=1))
    shares = on_front(np.mean(costs, axis=0), np.mean(qualities, axis=0)).mean(axis=0)
    return [float(share) for share in shares]
