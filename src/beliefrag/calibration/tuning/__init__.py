"""Tuning: an operating point chosen from recorded states, without asking a model again."""

from beliefrag.calibration.tuning.errors import OffTheRecord, TuningError
from beliefrag.calibration.tuning.grid import Grid
from beliefrag.calibration.tuning.recorded import Recorded, read_recorded
from beliefrag.calibration.tuning.select import Goal
from beliefrag.calibration.tuning.sweep import Point, Refusal
from beliefrag.calibration.tuning.tune import Checked, Tuning, tune

__all__ = [
    "Checked",
    "Goal",
    "Grid",
    "OffTheRecord",
    "Point",
    "Recorded",
    "Refusal",
    "Tuning",
    "TuningError",
    "read_recorded",
    "tune",
]
