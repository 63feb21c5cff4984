"""Names: what a passage is about, and where a text mentions a name.

A name is a run of words. Its hash is computed from the hashes of its words, so that all runs of a text are hashed and
looked up by a few array operations. No model is asked, and no language is assumed beyond words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter
from beliefrag.retrieval.linked.tokens import FACTOR, PASSAGE_END, Tokens, hash_text, split_passages

LONGEST_NAME = 10
"""Words of the longest name that is looked for in texts."""

_UPPER_HALF = np.uint64(32)
_LARGEST_TABLE = 26
"""Bits of a place in the largest table of marks: 64 MB."""

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]
Counts = NDArray[np.int32]

_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*$")
_COMMA = re.compile(r"(.{3,60}?),\s")
_SUBJECT_END = re.compile(r"[\s(（](?:(?<=[(（])|\s*(?:[(（]|(?:is|was|are|were|refers)\s))")
"""A parenthesis or a verb, with the white space before it. It begins with a set, which is what `re` searches fast."""
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
_TERM_SIGNS = ("\n", "--", "_", "=")
"""A text without any of these explains no terms. `Tokens.signs` are the places of all of them."""
_LONGEST_SUBJECT = 92
_OWN_ACRONYM_WITHIN = 200
"""The acronym of what a passage is about stands among so many first characters of its text."""
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
        if has_further_names(title):
            yield from further_names(title)
    subject = text[: subject_end(title, text)]
    if subject:
        yield subject, NameKind.SUBJECT
    acronym = own_acronym(title or subject, text)
    if acronym:
        yield acronym, NameKind.ACRONYM
    if may_have_terms(text):
        yield from terms_in(text)


def has_further_names(title: str) -> bool:
    """Says whether a title may hold more names than itself: quick, and true too often."""
    return title[-1] in ")]） " or "," in title or "." in title or _PATH in title


def further_names(title: str) -> Iterator[tuple[str, NameKind]]:
    """Gives the names that a title holds besides itself."""
    if _PATH in title:
        yield from _names_in_path(title)
    elif "." in title:
        if _FILE_ENDING.search(title):
            yield _FILE_ENDING.sub("", title), NameKind.PLAIN_TITLE
        elif _NUMBERED.match(title):
            yield _SECTION_NUMBER.sub("", title), NameKind.PLAIN_TITLE
    plain = _PARENTHESES.sub("", title) if title[-1] in ")]） " else title
    if plain and plain != title:
        yield plain, NameKind.PLAIN_TITLE
    short = _COMMA.match(plain) if "," in plain else None
    if short:
        yield short[1], NameKind.SHORT_TITLE


def subject_end(title: str, text: str) -> int:
    """Gives where the subject that the first sentence defines ends, at the beginning of a text.

    It is 0 when there is none, or when it is the title and so no further name.
    """
    found = _SUBJECT_END.search(text, 2, 110)
    if not found:
        return 0
    end = found.start()
    if end > _LONGEST_SUBJECT:
        return 0
    subject = text[:end]
    if subject == title:
        return 0
    if "\n" in subject or not _is_name(subject) or (title and not _share_word(subject, title)):
        return 0
    return end


def own_acronym(title: str, text: str) -> str:
    """Gives the acronym of what a passage is about, empty when it says none.

    Args:
        title: Its title, or where it has none what its first sentence defines, if that is known.
        text: Its text.
    """
    found = _ACRONYM.search(text, 0, _OWN_ACRONYM_WITHIN)
    return found[1] if found and _stands_for(found[1], title or _possible_subject(text)) else ""


def own_acronym_at(text: str, place: int) -> bool:
    """Says whether what stands in a parenthesis at a place of a text is a reason to ask for its own acronym."""
    return place < _OWN_ACRONYM_WITHIN and bool(_ACRONYM.match(text, place, _OWN_ACRONYM_WITHIN))


def may_have_terms(text: str) -> bool:
    """Says whether a text may be an entry of a manual: it has lines, or a sign that options are written with."""
    return any(sign in text for sign in _TERM_SIGNS)


def terms_in(text: str) -> Iterator[tuple[str, NameKind]]:
    """Gives the terms that a text explains, each at the beginning of a line."""
    return islice(_terms_in(text), _MOST_TERMS)


def _terms_in(text: str) -> Iterator[tuple[str, NameKind]]:
    # The pattern is tried at each line's beginning only; a search would try it at each character.
    line = 0
    while True:
        found = _TERM.match(text, line)
        if found:
            yield found[1], NameKind.TERM
        line = text.find("\n", line) + 1
        if not line:
            return


def _possible_subject(text: str) -> str:
    """Gives what stands before the first parenthesis or verb, even where it is no name."""
    found = _SUBJECT_END.search(text, 2, 110)
    return text[: found.start()] if found and found.start() <= _LONGEST_SUBJECT else ""


def acronym_at(text: str, place: int) -> str:
    """Gives what stands in the parenthesis at a place of a text, if it may be an acronym, else nothing."""
    found = _DEFINED.match(text, place)
    return found[1] if found else ""


def long_form_before(text: str, place: int, letters: str) -> str:
    """Gives the long form of an acronym whose parenthesis stands at a place of a text; empty when there is none."""
    before = text[max(0, place - 100) : place]
    words = list(_WORD.finditer(before))[-len(letters) - 3 :]
    initials = [word[0][0] for word in words]
    # The shortest run of words before the parenthesis whose first letters spell the acronym.
    for number in range(len(words) - 1, -1, -1):
        if initials[number].upper() == letters[0] and _spell(initials[number:], letters):
            return before[words[number].start() :].strip()
    return ""


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
    if text.lstrip(_QUOTES)[:1].islower():
        return False
    words = text.split()
    return 2 <= len(words) <= 8 and not words[-1].lstrip(_QUOTES)[:1].islower()


def _share_word(one: str, other: str) -> bool:
    if other in one:
        return True
    if any(word.isalnum() for word in set(one.split()).intersection(other.split())):
        return True
    return not set(_WORD.findall(one.lower())).isdisjoint(_WORD.findall(other.lower()))


def _stands_for(acronym: str, long_form: str) -> bool:
    return _spell([word[0] for word in _WORD.findall(long_form)], acronym)


def _spell(initials: Sequence[str], acronym: str) -> bool:
    """Says whether the letters of an acronym stand among the first letters of some words, in their order."""
    letters = [letter for letter in acronym.lower() if letter.isalnum()]
    rest = iter([initial.lower() for initial in initials])
    return len(letters) >= 2 and all(letter in rest for letter in letters)


_ARTICLES = np.array([hash_text(word) for word in ("the", "a", "an")], np.uint64)


def hash_names(names: Sequence[str]) -> tuple[Hashes, NDArray[np.uint32]]:
    """Gives the hash of each name, 0 for what cannot be a name, and the upper halves of those of all beginnings.

    An article at the beginning is left out. A name of one character, or of more than `LONGEST_NAME` words, is none.
    """
    if not names:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    tokens = split_passages([("", name) for name in names])
    return NameHasher(tokens).hash_runs(tokens.passage_starts[:-1], tokens.passage_starts[1:])


class NameHasher:
    """Hashes names that stand in the words of some passages, so that their texts are not cut into words again."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def hash_spans(self, begin: Counts, end: Counts) -> tuple[Hashes, NDArray[np.uint32]]:
        """Gives the same as `hash_names` for names from one place in the text to another; no word lies across these."""
        starts = self._tokens.starts
        return self.hash_runs(np.searchsorted(starts, begin), np.searchsorted(starts, end))

    def hash_runs(self, begin: NDArray[Any], end: NDArray[Any]) -> tuple[Hashes, NDArray[np.uint32]]:
        """Gives the same for names from one token to before another."""
        tokens = self._tokens
        counts = end - begin
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - counts), counts)
        words = tokens.hashes[places]
        # Marks between sentences are left out.
        is_word = words > PASSAGE_END
        before = np.zeros(len(places) + 1, np.int64)
        np.cumsum(is_word, out=before[1:])
        words, places = words[is_word], places[is_word]
        hashes = np.zeros(len(begin), np.uint64)
        if not len(words):
            return hashes, np.zeros(0, np.uint32)
        starts, ends = before[ends - counts], before[ends]
        first = words[np.minimum(starts, len(words) - 1)]
        is_article = (first == _ARTICLES[0]) | (first == _ARTICLES[1]) | (first == _ARTICLES[2])
        starts = starts + ((ends - starts > 1) & is_article)
        lengths = ends - starts
        at = places[np.minimum(starts, len(words) - 1)]
        is_long = tokens.ends[at] - tokens.starts[at] > 1
        here = np.flatnonzero((lengths >= 1) & (lengths <= LONGEST_NAME) & ((lengths > 1) | is_long))
        beginnings = []
        for step in range(LONGEST_NAME):
            here = here[lengths[here] > step]
            if not len(here):
                break
            hashes[here] = hashes[here] * FACTOR + words[starts[here] + step]
            beginnings.append(hashes[here])
        return hashes, upper_halves(np.concatenate(beginnings) if beginnings else hashes[:0])


def upper_halves(hashes: Hashes) -> NDArray[np.uint32]:
    """Gives the upper halves of hashes, each once: all that a table of marks needs."""
    halves = np.sort((hashes >> _UPPER_HALF).astype(np.uint32))
    is_first = np.ones(len(halves), bool)
    np.not_equal(halves[1:], halves[:-1], out=is_first[1:])
    return halves[is_first]


class NameTable:
    """A table that says of most runs of words at once that they are no name and begin none.

    Args:
        expected: About how many marks there will be.
        arrays: Gives memory for the table, which may lie in a file.
    """

    BEGINS, NAMED, SHARED, TERM = 1, 2, 4, 8
    """What a run can be: the beginning of a name; a name that a passage has, or that passages only share; a term."""

    def __init__(self, expected: int, arrays: ArrayWriter) -> None:
        self._bits = min(max(20, int(expected * 8).bit_length()), _LARGEST_TABLE)
        self._marks: NDArray[np.uint8] = arrays.make_table(1 << self._bits, np.uint8)
        self._shift = np.uint64(64 - self._bits)

    def mark(self, hashes: Hashes, what: int) -> None:
        """Marks the hashes of runs."""
        self._mark_places(hashes >> self._shift, what)

    def mark_halves(self, halves: NDArray[np.uint32], what: int) -> None:
        """Marks runs by the upper halves of their hashes."""
        self._mark_places(halves >> np.uint32(32 - self._bits), what)

    def _mark_places(self, places: NDArray[Any], what: int) -> None:
        self._marks[places] |= np.uint8(what)

    def look_up(self, hashes: Hashes) -> NDArray[np.uint8]:
        """Gives the marks of runs; some have marks of others."""
        return self._marks.take((hashes >> self._shift).view(np.int64), mode="clip")


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of words that may be names: where they begin, how many words they have, their hashes and their marks."""

    starts: Integers
    lengths: Integers
    hashes: Hashes
    marks: NDArray[np.uint8]


def find_runs(words: NDArray[np.int32], word_hashes: Hashes, word_marks: NDArray[np.uint8], table: NameTable) -> Runs:
    """Finds the runs of words that are marked as names of any kind; they may overlap.

    Args:
        words: The numbers of the words of many passages.
        word_hashes: The hash of each word, by number.
        word_marks: The marks of each word as a run of one word, by number: most words begin no name.
        table: The marks of runs.
    """
    found: list[tuple[Integers, Integers, Hashes, NDArray[np.uint8]]] = []
    whole = np.uint8(NameTable.NAMED | NameTable.SHARED)
    marks = word_marks.take(words, mode="clip")
    # Whatever is a name of the texts begins one, too.
    at = np.flatnonzero((marks & NameTable.BEGINS) != 0)
    marks, runs = marks.take(at), word_hashes.take(words.take(at), mode="clip")
    for length in range(1, LONGEST_NAME + 1):
        likely = np.flatnonzero((marks & whole) != 0)
        if len(likely):
            found.append((at[likely], np.full(len(likely), length), runs[likely], marks[likely]))
        if length == LONGEST_NAME:
            break
        # Places rise, so those that are too close to the end are the last ones.
        within = int(np.searchsorted(at, len(words) - length))
        at, runs = at[:within], runs[:within] * FACTOR
        runs += word_hashes.take(words.take(at + length), mode="clip")
        marks = table.look_up(runs)
        more = np.flatnonzero((marks & NameTable.BEGINS) != 0)
        if not len(more):
            break
        at, runs, marks = at[more], runs[more], marks[more]
    if not found:
        nothing = np.zeros(0, np.int64)
        return Runs(nothing, nothing, np.zeros(0, np.uint64), np.zeros(0, np.uint8))
    starts, lengths, hashes, run_marks = (np.concatenate(column) for column in zip(*found, strict=True))
    return Runs(starts, lengths, hashes, run_marks)


def look_up_names(names: Hashes, wanted: Hashes) -> Integers:
    """Gives the places of hashes among those of names, which rise; -1 for a hash that is none of them."""
    if not len(names):
        return np.full(len(wanted), -1, np.int64)
    # A search for rising hashes is several times faster, as each begins where the last one ended.
    order = np.argsort(wanted)
    places = np.empty(len(wanted), np.int64)
    places[order] = np.searchsorted(names, wanted[order])
    places[places == len(names)] = 0
    places[names[places] != wanted] = -1
    return places


def _leave_out_overlapping(runs: Integers, begins: Integers, length: int) -> tuple[Integers, Integers]:
    """Of runs of one length, by where they begin, keeps the first of those that overlap."""
    close = np.flatnonzero(np.diff(begins) < length)
    if not len(close):
        return runs, begins
    keep = np.ones(len(begins), bool)
    last = -1
    for place in close.tolist():
        if keep[place]:
            last = place
        # The run before may be left out itself, and then the one before that decides.
        keep[place + 1] = begins[place + 1] >= begins[last] + length
    return runs[keep], begins[keep]


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
        if length > 1:
            here, begins = _leave_out_overlapping(here, begins, length)
        for step in range(length):
            taken[begins + step] = True
        kept.append(here)
    if not kept:
        return np.zeros(0, np.int64)
    result = np.concatenate(kept)
    return result[np.argsort(starts[result], kind="stable")]
