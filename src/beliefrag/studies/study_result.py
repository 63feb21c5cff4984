"""What a study finds: sentences, tables, numbers, the values of the paper beside ours, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beliefrag.errors import BeliefRAGError
from beliefrag.report.figure import figure_svg, open_figure
from beliefrag.report.page import Block, BulletList, Drawing, Heading, Page, Paragraph
from beliefrag.report.published import MARK, published_numbers
from beliefrag.report.table import Table, format_cell
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PaperValue", "StudyError", "StudyResult", "compare_with_paper"]

_INTERVALS = (
    "In brackets: 95 % intervals of a seeded bootstrap over questions; ? marks one that rests on fewer than 20 of "
    "them. Where all questions are alike there is none."
)


class StudyError(BeliefRAGError):
    """A study lacks runs, datasets or methods that it needs, or its files cannot be written."""


@dataclass(frozen=True, slots=True)
class PaperValue:
    """A value of the paper beside what was found here."""

    what: str
    theirs: float
    ours: Estimate | None
    """None where it cannot be said."""
    digits: int = 3


def compare_with_paper(ours: Mapping[str, Estimate | None]) -> tuple[PaperValue, ...]:
    """Sets our values beside those that the paper has under the same ids (see `report.published`)."""
    theirs = published_numbers()
    return tuple(PaperValue(theirs[name].what, theirs[name].value, estimate) for name, estimate in ours.items())


@dataclass(frozen=True, slots=True)
class StudyResult:
    """All that a study found, worked out from records alone. A notebook shows it as a page."""

    sample: str
    """What the numbers rest on, as a sentence: how many questions, states or episodes of which datasets."""
    findings: tuple[str, ...]
    """What was found, in sentences, the most important first; or why nothing can be said."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for programs; there may be `Estimate`s among them."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out and why, and what cannot be said."""
    paper_values: tuple[PaperValue, ...] = ()
    paper_note: str = ""
    """How the experiment of the paper differs from this one."""
    draw: Callable[[Figure], None] | None = None
    """Draws the figure of the study; None where there is nothing to draw."""
    figure_size: tuple[float, float] = (9.0, 5.5)
    """In inches."""
    caption: str = ""
    """What the figure shows, in a sentence."""

    @classmethod
    def insufficient(cls, why: str, *, sample: str, notes: Iterable[str] = ()) -> StudyResult:
        """Gives the result where there is too little data: a sentence that says so, and no number."""
        return cls(sample=sample, findings=(why,), numbers={"too_little": why}, notes=tuple(notes))

    def open_figure(self) -> Figure | None:
        """Draws the figure of the study; None where there is nothing to draw."""
        if self.draw is None:
            return None
        figure = open_figure(self.figure_size)
        self.draw(figure)
        return figure

    def page_blocks(self, figure: Iterable[Block]) -> Iterator[Block]:
        """Gives what a page says about the result: findings, the figure, the values of the paper, and all tables."""
        yield Heading("What came out")
        yield BulletList(self.findings)
        yield from figure
        if self.paper_values:
            yield Heading("Beside the paper")
            yield Paragraph(f"The values in the last column are theirs, {MARK}. {self.paper_note}".strip())
            rows = [(p.what, format_cell(p.ours, p.digits), format_cell(p.theirs, p.digits)) for p in self.paper_values]
            yield Table.of_texts("paper", "", ("what", "here", "theirs"), rows)
        if self.tables:
            yield Heading("Numbers")
            yield Paragraph(_INTERVALS)
        yield from self.tables

    def __str__(self) -> str:
        """Gives the findings, the tables and the notes for a terminal."""
        tables = (f"\n{table.title}\n{table.to_text()}" for table in self.tables)
        return "\n".join((*self.findings, *tables, self.sample, *self.notes))

    def _repr_html_(self) -> str:
        figure = self.open_figure()
        drawn = (Drawing(figure_svg(figure, self.caption)), Paragraph(self.caption)) if figure else ()
        return Page("Study", (*self.page_blocks(drawn), Paragraph(self.sample), BulletList(self.notes))).to_fragment()
