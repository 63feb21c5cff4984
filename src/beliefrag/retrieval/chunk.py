"""Cuts documents into passages of about a hundred words, along sentences and paragraphs."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from beliefrag.retrieval.document import Document, ReadPassage, count_visible
from beliefrag.retrieval.text import clean_text, make_storable
from beliefrag.types import Passage

__all__ = [
    "LONGEST",
    "LONGEST_ROW",
    "TARGET",
    "count_words",
    "cut_document",
    "find_words",
    "split_sentences",
    "split_text",
]

TARGET = 100
"""Words that a passage is filled up to."""
LONGEST = 150
"""Words that no passage exceeds, except a row that came with an id of its own."""
LONGEST_ROW = 300
"""Words up to which a row with an id of its own stays one passage, as its author meant it."""

_MOST_ANCHORS = 50
_MOST_LINKS = 100
_ENOUGH = 60
_REMNANT = 25

# Chinese and Japanese put no spaces between words, so a character counts as one; and what is longer than forty
# characters is no word of any language, so it counts (and may be cut) as several.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD = re.compile(f"[{_CJK}]|[^\\s{_CJK}]{{1,40}}")
_PARAGRAPHS = re.compile(
    r"\n[^\S\n]*+\n\s*+|[\f\u2029]|\n(?=[^\S\n]*+(?:[-*+\u2022\u25aa\u25e6]|\d{1,3}[.)]|#{1,6})\s)"
)
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


def count_words(text: str) -> int:
    """Gives how many words a text has, by the measure that passages are cut with."""
    return len(_WORD.findall(text))


def find_words(text: str) -> list[tuple[int, int]]:
    """Gives where each word of a text begins and ends, by the same measure."""
    return [found.span() for found in _WORD.finditer(text)]


def cut_document(document: Document) -> Iterator[Passage]:
    """Gives the passages of a document, each with the document's title.

    A passage's id is made from the document's name and the passage's own words: reading an unchanged file again gives
    the same ids, and a change in one place leaves the ids of all other passages alone. Rows that have an id keep it,
    with `#2`, `#3` ... for further parts of a long one.
    """
    if document.own_id:
        texts = [make_storable(document.text)] if _fits_row(document.text) else split_text(document.text)
        for number, text in enumerate(texts, 1):
            own = document.id if number == 1 else f"{document.id}#{number}"
            yield Passage(own, document.title, text, document.source, document.place)
        return
    finder = _PlaceFinder(document)
    texts = split_text(document.text)
    for number, text in enumerate(texts, 1):
        place, links = finder.find(text, is_last=number == len(texts))
        own = _hash_id(document.id, document.title, text)
        where = document.place or place
        if links:
            yield ReadPassage(own, document.title, text, document.source, where, links)
        else:
            yield Passage(own, document.title, text, document.source, where)


class _PlaceFinder:
    """Says on which pages or lines the pieces of a document stand and which links they have, piece after piece.

    Cutting loses nothing but white space, so a piece begins after as many other characters as the pieces before have.
    """

    def __init__(self, document: Document) -> None:
        self._word = "page" if document.pages else "line"
        self._starts = [offset for offset, _ in document.lines]
        """How many characters other than white space stand before each page or line."""
        self._numbers: Sequence[int] = [number for _, number in document.lines]
        if document.pages:
            counts = [count_visible(document.text[start:end]) for start, end in itertools.pairwise(document.pages)]
            self._starts = list(itertools.accumulate(counts, initial=0))
            self._numbers = range(1, len(self._starts) + 1)
        self._marks = document.marks
        self._next_mark = 0
        self._seen = 0

    def find(self, piece: str, *, is_last: bool) -> tuple[str, str]:
        """Gives the pages or lines of the next piece in words, and its anchors and links; empty where it has none."""
        if not self._starts and not self._marks:
            return "", ""
        before = self._seen
        self._seen += count_visible(piece)
        return self._describe(before, max(self._seen - 1, 0)), self._write_links(is_last=is_last)

    def _describe(self, first: int, last: int) -> str:
        if not self._starts:
            return ""
        one, other = (self._numbers[max(bisect_right(self._starts, at) - 1, 0)] for at in (first, last))
        return f"{self._word} {one}" if one == other else f"{self._word}s {one}-{other}"

    def _write_links(self, *, is_last: bool) -> str:
        anchors: list[str] = []
        links: list[tuple[str, str]] = []
        while self._next_mark < len(self._marks):
            mark = self._marks[self._next_mark]
            if mark.offset >= self._seen and not is_last:
                break
            self._next_mark += 1
            if mark.anchor is not None:
                anchors.append(mark.anchor)
            else:
                links.append((mark.target, mark.words))
        if not anchors and not links:
            return ""
        content = {"anchors": anchors[:_MOST_ANCHORS], "links": links[:_MOST_LINKS]}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def split_text(text: str) -> list[str]:
    """Cuts a text into pieces of about a hundred words, never more than `LONGEST`.

    Nothing but white space is lost. A piece ends with a paragraph if it is long enough by then, else with a sentence;
    a sentence that is too long by itself is cut between words.
    """
    pieces: list[str] = []
    current, size = "", 0
    for paragraph in _PARAGRAPHS.split(clean_text(text)):
        separator = "\n"
        for unit, words in _sentence_parts(paragraph):
            if current and size + words > TARGET:
                pieces.append(current)
                current, size = "", 0
            current, size, separator = (f"{current}{separator}{unit}" if current else unit), size + words, " "
        if size >= _ENOUGH:
            pieces.append(current)
            current, size = "", 0
    if current:
        # A few words at the end say little alone; the passage before has room for them.
        if pieces and size < _REMNANT and count_words(pieces[-1]) + size <= LONGEST:
            current = f"{pieces.pop()}\n{current}"
        pieces.append(current)
    return pieces


def _fits_row(text: str) -> bool:
    # Most rows are far below the limit, and an upper bound that needs no look at every character says so.
    beyond_ascii = len(text.encode("utf-8", "replace")) - len(text)
    at_most = len(text.split()) + len(text) // 40 + beyond_ascii
    return at_most <= LONGEST_ROW or count_words(text) <= LONGEST_ROW


def _sentence_parts(paragraph: str) -> Iterator[tuple[str, int]]:
    """Sentences with their lengths, those beyond the target cut into parts."""
    for sentence in split_sentences(" ".join(paragraph.split())):
        words = list(_WORD.finditer(sentence))
        if len(words) <= TARGET:
            yield sentence, len(words)
            continue
        for first in range(0, len(words), TARGET):
            part = words[first : first + TARGET]
            yield sentence[part[0].start() : part[-1].end()], len(part)


def _hash_id(document: str, title: str, text: str) -> str:
    content = f"{len(document)},{len(title)},{document}{title}{text}"
    return "p" + hashlib.sha256(content.encode()).hexdigest()[:16]


def split_sentences(text: str) -> Iterator[str]:
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
