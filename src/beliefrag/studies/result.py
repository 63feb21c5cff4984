"""What a study finds: tables, numbers, notes, the paper's values beside ours, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beliefrag.report.published import published_figures
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Beside", "Cell", "Column", "Estimate", "Result", "Table", "beside"]


Cell = Estimate | float | int | str | None
"""None where there is nothing to say: a dash on the page, nothing in the file."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    unit: str = ""
    """What its numbers are: "share of states", "tokens"."""
    digits: int = 3
    bounded: bool = False
    """Whether its cells are `Estimate`s: a file then has their lower and upper bounds as columns of their own."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, written as a file of its own and on the page."""

    name: str
    """Of the file, without its ending."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"the table {self.name} has rows that do not fit its {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Beside:
    """A value of the paper with what was found here."""

    what: str
    theirs: float
    ours: Estimate | None
    """None where it cannot be said."""
    digits: int = 3


def beside(ours: Mapping[str, Estimate | None]) -> tuple[Beside, ...]:
    """The paper's values of these ids (see `bench.published`), each with ours."""
    theirs = published_figures()
    return tuple(Beside(theirs[name].what, theirs[name].value, number) for name, number in ours.items())


@dataclass(frozen=True, slots=True)
class Result:
    """All that a study found, worked out from records alone."""

    n: str
    """What the numbers rest on, in words: how many questions, states, episodes of which datasets."""
    findings: tuple[str, ...]
    """What came out, in sentences, the most important first; or why nothing can be said."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for programs; `Estimate`s may be among them."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out and why, and what cannot be said."""
    published: tuple[Beside, ...] = ()
    published_note: str = ""
    """How what they did differs."""
    draw: Callable[[Figure], None] | None = None
    """Draws the study's figure; None where there is nothing to draw."""
    figure_size: tuple[float, float] = (9.0, 5.5)
    """In inches."""
    caption: str = ""
    """What the figure shows, in a sentence."""

    @classmethod
    def too_little(cls, why: str, *, n: str, notes: Iterable[str] = ()) -> Result:
        """The result where there is too little to work with: a sentence, and no number."""
        return cls(n=n, findings=(why,), numbers={"too_little": why}, notes=tuple(notes))
