"""Tuning: an operating point chosen from recorded states, without asking a model again."""

from beliefrag.calibration.tuning.grid import ThresholdGrid
from beliefrag.calibration.tuning.operating_points import OperatingPoint, TuningGoal, UnknownPoint
from beliefrag.calibration.tuning.recorded import (
    RecordedQuestions,
    TuningError,
    UnrecordedPointError,
    read_recorded_questions,
)
from beliefrag.calibration.tuning.threshold_search import HeldOutCheck, Tuning, tune_thresholds

__all__ = [
    "HeldOutCheck",
    "OperatingPoint",
    "RecordedQuestions",
    "ThresholdGrid",
    "Tuning",
    "TuningError",
    "TuningGoal",
    "UnknownPoint",
    "UnrecordedPointError",
    "read_recorded_questions",
    "tune_thresholds",
]
