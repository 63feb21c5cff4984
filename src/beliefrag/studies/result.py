"""What a study finds: tables, numbers, notes, the paper's values beside ours, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beliefrag.report.published import published_numbers
from beliefrag.report.table import CellValue, Column, Table
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Beside", "CellValue", "Column", "Estimate", "Result", "Table", "beside"]


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
    theirs = published_numbers()
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
