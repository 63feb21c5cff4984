"""A study of another package: how many searches a method makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.runs.statistics import mean_over_datasets
from beliefrag.studies import STUDIES, Column, Recording, RequiredRun, StudyContext, StudyResult, Table


@STUDIES.register("searches", title="Searches", summary="How many searches does a method make for a question?")
@dataclass(frozen=True, slots=True)
class SearchesStudy:
    """Counts searches."""

    method: str = "static"
    """The method whose searches are counted."""

    protocol: ClassVar[tuple[str, ...]] = ("The mean is over the questions that the method finished.",)

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run with the method."""
        return (RequiredRun("searches", (self.method,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Take the mean over datasets."""
        run = recordings["searches"]
        values = {name: run.values(self.method, name, "rounds") for name in run.datasets}
        if not any(values.values()):
            return StudyResult.insufficient("No question was finished.", sample="No question.")
        searches = mean_over_datasets({name: own for name, own in values.items() if own}).without_flat_interval()
        columns = (Column("method"), Column("searches", "per question", bounded=True))
        return StudyResult(
            sample=f"{sum(map(len, values.values()))} questions.",
            findings=(f"{self.method} makes {searches.value:.2f} searches for a question.",),
            numbers={"searches": searches},
            tables=(Table("searches", "Searches by method", columns, ((self.method, searches),)),),
        )
