"""Finds where sentences end, without taking every full stop for one."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["sentences"]

_CLOSING = "\"'\u2019\u201d\u00bb\u203a)\\]}\u300d\u300f\uff09\u3011\u300b"
_OPENING = "\"'\u2018\u201c\u00ab\u2039(\\[{\u00bf\u00a1\u300c\u300e\uff08\u3010\u300a"
_STOPS = ".!?\u2026\u203c\u2047-\u2049\u061f\u06d4\u0964\u0965"
_END = re.compile(
    # Full-width stops end a sentence wherever they stand, others only before a space. A run of stops is looked at
    # once, from its beginning: a page of dots takes no longer than a page of words.
    f"[\u3002\uff01\uff1f\uff61]++[{_CLOSING}]*+\\s*+"
    f"|(?<![{_STOPS}])(?P<stop>[{_STOPS}]++)[{_CLOSING}]*+\\s++(?=[{_OPENING}]*+(?P<next>\\S))"
)
_LAST_WORD = re.compile(r"[^\s(\[\"'\u2018\u201c]+\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ABBREVIATION = re.compile(
    "adm|al|approx|apr|assn|assoc|aug|ave|bldg|blvd|bros|ca|capt|cf|cmdr|co|col|corp|cpl|dec|dept|dist|dr|eds?|eg|esp|est|"
    "etc|feb|gen|gov|govt|hon|ie|inc|incl|jan|jr|jul|jun|lt|ltd|maj|messrs|misc|mlle|mme|mr|mrs|ms|msgr|mts?|nov|oct|ph|"
    "ph\\.d|phd|pres|prof|pvt|rd|refs?|reps?|resp|rev|sens?|sept?|sgt|sr|ste?|supt|tel|trans|univ|viz|vs"
)
_BEFORE_NUMBER = re.compile("art|cap|chap|ch|eqs?|figs?|nos?|op|pp?|para|sect?|vols?|v")


def sentences(text: str) -> Iterator[str]:
    """Gives the sentences of a paragraph; together they are the paragraph, but for the spaces between them.

    Initials and abbreviations (`J. R. R. Tolkien`, `e.g.`, `U.S.`, `Dr.`) do not end a sentence, nor does a stop before
    a small letter. Where that is ambiguous the text stays together: a sentence too long is cut later, a sentence torn
    apart loses its meaning.
    """
    start = 0
    for end in _END.finditer(text):
        if end["stop"] == "." and not _ends_sentence(text, start, end.start(), end["next"]):
            continue
        if end["stop"] and end["next"].islower():
            continue
        yield text[start : end.end()].strip()
        start = end.end()
    if text[start:].strip():
        yield text[start:].strip()


def _ends_sentence(text: str, start: int, stop: int, following: str) -> bool:
    found = _LAST_WORD.search(text, max(start, stop - 40), stop)
    if found is None:
        return True
    word = found[0].lower()
    if _INITIALS.fullmatch(word) or _ABBREVIATION.fullmatch(word):
        return False
    return not (following.isdigit() and _BEFORE_NUMBER.fullmatch(word))
