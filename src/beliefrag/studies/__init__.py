"""Studies: each answers one question about the method from recorded runs, with its numbers, its figure and a page.

A study is one file with a frozen dataclass, registered with `STUDIES.register` (see `study`).

    from beliefrag import studies

    found = studies.run("frontier", data=["data/hotpotqa"], out="studies", options={"methods": "static,beliefrag"})
    found.tables[0].to_pandas()
"""

from beliefrag.report.table import Column, Table
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.make import PreparedStudies, StudyProgress, prepare_studies, run
from beliefrag.studies.study import (
    STUDIES,
    DatasetKind,
    PaperValue,
    Recording,
    RequiredRun,
    Study,
    StudyContext,
    StudyError,
    StudyResult,
    choose_studies,
)

__all__ = [
    "STUDIES",
    "Column",
    "DatasetKind",
    "Estimate",
    "PaperValue",
    "PreparedStudies",
    "Recording",
    "RequiredRun",
    "Study",
    "StudyContext",
    "StudyError",
    "StudyProgress",
    "StudyResult",
    "Table",
    "choose_studies",
    "prepare_studies",
    "run",
]
