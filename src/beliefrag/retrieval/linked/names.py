"""Find the names and explicit links of passages, without a model and in any language.

A name is a run of words; its hash is computed from the hashes of its words. The explicit links of HTML, Markdown, wikis
and manual pages lead to headings or files, and their words become names of the passages there.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

from beliefrag.retrieval.linked.graph import LONGEST_NAME, NameKind
from beliefrag.retrieval.linked.words import (
    FACTOR,
    PASSAGE_END,
    Hashes,
    Integers,
    Long,
    Tokens,
    find_hashes,
    split_passages,
    split_text,
)
from beliefrag.retrieval.store import PassageRow

_PATH = " > "
_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*$")
_COMMA = re.compile(r"(.{3,60}?),\s")
_SUBJECT_END = re.compile(r"[\s(（](?:(?<=[(（])|\s*(?:[(（]|(?:is|was|are|were|refers)\s))")
"""A parenthesis or a verb, and the white space before it. It starts with a set, which `re` searches fast."""
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
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|^//")
_MANUAL_PAGE = re.compile(r"(?<![\w.-])([A-Za-z_][\w.@+:-]{0,60})\(([1-8][a-z]{0,4})\)")
_PAGE_SECTION = re.compile(r"\([1-8][a-z]{0,4}\)")
"""Tried first, since a search for a parenthesis is fast."""
_PAGE_FILE = re.compile(r"(.+)\.([1-8][a-z]{0,4})")
_MOST_TARGETS = 3
"""Words such as `next`, which lead to more places, are ignored."""
_MOST_PASSAGES = 8
"""Of a longer section only the passage at the anchor is the target."""


def names_of(title: str, text: str) -> list[tuple[str, NameKind]]:
    """Return the names of a passage and their kinds; a name may occur twice."""
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
    if _PATH in title:
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
    """Yield the document and the last heading, which may be an entry of a manual."""
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


def _possible_subject(text: str) -> str:
    """Return the text before the first parenthesis or verb."""
    found = _SUBJECT_END.search(text, 2, _SUBJECT_WITHIN)
    return text[: found.start()] if found and found.start() <= _LONGEST_SUBJECT else ""


def _find_subject(title: str, text: str) -> str:
    """Return the subject of the first sentence if it looks like a name and is not the title."""
    subject = _possible_subject(text)
    if not subject or subject == title or "\n" in subject or subject.lstrip(_QUOTES)[:1].islower():
        return ""
    words = subject.split()
    is_name = 2 <= len(words) <= 8 and not words[-1].lstrip(_QUOTES)[:1].islower()
    return subject if is_name and (not title or _share_word(subject, title)) else ""


def _share_word(one: str, other: str) -> bool:
    if other in one or any(word.isalnum() for word in set(one.split()).intersection(other.split())):
        return True
    return not set(_WORD.findall(one.lower())).isdisjoint(_WORD.findall(other.lower()))


def _find_terms(text: str) -> Iterator[tuple[str, NameKind]]:
    """Yield the terms at the beginnings of lines; a search would try the pattern at each character."""
    line = 0
    while True:
        found = _TERM.match(text, line)
        if found:
            yield found[1], NameKind.TERM
        line = text.find("\n", line) + 1
        if not line:
            return


def find_acronyms(text: str) -> Iterator[tuple[str, str]]:
    """Yield acronyms with their long forms: the shortest run of words before it whose initials spell it."""
    for found in _ACRONYM.finditer(text):
        acronym = found[1]
        before = text[max(0, found.start() - _LONG_FORM_WITHIN) : found.start()]
        words = list(_WORD.finditer(before))[-len(acronym) - 3 :]
        initials = [word[0][0] for word in words]
        for first in range(len(words) - 1, -1, -1):
            if initials[first].upper() == acronym[0] and _spell(initials[first:], acronym):
                yield acronym, before[words[first].start() :].strip()
                break


def _spell(initials: Sequence[str], acronym: str) -> bool:
    """Return whether the letters of an acronym are a subsequence of some initials."""
    letters = [letter for letter in acronym.lower() if letter.isalnum()]
    rest = iter([initial.lower() for initial in initials])
    return len(letters) >= 2 and all(letter in rest for letter in letters)


def hash_names(names: Sequence[str]) -> tuple[Hashes, Hashes]:
    """Return the hash of each name without its article, 0 if invalid, and the unique hashes of all beginnings.

    A name of one character, or of more than `LONGEST_NAME` words, is invalid.
    """
    tokens = split_passages([("", name) for name in names])
    is_word = tokens.hashes > PASSAGE_END
    before = np.concatenate(([0], np.cumsum(is_word)))
    # The start of a name without words may be the end of all words.
    words = np.append(tokens.hashes[is_word], np.uint64(0))
    is_long = np.append((tokens.ends - tokens.starts)[is_word] > 1, False)
    starts, ends = before[tokens.passage_starts[:-1]], before[tokens.passage_starts[1:]]
    starts = starts + ((ends - starts > 1) & np.isin(words[starts], split_text("the a an").hashes))
    lengths = ends - starts
    here = np.flatnonzero((lengths >= 1) & (lengths <= LONGEST_NAME) & ((lengths > 1) | is_long[starts]))
    hashes = np.zeros(len(names), np.uint64)
    beginnings = []
    for step in range(LONGEST_NAME):
        here = here[lengths[here] > step]
        hashes[here] = hashes[here] * FACTOR + words[starts[here] + step]
        beginnings.append(hashes[here])
    return hashes, np.unique(np.concatenate(beginnings))


LinkRows = dict[str, Hashes]
"""Rows of places (passage, place, section), sections (passage, section), links (passage, place, file, words, span)."""


def find_links(rows: Sequence[PassageRow], tokens: Tokens) -> tuple[LinkRows, Hashes]:
    """Return anchors, links and references to manual pages, and the beginnings of the links' words."""
    places: list[tuple[int, int, int]] = []
    sections: list[tuple[int, int]] = []
    found: list[tuple[int, int, int, str]] = []
    has_pages = _PAGE_SECTION.search(tokens.text)
    for number, row in enumerate(rows):
        held = json.loads(row.links) if row.links else {}
        if held or _PATH in row.title:
            section = _hash(f"{row.source}\n{row.title}")
            sections.append((number, section))
            places += [(number, _hash(name), section) for name in _names_of_places(row, held.get("anchors", ()))]
        for target, words in held.get("links", ()):
            names = _resolve(target, row.source)
            if names:
                found.append((number, _hash(names[0]), _hash(names[1]), words))
        if has_pages and _PAGE_SECTION.search(row.text):
            for page in _MANUAL_PAGE.finditer(row.text):
                key = _hash(f"manual page:{page[0]}")
                found.append((number, key, key, page[0]))
    hashes, beginnings = hash_names([words for *_, words in found])
    links = list(_place_links(found, hashes, tokens))
    tables = {"places": (places, 3), "sections": (sections, 2), "links": (links, 6)}
    return {name: np.array(held, np.uint64).reshape(-1, width) for name, (held, width) in tables.items()}, beginnings


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) | 1


def _names_of_places(row: PassageRow, anchors: Sequence[str]) -> Iterator[str]:
    """Yield the names by which links may refer to a passage."""
    name = PurePosixPath(row.source).name
    stem = name.rpartition(".")[0] or name
    for anchor in anchors:
        yield f"{row.source}#{anchor}"
        yield f"wiki:{stem.lower()}#{anchor}"
        if not anchor:
            title = row.title.partition(_PATH)[0]
            yield f"wiki:{title.lower()}#"
            page = _PAGE_FILE.fullmatch(stem) or _PAGE_FILE.fullmatch(name)
            if page:
                yield f"manual page:{page[1]}({page[2]})"
            if _MANUAL_PAGE.fullmatch(title):
                yield f"manual page:{title}"


def _resolve(target: str, source: str) -> tuple[str, str] | None:
    """Return the names of a link's target and of the target's file; None for an external link."""
    if target.startswith("wiki:"):
        page, _, heading = target.removeprefix("wiki:").partition("#")
        file = f"wiki:{page.strip().lower().replace('_', ' ')}#"
        return (f"{file}{heading.strip().lower().replace(' ', '-')}" if heading else file), file
    path, _, anchor = target.partition("#")
    path = path.partition("?")[0]
    if _SCHEME.match(path) or path.startswith("/"):
        return None
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(path))) if path else source
    return f"{file}#{unquote(anchor)}", f"{file}#"


def _place_links(
    found: Sequence[tuple[int, int, int, str]], hashes: Hashes, tokens: Tokens
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield the links with the position of their words: after the previous link, or else anywhere in the passage."""
    words = split_passages([("", text) for *_, text in found])
    last, free = -1, 0
    here: list[int] = []
    for at, (number, place, file, _) in enumerate(found):
        if not hashes[at]:
            continue
        own = words.hashes[words.passage_starts[at] : words.passage_starts[at + 1]]
        wanted = own[own > PASSAGE_END].tolist()
        if number != last:
            begin, end = tokens.passage_starts[number : number + 2].tolist()
            here, last, free = tokens.hashes[begin:end].tolist(), number, 0
        start = _find_run(here, wanted, free)
        start = start if start >= 0 else _find_run(here, wanted, 0)
        if start >= 0:
            free = start + len(wanted)
            yield number, place, file, int(hashes[at]), start, free


def _find_run(words: list[int], wanted: list[int], first: int) -> int:
    """Return the index of a run of words, -1 if it is missing."""
    places = range(first, len(words) - len(wanted) + 1)
    return next((at for at in places if words[at] == wanted[0] and words[at : at + len(wanted)] == wanted), -1)


class ResolvedLinks(NamedTuple):
    """Links to passages of the corpus, ordered by the passage that has them."""

    targets: tuple[Hashes, Integers]
    """The places, which serve as names, and their passages."""
    texts: tuple[Hashes, Integers]
    """The words of links as names, and the passages that they lead to."""
    passage: Long
    start: Long
    end: Long
    name: Hashes


def resolve_links(rows: LinkRows) -> ResolvedLinks:
    """Find the passages that links lead to; drop links to nowhere, to themselves, and with ambiguous words."""
    places, sections, links = rows["places"], rows["sections"], rows["links"]
    places = places[np.argsort(places[:, 1], kind="stable")]
    sections = sections[np.lexsort((sections[:, 0], sections[:, 1]))]
    place = find_hashes(places[:, 1], links[:, 1])
    place = np.where(place >= 0, place, find_hashes(places[:, 1], links[:, 2]))
    links, place = links[place >= 0], place[place >= 0]
    links[:, 1] = places[place, 1]
    words, counts = np.unique(np.unique(links[:, (3, 1)], axis=0)[:, 0], return_counts=True)
    clear = np.isin(links[:, 3], words[counts <= _MOST_TARGETS])
    links, place = links[clear], place[clear]
    known, first = np.unique(links[:, 1], return_index=True)
    homes = [_passages_at(row, sections) for row in places[place[first]]]
    targets = _repeat(known, homes)
    held = set(zip(*(column.tolist() for column in targets), strict=True))
    leads_home = [pair in held for pair in zip(links[:, 1].tolist(), links[:, 0].tolist(), strict=True)]
    links = links[~np.array(leads_home, bool)]
    links = links[np.lexsort((links[:, 4], links[:, 0]))]
    texts = np.unique(links[:, (3, 1)], axis=0)
    text_homes = [homes[at] for at in np.searchsorted(known, texts[:, 1]).tolist()]
    passage, start, end = links[:, (0, 4, 5)].astype(np.int64).T
    return ResolvedLinks(targets, _repeat(texts[:, 0], text_homes), passage, start, end, links[:, 1])


def _passages_at(place: Hashes, sections: Hashes) -> Integers:
    """Return the passages of a place's section if they are few, else only the one at the anchor."""
    low, high = (int(np.searchsorted(sections[:, 1], place[2], side)) for side in ("left", "right"))
    passages = sections[low:high, 0] if high - low <= _MOST_PASSAGES else place[:1]
    return passages.astype(np.int32)


def _repeat(names: Hashes, homes: Sequence[Integers]) -> tuple[Hashes, Integers]:
    """Return one row for each name and passage."""
    return np.repeat(names, [len(each) for each in homes]), np.concatenate([np.zeros(0, np.int32), *homes])
