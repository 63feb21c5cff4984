"""The numbers of a run for people and notebooks: a report with its tables, and the comparison of two methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.report.run_report import cost_lines, mean_notes, report_tables, results_table, write_report
from beliefrag.report.table import Table
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_files import read_summaries
from beliefrag.runs.statistics import Difference
from beliefrag.runs.summary import MEASURES, DatasetComparison, Summary, compare_methods, describe_incomplete, summarise

__all__ = ["MethodComparison", "Report", "compare", "report"]


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of a run as tables."""

    summary: Summary
    results: Table
    """One row for each dataset and method."""
    tables: tuple[Table, ...]
    """All tables of the written report."""
    notes: tuple[str, ...]
    costs: Mapping[str, str]
    """What the methods and the judge cost, in words."""
    files: tuple[Path, ...] = ()
    """What was written."""

    @classmethod
    def from_summary(cls, summary: Summary, files: Sequence[Path] = ()) -> Report:
        """Gives the report on these numbers."""
        return cls(
            summary,
            results_table(summary),
            tuple(report_tables(summary)),
            tuple(mean_notes(summary)),
            dict(cost_lines(summary)),
            tuple(files),
        )

    def to_pandas(self) -> Any:
        """Gives the results as a pandas DataFrame.

        Raises:
            SettingsError: pandas is not installed.
        """
        return self.results.to_pandas()

    def __str__(self) -> str:
        """Gives the table of results for a terminal, and what must be known about it."""
        return self.results.to_text() + "\n".join(self._remarks())

    def _repr_html_(self) -> str:
        return self.results._repr_html_() + "".join(f"<p>{escape(line)}</p>" for line in self._remarks())

    def _remarks(self) -> list[str]:
        return [self.summary.first_line, *self.notes, *(f"{what}: {words}" for what, words in self.costs.items())]


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """How two methods of a run compare on the same questions: the first minus the second."""

    first: str
    second: str
    datasets: tuple[DatasetComparison, ...]
    incomplete: str = ""
    """Which episodes are missing or failed, in words; empty where none."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before the numbers: missing and failed episodes, questions that are left out."""
        left_out = (_describe_left_out(each) for each in self.datasets if each.paired.left_out)
        return (*((self.incomplete,) if self.incomplete else ()), *left_out)

    @property
    def table(self) -> Table:
        """One row for each dataset and measure."""
        one, other = METHODS.title(self.first), METHODS.title(self.second)
        headings = ("dataset", "n", "measure", one, other, "difference", "95 %", "reading")
        rows = [row for each in self.datasets for row in _comparison_rows(each)]
        return Table.of_texts("comparison", f"{one} minus {other}", headings, rows)

    def to_pandas(self) -> Any:
        """Gives the table as a pandas DataFrame.

        Raises:
            SettingsError: pandas is not installed.
        """
        return self.table.to_pandas()

    def __str__(self) -> str:
        """Gives the table for a terminal, and what must be known about it."""
        return self.table.to_text() + "\n".join(self.warnings)

    def _repr_html_(self) -> str:
        return self.table._repr_html_() + "".join(f"<p>{escape(line)}</p>" for line in self.warnings)


def report(folder: str | Path, *, out: str | Path | None = None) -> Report:
    """Gives the numbers of a run, with intervals. No model is asked.

    Args:
        folder: The run's.
        out: A folder for the report as Markdown, CSV, LaTeX and one HTML page. Nothing is written by default.

    Raises:
        RunError: The folder holds no run, it cannot be read, or it has no method to report on.
    """
    summary = summarise(Path(folder))
    return Report.from_summary(summary, () if out is None else write_report(summary, Path(out)))


def compare(folder: str | Path, first: str, second: str, *, allow_unequal: bool = False) -> MethodComparison:
    """Compares two methods of a run on the same questions, in F1 and in tokens.

    Args:
        folder: The run's.
        first: A method of the run.
        second: Another one.
        allow_unequal: Compare on the questions that both finished, where they did not finish the same ones.

    Raises:
        RunError: The run does not have a method, or there is no question that both finished.
        UnequalQuestions: They did not finish the same questions, and that was not allowed.
    """
    record, episodes = RunRecord.read(Path(folder)), read_summaries(Path(folder)).values()
    found = tuple(compare_methods(record, episodes, first, second, allow_unequal=allow_unequal))
    return MethodComparison(first, second, found, describe_incomplete(record, episodes, first, second))


def _comparison_rows(found: DatasetComparison) -> Iterator[tuple[str, ...]]:
    n = str(found.paired.questions)
    for name in (found.quality, "tokens"):
        yield found.dataset, n, MEASURES[name], *_difference_cells(name, found.paired.measures[name])
    if found.paired.better_and_cheaper is not None:
        share = f"{found.paired.better_and_cheaper:.1%}"
        yield found.dataset, n, "better and cheaper", "", "", share, "", "share of resamples"


def _difference_cells(name: str, difference: Difference) -> tuple[str, ...]:
    digits = ",.0f" if name == "tokens" else ".3f"
    gap = difference.difference
    between = "-" if gap.low is None or gap.high is None else f"{gap.low:+{digits}} to {gap.high:+{digits}}"
    reading = "the interval holds zero"
    if difference.is_clear:
        reading = "clear"
    elif gap.has_few_questions:
        reading = "too few questions to say"
    return f"{difference.first:{digits}}", f"{difference.second:{digits}}", f"{gap.value:+{digits}}", between, reading


def _describe_left_out(found: DatasetComparison, most: int = 5) -> str:
    ids = found.paired.left_out
    more = f" and {len(ids) - most:,} more" if len(ids) > most else ""
    named = ", ".join(f"{each:.60}" for each in ids[:most])
    return f"warning: {found.dataset}: {len(ids):,} questions are left out ({named}{more}); only one side has them"
