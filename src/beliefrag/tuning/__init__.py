"""Tuning: an operating point chosen from recorded states, without asking a model again."""

from beliefrag.tuning.choice import Goal
from beliefrag.tuning.errors import OffTheRecord, TuningError
from beliefrag.tuning.grid import Grid
from beliefrag.tuning.recorded import Recorded, read_recorded
from beliefrag.tuning.sweep import Point, Refusal
from beliefrag.tuning.tune import Checked, Tuning, tune

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
