"""Explicit links: those that the author of a text made, as HTML, Markdown and wikis have them, and manual pages too.

Such a link leads to a heading or to a file, and so to the passages there; its words are a name of these passages. It
stands beside the names that texts mention and goes where they go: to the graph, the candidates and the ranker.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.names import hash_names
from beliefrag.retrieval.linked.tokens import PASSAGE_END, Tokens, split_passages
from beliefrag.retrieval.store import PassageRow

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int32]

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|^//")
_MANUAL_PAGE = re.compile(r"(?<![\w.-])([A-Za-z_][\w.@+:-]{0,60})\(([1-8][a-z]{0,4})\)")
_PAGE_SECTION = re.compile(r"\([1-8][a-z]{0,4}\)")
"""Looked for first: parentheses are known, so texts without such references cost next to nothing."""
_PAGE_FILE = re.compile(r"(.+)\.([1-8][a-z]{0,4})")
_PATH = " > "
_MOST_TARGETS = 3
"""Words that lead to more places than these, such as `next`, say nothing about where they lead."""
_MOST_PASSAGES = 8
"""Of a longer section only the passage at the anchor is the target."""


@dataclass(frozen=True, slots=True)
class BlockLinks:
    """What a block of passages has of links; passages are counted from its first one."""

    places: Hashes
    """Rows of a place that links know, its passage, and the section of that passage."""
    sections: Hashes
    """Rows of a section and a passage of it."""
    links: Hashes
    """Rows of a place, the file around it, the hash of the words, the passage, and where the words begin and end."""
    beginnings: NDArray[np.uint32]
    """The upper halves of the hashes of all beginnings of words of links."""


def find_links(rows: Sequence[PassageRow], tokens: Tokens) -> BlockLinks:
    """Finds the anchors and links of some passages, and the manual pages that their texts refer to."""
    places: list[tuple[int, int, int]] = []
    sections: list[tuple[int, int]] = []
    found: list[tuple[int, int, int, str]] = []
    with_pages = _passages_with_pages(rows, tokens)
    for number, row in enumerate(rows):
        if not (row.links or number in with_pages or _PATH in row.title):
            continue
        held = json.loads(row.links) if row.links else {}
        if held or _PATH in row.title:
            section = _hash(f"{row.source}\n{row.title}")
            sections.append((section, number))
            places += [(_hash(name), number, section) for name in _names_of_places(row, held.get("anchors", ()))]
        for target, words in held.get("links", ()):
            names = _resolve(target, row.source)
            if names:
                found.append((_hash(names[0]), _hash(names[1]), number, words))
        if number in with_pages:
            for page in _MANUAL_PAGE.finditer(row.text):
                key = _hash(f"manual page:{page[0]}")
                found.append((key, key, number, page[0]))
    hashes, beginnings = hash_names([words for *_, words in found])
    return BlockLinks(
        np.array(places, np.uint64).reshape(-1, 3),
        np.array(sections, np.uint64).reshape(-1, 2),
        np.array(list(_place_links(found, hashes, tokens)), np.uint64).reshape(-1, 6),
        beginnings,
    )


def _passages_with_pages(rows: Sequence[PassageRow], tokens: Tokens) -> set[int]:
    """Gives the passages that may refer to manual pages, by a look at the parentheses in their titles and texts."""
    sections = [place for place in tokens.parentheses.tolist() if _PAGE_SECTION.match(tokens.text, place)]
    if not sections:
        return set()
    # A title and a text each have a mark at the end.
    ends = list(accumulate(len(row.title) + len(row.text) + 2 for row in rows))
    return {bisect_right(ends, section) for section in sections}


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) | 1


def _names_of_places(row: PassageRow, anchors: Sequence[str]) -> Iterator[str]:
    """Gives what links may call the places of a passage."""
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
    """Gives the names of the place that a link leads to and of the file around it; nothing for a link elsewhere."""
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
    """Gives the links with where their words stand: each behind the one before, else anywhere, else at the title."""
    words = split_passages([("", text) for *_, text in found]) if found else None
    if words is None:
        return
    last, free = -1, 0
    here: list[int] = []
    for at, (place, file, number, _) in enumerate(found):
        if not hashes[at]:
            continue
        own = words.hashes[words.passage_starts[at] : words.passage_starts[at + 1]]
        wanted = own[own > PASSAGE_END].tolist()
        if number != last:
            begin, end = tokens.passage_starts[number : number + 2].tolist()
            here, last, free = tokens.hashes[begin:end].tolist(), number, 0
        start = _find_run(here, wanted, free)
        if start < 0:
            start = _find_run(here, wanted, 0)
        if start >= 0:
            free = start + len(wanted)
            yield place, file, int(hashes[at]), number, start, free


def _find_run(words: Sequence[int], wanted: Sequence[int], first: int) -> int:
    """Gives where a run of words begins; marks between sentences are no words and may stand in it."""
    start = first - 1
    while wanted:
        try:
            start = words.index(wanted[0], start + 1)
        except ValueError:
            return -1
        if list(words[start : start + len(wanted)]) == list(wanted):
            return start
    return -1


@dataclass(frozen=True, slots=True)
class ResolvedLinks:
    """Links whose targets are passages of the corpus."""

    targets: Hashes
    """The place of each target, which serves as a name that only links have, and ..."""
    target_passages: Integers
    """... the passages there: one row for each passage."""
    texts: Hashes
    """Words of links as names, and ..."""
    text_passages: Integers
    """... the passages that they lead to."""
    passage: Integers
    """The passage of each link, rising."""
    start: Integers
    end: Integers
    name: Hashes
    """The place that it leads to."""


class FoundLinks:
    """The links of all passages, as they are found."""

    def __init__(self) -> None:
        self._places: list[Hashes] = [np.zeros((0, 3), np.uint64)]
        self._sections: list[Hashes] = [np.zeros((0, 2), np.uint64)]
        self._links: list[Hashes] = [np.zeros((0, 6), np.uint64)]

    def add(self, block: BlockLinks, first: int) -> None:
        """Adds the links of some passages, the first of which has the number `first`."""
        for held, rows, column in (
            (self._places, block.places, 1),
            (self._sections, block.sections, 1),
            (self._links, block.links, 3),
        ):
            if len(rows):
                # What came from a worker of Ray lies in memory that cannot be written.
                moved = rows.copy()
                moved[:, column] += np.uint64(first)
                held.append(moved)

    def resolve(self) -> ResolvedLinks:
        """Finds the passages that the links lead to. Links that lead to no passage, or to their own, are left out."""
        places, links = np.concatenate(self._places), np.concatenate(self._links)
        places = places[np.argsort(places[:, 0], kind="stable")]
        place = _look_up(places[:, 0], links[:, 0])
        place = np.where(place >= 0, place, _look_up(places[:, 0], links[:, 1]))
        links, place = links[place >= 0], place[place >= 0]
        links[:, 0] = places[place, 0]
        links, place = _leave_out_vague(links, place)
        known, first = np.unique(links[:, 0], return_index=True)
        homes = self._passages_at(known, places, place[first])
        targets = np.repeat(known, [len(each) for each in homes])
        passages = np.concatenate([np.zeros(0, np.int32), *homes])
        leads_home = _holds(links[:, 0], links[:, 3], targets, passages)
        links = links[~leads_home]
        links = links[np.lexsort((links[:, 4], links[:, 3]))]
        texts = np.unique(links[:, (2, 0)], axis=0)
        at = np.searchsorted(known, texts[:, 1])
        text_homes = [homes[each] for each in at.tolist()]
        return ResolvedLinks(
            targets,
            passages,
            np.repeat(texts[:, 0], [len(each) for each in text_homes]),
            np.concatenate([np.zeros(0, np.int32), *text_homes]),
            links[:, 3].astype(np.int32),
            links[:, 4].astype(np.int32),
            links[:, 5].astype(np.int32),
            links[:, 0],
        )

    def _passages_at(self, known: Hashes, places: Hashes, at: NDArray[np.int64]) -> list[Integers]:
        """Gives the passages of each place: those of its section where they are few, else the one at the anchor."""
        sections = np.concatenate(self._sections)
        sections = sections[np.lexsort((sections[:, 1], sections[:, 0]))]
        result: list[Integers] = []
        for _, row in zip(known.tolist(), places[at], strict=True):
            low, high = (int(np.searchsorted(sections[:, 0], row[2], side)) for side in ("left", "right"))
            whole = sections[low:high, 1] if high - low <= _MOST_PASSAGES else row[1:2]
            result.append(whole.astype(np.int32))
        return result


def _leave_out_vague(links: Hashes, place: NDArray[np.int64]) -> tuple[Hashes, NDArray[np.int64]]:
    """Leaves out links whose words lead to many places."""
    pairs = np.unique(links[:, (2, 0)], axis=0)
    words, counts = np.unique(pairs[:, 0], return_counts=True)
    clear = np.isin(links[:, 2], words[counts <= _MOST_TARGETS])
    return links[clear], place[clear]


def _look_up(rising: Hashes, wanted: Hashes) -> NDArray[np.int64]:
    if not len(rising):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(rising, wanted), len(rising) - 1)
    return np.where(rising[at] == wanted, at, -1)


def _holds(names: Hashes, passages: Hashes, targets: Hashes, homes: Integers) -> NDArray[np.bool_]:
    """Says of each link whether the passage that has it is one of those that it leads to."""
    held = set(zip(targets.tolist(), homes.tolist(), strict=True))
    return np.array([pair in held for pair in zip(names.tolist(), passages.tolist(), strict=True)], bool)
