"""Studies: each answers one question about the method from recorded runs, with its numbers, its figure and a page.

A study is one `Study` value in a file of its own, listed in `catalogue`. It names the runs that it needs; whoever makes
them hands their recordings to its `work_out`, which is pure.
"""

from beliefrag.runs.statistics import Estimate
from beliefrag.studies.errors import StudyError
from beliefrag.studies.kinds import SHORT_ANSWERS, Kind
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Beside, Column, Result, Table, beside
from beliefrag.studies.study import Study, StudyOptions

__all__ = [
    "SHORT_ANSWERS",
    "Beside",
    "Column",
    "Estimate",
    "Kind",
    "Recording",
    "RequiredRun",
    "Result",
    "Study",
    "StudyError",
    "StudyOptions",
    "Table",
    "beside",
]
