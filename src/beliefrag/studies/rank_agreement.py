"""Whether two scores tell the same states apart."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from beliefrag.calibration.fitting import LEAST_SPREAD
from beliefrag.calibration.quality import Floats

__all__ = ["rise_together"]

_SAME_ORDER = 0.9995
"""A rank correlation from which on two scores differ by the rounding of their records alone."""


def rise_together(one: Floats, other: Floats) -> bool:
    """Whether two scores put the states in the same order, apart from rounding: then they tell the same apart."""
    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return False
    return bool(np.corrcoef(rankdata(one), rankdata(other))[0, 1] > _SAME_ORDER)
