"""Names: what a passage is about, and where a text mentions a name.

A name is a run of words. Its hash is computed from the hashes of its words, so that all runs of a text are hashed and
looked up by a few array operations. No model is asked, and no language is assumed beyond words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.tokens import FACTOR, PASSAGE_END, hash_text, split_passages

__all__ = [
    "LONGEST_NAME",
    "SURENESS",
    "NameFinder",
    "NameKind",
    "acronyms_in",
    "hash_names",
    "keep_longest",
    "names_of",
    "upper_halves",
]

LONGEST_NAME = 10
"""Words of the longest name that is looked for in texts."""

_UPPER_HALF = np.uint64(32)
_LARGEST_TABLE = 26
"""Bits of a place in the largest table of marks: 64 MB."""

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]

_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*$")
_COMMA = re.compile(r"(.{3,60}?),\s")
_SUBJECT_END = re.compile(r"\s*(?:[(（]|\s(?:is|was|are|were|refers)\s)")
_ACRONYM = re.compile(r"\(\s*\"?([A-Z][A-Z0-9&.-]{1,9})\"?\s*[;,)]")
_WORD = re.compile(r"[^\W_]+")
_PATH = " > "
_QUOTES = "\"'“”‘’«»"
_SECTION_NUMBER = re.compile(r"^(?:(?:[A-Z]\.)?\d+(?:\.\d+)*\.?|Chapter \d+\.?|Appendix [A-Z]\.?)\s+(?=\S)")
_NUMBERED = re.compile(r"(?:[A-Z]\.)?\d+(?:\.\d+)+\.?\s+\S")
_TERM = re.compile(
    r"^[ \t]*(?:[-*+] +)?[`*]{0,2}"
    r"(-{1,2}[\w][\w-]*|[A-Za-z_][\w.]*[_.][\w.]+|[A-Za-z]\w+(?==)|(?:/[\w.@+-]+){2,}|[A-Z]{1,5}-?\d[\w-]*\d)"
    r"(?=[\s=,:;\[(<`*]|$)",
    re.MULTILINE,
)
_DEFINED = re.compile(r"\(([A-Z][A-Z0-9&-]{1,9})s?\)")
_MOST_TERMS = 12
_FILE_ENDING = re.compile(r"(?<=[^\W\d])\.(?:html?|md|txt|pdf|docx|\d)$")


class NameKind(IntEnum):
    """How a passage came by a name."""

    TITLE = 0
    PLAIN_TITLE = 1
    """The title without the words in parentheses that tell it from its namesakes."""
    SUBJECT = 2
    """What the first sentence defines."""
    ACRONYM = 3
    SHORT_TITLE = 4
    """The title up to its comma, or the first part of a path of headings."""
    TERM = 6
    """An option, a parameter or a field that an entry of a manual explains. As sure as a title."""
    HEADING = 7
    """The last heading above the passage."""
    ENTRY = 8
    """The same as a term, where it is the last heading above the passage."""
    TARGET = 9
    """The place that an explicit link leads to: a name that no text mentions."""
    LINK_TEXT = 10
    """The words of explicit links to the passage."""


SURENESS = np.array([0, 1, 2, 3, 4, 5, 0, 1, 0, 0, 1], np.int32)
"""For each kind how sure it is, as the ranker sees it: 0 for a title, 4 for a part of one."""


def names_of(title: str, text: str) -> Iterator[tuple[str, NameKind]]:
    """Gives the names of a passage, each with how it came by it; the same name may come twice."""
    if title:
        yield title, NameKind.TITLE
        if _PATH in title:
            yield from _names_in_path(title)
        elif _FILE_ENDING.search(title):
            yield _FILE_ENDING.sub("", title), NameKind.PLAIN_TITLE
        elif _NUMBERED.match(title):
            yield _SECTION_NUMBER.sub("", title), NameKind.PLAIN_TITLE
        plain = _PARENTHESES.sub("", title) if title[-1] in ")]） " else title
        if plain and plain != title:
            yield plain, NameKind.PLAIN_TITLE
        short = _COMMA.match(plain) if "," in plain else None
        if short:
            yield short[1], NameKind.SHORT_TITLE
    end = _SUBJECT_END.search(text, 2, 110)
    subject = text[: end.start()] if end and end.start() <= 92 else ""
    if subject and "\n" not in subject and _is_name(subject) and (not title or _share_word(subject, title)):
        yield subject, NameKind.SUBJECT
    if "(" in text[:200]:
        acronym = _ACRONYM.search(text, 0, 200)
        if acronym and _stands_for(acronym[1], title or subject):
            yield acronym[1], NameKind.ACRONYM
    if "\n" in text or "--" in text or "_" in text or "=" in text:
        for found, _ in zip(_TERM.finditer(text), range(_MOST_TERMS), strict=False):
            yield found[1], NameKind.TERM


def acronyms_in(text: str) -> Iterator[tuple[str, str]]:
    """Gives the acronyms that a text explains, each with its long form: `write-ahead logging (WAL)`."""
    if "(" not in text:
        return
    for found in _DEFINED.finditer(text):
        letters = found[1]
        before = text[max(0, found.start() - 100) : found.start()]
        words = list(_WORD.finditer(before))
        # The shortest run of words before the parenthesis whose first letters spell the acronym.
        for word in reversed(words[-len(letters) - 3 :]):
            if word[0][0].upper() == letters[0] and _stands_for(letters, before[word.start() :]):
                yield letters, before[word.start() :].strip()
                break


def _names_in_path(title: str) -> Iterator[tuple[str, NameKind]]:
    """Names of a passage below headings: its document and the last heading, which may be an entry of a manual."""
    parts = [_SECTION_NUMBER.sub("", part).strip() for part in title.split(_PATH)]
    document = _FILE_ENDING.sub("", parts[0])
    yield document, NameKind.SHORT_TITLE
    yield _PARENTHESES.sub("", document), NameKind.SHORT_TITLE
    for part in parts[-1].split(", "):
        term = _TERM.match(part)
        if term:
            yield term[1], NameKind.ENTRY
    yield parts[-1], NameKind.HEADING
    plain = _PARENTHESES.sub("", parts[-1])
    if plain != parts[-1]:
        yield plain, NameKind.HEADING


def _is_name(text: str) -> bool:
    """Says whether a subject looks like a name: few words, and the first and the last begin with a capital letter."""
    words = text.split()
    if not 2 <= len(words) <= 8:
        return False
    last = words[-1].lstrip(_QUOTES)
    return not (text.lstrip(_QUOTES)[:1].islower() or last[:1].islower())


def _share_word(one: str, other: str) -> bool:
    if other in one:
        return True
    return not set(_WORD.findall(one.lower())).isdisjoint(_WORD.findall(other.lower()))


def _stands_for(acronym: str, long_form: str) -> bool:
    letters = [letter.lower() for letter in acronym if letter.isalnum()]
    rest = iter([word[0].lower() for word in _WORD.findall(long_form)])
    return len(letters) >= 2 and all(letter in rest for letter in letters)


_ARTICLES = np.array([hash_text(word) for word in ("the", "a", "an")], np.uint64)


def hash_names(names: Sequence[str]) -> tuple[Hashes, NDArray[np.uint32]]:
    """Gives the hash of each name, 0 for what cannot be a name, and the upper halves of those of all beginnings.

    An article at the beginning is left out. A name of one character, or of more than `LONGEST_NAME` words, is none.
    """
    tokens = split_passages([("", name) for name in names])
    keep = (tokens.hashes > PASSAGE_END) | (tokens.hashes == PASSAGE_END)
    words = tokens.hashes[keep]
    ends = np.flatnonzero(words == PASSAGE_END)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    starts = starts + ((ends - starts > 1) & np.isin(words[np.minimum(starts, len(words) - 1)], _ARTICLES))
    lengths = ends - starts
    widths = (tokens.ends - tokens.starts)[keep]
    usable = (lengths >= 1) & (lengths <= LONGEST_NAME) & ((lengths > 1) | (widths[starts] > 1))
    hashes = np.zeros(len(names), np.uint64)
    beginnings = []
    for step in range(LONGEST_NAME):
        here = np.flatnonzero(usable & (lengths > step))
        if not len(here):
            break
        hashes[here] = hashes[here] * FACTOR + words[starts[here] + step]
        beginnings.append(hashes[here])
    return hashes, upper_halves(np.concatenate(beginnings) if beginnings else hashes[:0])


def upper_halves(hashes: Hashes) -> NDArray[np.uint32]:
    """Gives the upper halves of hashes, each once: all that a table of marks needs."""
    return np.unique((hashes >> _UPPER_HALF).astype(np.uint32))


class NameFinder:
    """Finds names in the words of many passages.

    Args:
        names: The hashes of all names, rising.
        beginnings: The upper halves of the hashes of all beginnings of names: a run that begins no name is given up at
            once.
    """

    def __init__(self, names: Hashes, beginnings: NDArray[np.uint32]) -> None:
        self._names = names
        self._begins, self._begins_shift = _mark(beginnings)
        self._whole, self._whole_shift = _mark(upper_halves(names))

    def find(self, words: Hashes) -> tuple[Integers, Integers, Integers]:
        """Gives where names begin, how many words each has, and which names they are; names may overlap."""
        found: list[tuple[Integers, Integers, Integers]] = []
        at = np.flatnonzero(self._begins[words >> self._begins_shift])
        runs = words[at]
        for length in range(1, LONGEST_NAME + 1):
            likely = np.flatnonzero(self._whole[runs >> self._whole_shift])
            if len(likely) and len(self._names):
                wanted = runs[likely]
                places = np.searchsorted(self._names, wanted)
                places[places == len(self._names)] = 0
                hit = self._names[places] == wanted
                found.append((at[likely[hit]], np.full(int(hit.sum()), length), places[hit]))
            within = at + length < len(words)
            at = at[within]
            runs = runs[within] * FACTOR + words[at + length]
            more = self._begins[runs >> self._begins_shift]
            at, runs = at[more], runs[more]
            if not len(at):
                break
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        starts, lengths, names = (np.concatenate(column) for column in zip(*found, strict=True))
        return starts, lengths, names


def _mark(halves: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], np.uint64]:
    """Gives a table with a mark for each hash, and by how many bits a hash is shifted to find its place there."""
    size = min(max(20, int(len(halves) * 8).bit_length()), _LARGEST_TABLE)
    marks = np.zeros(1 << size, bool)
    marks[halves >> np.uint32(32 - size)] = True
    return marks, np.uint64(64 - size)


def keep_longest(starts: Integers, lengths: Integers, size: int) -> Integers:
    """Says which of overlapping runs stay: the longest first, of equally long ones the first; in rising order."""
    taken = np.zeros(size, bool)
    kept = []
    for length in range(LONGEST_NAME, 0, -1):
        here = np.flatnonzero(lengths == length)
        # A shorter run that overlaps a longer one has its first or its last word in it.
        here = here[~(taken[starts[here]] | taken[starts[here] + length - 1])]
        if not len(here):
            continue
        here = here[np.argsort(starts[here], kind="stable")]
        begins = starts[here]
        if length > 1 and (np.diff(begins) < length).any():
            free, chosen = -1, []
            for place, begin in enumerate(begins.tolist()):
                if begin >= free:
                    chosen.append(place)
                    free = begin + length
            here = here[chosen]
            begins = begins[chosen]
        for step in range(length):
            taken[begins + step] = True
        kept.append(here)
    if not kept:
        return np.zeros(0, np.int64)
    result = np.concatenate(kept)
    return result[np.argsort(starts[result], kind="stable")]
