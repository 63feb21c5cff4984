"""Studies: each answers one question about the method from recorded runs, with its numbers, its figure and a page.

A study is one file with a frozen dataclass, registered with `STUDIES.register` (see `study`).

    from beliefrag import studies

    found = studies.run("frontier:methods=static+beliefrag", data=["data/hotpotqa"], out="studies")
    found.tables[0].to_pandas()
"""

from beliefrag.report.table import Column, Table
from beliefrag.studies.make import run
from beliefrag.studies.study import (
    STUDIES,
    DatasetKind,
    Recording,
    RequiredRun,
    Study,
    StudyContext,
    StudyError,
    StudyResult,
)

__all__ = [
    "STUDIES",
    "Column",
    "DatasetKind",
    "Recording",
    "RequiredRun",
    "Study",
    "StudyContext",
    "StudyError",
    "StudyResult",
    "Table",
    "run",
]
