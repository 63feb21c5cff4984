"""Dates in English text: finds them, and says when somebody lived and when something began.

All functions are pure and ask no model. A date may be a year alone, a month with its year, or a day. Years have four
digits, or three from 500 on: smaller numbers in a text are seldom years.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from beliefrag.answering.packing import find_sentences

__all__ = ["Date", "Life", "find_beginning", "find_dates", "find_life"]

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS)
_DATE = re.compile(
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<month>{_MONTH})\s*,?\s+"
    rf"|(?P<month_first>{_MONTH})\s+(?P<day_second>\d{{1,2}})\s*,?\s+"
    rf"|(?P<month_alone>{_MONTH})\s+)?"
    r"(?<![\d,.])(?P<year>1\d{3}|20\d\d|[5-9]\d\d)(?![\d%]|[,.]\d)(?P<before_christ>\s*BC\b)?",
    re.IGNORECASE,
)
_IN_PARENTHESES = re.compile(r"\(([^()]{0,200})\)")
_BORN = re.compile(r"\bborn\b([^.;]{0,60})", re.IGNORECASE)
_DIED = re.compile(r"\bdied\b([^.;]{0,60})", re.IGNORECASE)
_SAYS_BORN = re.compile(r"\b(?:born\b|b\.)|[–-]\s*$", re.IGNORECASE)
_SAYS_DIED = re.compile(r"\b(?:died\b|d\.)", re.IGNORECASE)
_STEM = 5
"""So many letters of a verb stay the same in its forms."""
_HEAD = 400
"""An article says within so many characters when its subject lived."""


class Date(NamedTuple):
    """A date; month and day are 0 where the text does not say them. Years before Christ are negative."""

    year: int
    month: int = 0
    day: int = 0

    def __str__(self) -> str:
        words = [str(self.day)] if self.day else []
        words += [_MONTHS[self.month - 1].capitalize()] if self.month else []
        return " ".join([*words, str(self.year) if self.year > 0 else f"{-self.year} BC"])

    def is_before(self, other: Date) -> bool | None:
        """Whether this date is the earlier one; None where they are too coarse to tell, or the same."""
        for own, theirs in zip(self, other, strict=True):
            if own != theirs:
                return own < theirs if own and theirs else None
            if not own:
                return None
        return None


class Life(NamedTuple):
    """When somebody was born and died, as far as a text says so."""

    birth: Date | None = None
    death: Date | None = None

    def months(self) -> int | None:
        """How many whole months the life had; None where the text does not say."""
        if not (self.birth and self.death):
            return None
        months = 12 * (self.death.year - self.birth.year) + self.death.month - self.birth.month
        return months - (self.death.day < self.birth.day)


def find_dates(text: str) -> list[Date]:
    """Gives the dates of a text in their order."""
    return [_read(found) for found in _DATE.finditer(text)]


def _read(found: re.Match[str]) -> Date:
    month = found["month"] or found["month_first"] or found["month_alone"] or ""
    number = next((place for place, name in enumerate(_MONTHS, 1) if month and name[:3] == month[:3].lower()), 0)
    day = int(found["day"] or found["day_second"] or 0)
    year = int(found["year"])
    return Date(-year if found["before_christ"] else year, number, day if day <= 31 else 0)


def find_life(text: str) -> Life:
    """Gives when the person lived whom a text is about: in parentheses at its beginning, or after born and died."""
    for inside in _IN_PARENTHESES.findall(text[:_HEAD]):
        dates = find_dates(inside)
        if len(dates) > 1:
            return Life(dates[0], dates[-1])
        if dates and _SAYS_BORN.search(inside):
            return Life(birth=dates[0])
        if dates and _SAYS_DIED.search(inside):
            return Life(death=dates[0])
    return Life(_first_date(_BORN.search(text)), _first_date(_DIED.search(text)))


def _first_date(found: re.Match[str] | None) -> Date | None:
    return next(iter(find_dates(found[1])), None) if found else None


def find_beginning(text: str, verb: str = "") -> Date | None:
    """Gives the date of the work, group or event that a text is about.

    Args:
        text: What is said about it.
        verb: What happened on that date, such as "founded". The first date behind a word that begins alike counts;
            where there is none, the first date of all.
    """
    sentences = [text[start:end] for start, end in find_sentences(text)]
    stem = re.compile(rf"\b{re.escape(verb[:_STEM])}.*", re.IGNORECASE | re.DOTALL) if verb else None
    behind = [found[0] for found in map(stem.search, sentences) if found] if stem else []
    return next((date for part in (*behind, *sentences) for date in find_dates(part)), None)
