"""Names: what a passage is about. No model is asked, and no language is assumed beyond words.

A name is a run of words. Its hash is computed from the hashes of its words, so all runs of a text are hashed and looked
up by a few array operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice

import numpy as np

from beliefrag.retrieval.linked.words import FACTOR, PASSAGE_END, Hashes, hash_text, split_passages

LONGEST_NAME = 10
"""Words of the longest name that is looked for in texts."""
PATH = " > "
"""Stands between the headings of a title."""

_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*$")
_COMMA = re.compile(r"(.{3,60}?),\s")
_SUBJECT_END = re.compile(r"[\s(（](?:(?<=[(（])|\s*(?:[(（]|(?:is|was|are|were|refers)\s))")
"""A parenthesis or a verb, with the white space before it. It begins with a set, which is what `re` searches fast."""
_OWN_ACRONYM = re.compile(r"\(\s*\"?([A-Z][A-Z0-9&.-]{1,9})\"?\s*[;,)]")
_ACRONYM = re.compile(r"\(([A-Z][A-Z0-9&-]{1,9})s?\)")
_WORD = re.compile(r"[^\W_]+")
_QUOTES = "\"'“”‘’«»"
_SECTION_NUMBER = re.compile(r"^(?:(?:[A-Z]\.)?\d+(?:\.\d+)*\.?|Chapter \d+\.?|Appendix [A-Z]\.?)\s+(?=\S)")
_NUMBERED = re.compile(r"(?:[A-Z]\.)?\d+(?:\.\d+)+\.?\s+\S")
_TERM = re.compile(
    r"^[ \t]*(?:[-*+] +)?[`*]{0,2}"
    r"(-{1,2}[\w][\w-]*|[A-Za-z_][\w.]*[_.][\w.]+|[A-Za-z]\w+(?==)|(?:/[\w.@+-]+){2,}|[A-Z]{1,5}-?\d[\w-]*\d)"
    r"(?=[\s=,:;\[(<`*]|$)",
    re.MULTILINE,
)
_MOST_TERMS = 12
_FILE_ENDING = re.compile(r"(?<=[^\W\d])\.(?:html?|md|txt|pdf|docx|\d)$")
_SUBJECT_WITHIN = 110
_LONGEST_SUBJECT = 92
_OWN_ACRONYM_WITHIN = 200
_LONG_FORM_WITHIN = 100


class NameKind(IntEnum):
    """How a passage came by a name.

    PLAIN_TITLE is the title without the words in parentheses that tell it from its namesakes, SUBJECT what the first
    sentence defines, SHORT_TITLE the title up to its comma or the first part of a path of headings. TERM is an option,
    a parameter or a field that an entry of a manual explains, HEADING the last heading above the passage, and ENTRY a
    term there. TARGET is a place that explicit links lead to, which no text mentions, and LINK_TEXT their words.
    """

    TITLE = 0
    PLAIN_TITLE = 1
    SUBJECT = 2
    ACRONYM = 3
    SHORT_TITLE = 4
    TERM = 6
    HEADING = 7
    ENTRY = 8
    TARGET = 9
    LINK_TEXT = 10


SURENESS = np.array([0, 1, 2, 3, 4, 5, 0, 1, 0, 0, 1], np.int32)
"""For each kind how sure it is, as the ranker sees it: 0 for a title, 4 for a part of one."""


def names_of(title: str, text: str) -> list[tuple[str, NameKind]]:
    """Return the names of a passage, each with how it came by it; the same name may come twice."""
    names = [(title, NameKind.TITLE), *_names_in_title(title)] if title else []
    subject = _find_subject(title, text)
    if subject:
        names.append((subject, NameKind.SUBJECT))
    if "(" in text:
        own = _OWN_ACRONYM.search(text, 0, _OWN_ACRONYM_WITHIN)
        if own and _spell([word[0] for word in _WORD.findall(title or _possible_subject(text))], own[1]):
            names.append((own[1], NameKind.ACRONYM))
    if "\n" in text or "--" in text or "_" in text or "=" in text:
        names += islice(_find_terms(text), _MOST_TERMS)
    return names


def _names_in_title(title: str) -> list[tuple[str, NameKind]]:
    names: list[tuple[str, NameKind]] = []
    if PATH in title:
        names += _names_in_path(title)
    elif "." in title:
        if _FILE_ENDING.search(title):
            names.append((_FILE_ENDING.sub("", title), NameKind.PLAIN_TITLE))
        elif _NUMBERED.match(title):
            names.append((_SECTION_NUMBER.sub("", title), NameKind.PLAIN_TITLE))
    plain = _PARENTHESES.sub("", title) if title[-1] in ")]） " else title
    if plain and plain != title:
        names.append((plain, NameKind.PLAIN_TITLE))
    short = _COMMA.match(plain) if "," in plain else None
    if short:
        names.append((short[1], NameKind.SHORT_TITLE))
    return names


def _names_in_path(title: str) -> Iterator[tuple[str, NameKind]]:
    """Yield names of a passage below headings: its document and the last heading, which may be an entry of a manual."""
    parts = [_SECTION_NUMBER.sub("", part).strip() for part in title.split(PATH)]
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


def _possible_subject(text: str) -> str:
    """Return the text before the first parenthesis or verb, whether it is a name or not."""
    found = _SUBJECT_END.search(text, 2, _SUBJECT_WITHIN)
    return text[: found.start()] if found and found.start() <= _LONGEST_SUBJECT else ""


def _find_subject(title: str, text: str) -> str:
    """Return the subject that the first sentence defines, if it looks like a name and is not the title itself."""
    subject = _possible_subject(text)
    if not subject or subject == title or "\n" in subject or subject.lstrip(_QUOTES)[:1].islower():
        return ""
    words = subject.split()
    # A name has few words, and the first and the last begin with a capital letter.
    is_name = 2 <= len(words) <= 8 and not words[-1].lstrip(_QUOTES)[:1].islower()
    return subject if is_name and (not title or _share_word(subject, title)) else ""


def _share_word(one: str, other: str) -> bool:
    if other in one or any(word.isalnum() for word in set(one.split()).intersection(other.split())):
        return True
    return not set(_WORD.findall(one.lower())).isdisjoint(_WORD.findall(other.lower()))


def _find_terms(text: str) -> Iterator[tuple[str, NameKind]]:
    """Yield the terms that a text explains, each at the beginning of a line."""
    # The pattern is tried at each line's beginning only; a search would try it at each character.
    line = 0
    while True:
        found = _TERM.match(text, line)
        if found:
            yield found[1], NameKind.TERM
        line = text.find("\n", line) + 1
        if not line:
            return


def find_acronyms(text: str) -> Iterator[tuple[str, str]]:
    """Yield the acronyms that a text explains, each with its long form."""
    for found in _ACRONYM.finditer(text):
        acronym = found[1]
        before = text[max(0, found.start() - _LONG_FORM_WITHIN) : found.start()]
        words = list(_WORD.finditer(before))[-len(acronym) - 3 :]
        initials = [word[0][0] for word in words]
        # The shortest run of words before the parenthesis whose first letters spell the acronym.
        for first in range(len(words) - 1, -1, -1):
            if initials[first].upper() == acronym[0] and _spell(initials[first:], acronym):
                yield acronym, before[words[first].start() :].strip()
                break


def _spell(initials: Sequence[str], acronym: str) -> bool:
    """Return whether the letters of an acronym stand among the first letters of some words, in their order."""
    letters = [letter for letter in acronym.lower() if letter.isalnum()]
    rest = iter([initial.lower() for initial in initials])
    return len(letters) >= 2 and all(letter in rest for letter in letters)


_ARTICLES = np.array([hash_text(word) for word in ("the", "a", "an")], np.uint64)


def hash_names(names: Sequence[str]) -> tuple[Hashes, Hashes]:
    """Return the hash of each name, 0 for what cannot be one, and the hashes of all beginnings, each once.

    An article at the beginning is left out. A name of one character, or of more than `LONGEST_NAME` words, is none.
    """
    tokens = split_passages([("", name) for name in names])
    is_word = tokens.hashes > PASSAGE_END
    before = np.concatenate(([0], np.cumsum(is_word)))
    # A name without words may begin behind the last word.
    words = np.append(tokens.hashes[is_word], np.uint64(0))
    is_long = np.append((tokens.ends - tokens.starts)[is_word] > 1, False)
    starts, ends = before[tokens.passage_starts[:-1]], before[tokens.passage_starts[1:]]
    starts = starts + ((ends - starts > 1) & np.isin(words[starts], _ARTICLES))
    lengths = ends - starts
    here = np.flatnonzero((lengths >= 1) & (lengths <= LONGEST_NAME) & ((lengths > 1) | is_long[starts]))
    hashes = np.zeros(len(names), np.uint64)
    beginnings = []
    for step in range(LONGEST_NAME):
        here = here[lengths[here] > step]
        hashes[here] = hashes[here] * FACTOR + words[starts[here] + step]
        beginnings.append(hashes[here])
    return hashes, np.unique(np.concatenate(beginnings))
