"""Explicit links: those that the author of a text made, as HTML, Markdown and wikis have them, and manual pages too.

Such a link leads to a heading or to a file, and so to the passages there; its words are a name of these passages. It
stands beside the names that texts mention and goes where they go: to the graph, the candidates and the ranker.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

from beliefrag.retrieval.linked.names import PATH, hash_names
from beliefrag.retrieval.linked.words import PASSAGE_END, Hashes, Integers, Long, Tokens, split_passages
from beliefrag.retrieval.store import PassageRow

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|^//")
_MANUAL_PAGE = re.compile(r"(?<![\w.-])([A-Za-z_][\w.@+:-]{0,60})\(([1-8][a-z]{0,4})\)")
_PAGE_SECTION = re.compile(r"\([1-8][a-z]{0,4}\)")
"""Looked for first: most texts have none, and a search for a parenthesis is fast."""
_PAGE_FILE = re.compile(r"(.+)\.([1-8][a-z]{0,4})")
_MOST_TARGETS = 3
"""Words that lead to more places than these, such as `next`, say nothing about where they lead."""
_MOST_PASSAGES = 8
"""Of a longer section only the passage at the anchor is the target."""


LinkRows = dict[str, Hashes]
"""Rows of a passage and what it has of links, passages counted through a block or a corpus:

places (passage, place that links know, section of the passage), sections (passage, section), and links (passage, place,
file around it, hash of the words, where the words begin and end).
"""


def find_links(rows: Sequence[PassageRow], tokens: Tokens) -> tuple[LinkRows, Hashes]:
    """Find anchors, links and references to manual pages; also return the beginnings of the words of links."""
    places: list[tuple[int, int, int]] = []
    sections: list[tuple[int, int]] = []
    found: list[tuple[int, int, int, str]] = []
    has_pages = _PAGE_SECTION.search(tokens.text)
    for number, row in enumerate(rows):
        held = json.loads(row.links) if row.links else {}
        if held or PATH in row.title:
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
    """Yield what links may call the places of a passage."""
    name = PurePosixPath(row.source).name
    stem = name.rpartition(".")[0] or name
    for anchor in anchors:
        yield f"{row.source}#{anchor}"
        yield f"wiki:{stem.lower()}#{anchor}"
        if not anchor:
            title = row.title.partition(PATH)[0]
            yield f"wiki:{title.lower()}#"
            page = _PAGE_FILE.fullmatch(stem) or _PAGE_FILE.fullmatch(name)
            if page:
                yield f"manual page:{page[1]}({page[2]})"
            if _MANUAL_PAGE.fullmatch(title):
                yield f"manual page:{title}"


def _resolve(target: str, source: str) -> tuple[str, str] | None:
    """Return the names of the place that a link leads to and of the file around it; None for a link elsewhere."""
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
    """Yield the links with where their words stand: each behind the one before, else anywhere in the passage."""
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
        if start < 0:
            start = _find_run(here, wanted, 0)
        if start >= 0:
            free = start + len(wanted)
            yield number, place, file, int(hashes[at]), start, free


def _find_run(words: list[int], wanted: list[int], first: int) -> int:
    """Return where a run of words begins, -1 if it is missing."""
    places = range(first, len(words) - len(wanted) + 1)
    return next((at for at in places if words[at] == wanted[0] and words[at : at + len(wanted)] == wanted), -1)


class ResolvedLinks(NamedTuple):
    """Links whose targets are passages of the corpus."""

    targets: tuple[Hashes, Integers]
    """The place of each target, which serves as a name that only links have, and the passages there."""
    texts: tuple[Hashes, Integers]
    """Words of links as names, and the passages that they lead to."""
    passage: Long
    """The passage of each link, rising."""
    start: Long
    end: Long
    name: Hashes
    """The place that it leads to."""


def resolve_links(rows: LinkRows) -> ResolvedLinks:
    """Find the passages that links lead to.

    Links that lead to no passage, or to their own, are left out, and so are those whose words lead to many places.
    """
    places, sections, links = rows["places"], rows["sections"], rows["links"]
    places = places[np.argsort(places[:, 1], kind="stable")]
    sections = sections[np.lexsort((sections[:, 0], sections[:, 1]))]
    place = _find_first(places[:, 1], links[:, 1])
    place = np.where(place >= 0, place, _find_first(places[:, 1], links[:, 2]))
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
    """Return the passages of a place: those of its section where they are few, else the one at the anchor."""
    low, high = (int(np.searchsorted(sections[:, 1], place[2], side)) for side in ("left", "right"))
    passages = sections[low:high, 0] if high - low <= _MOST_PASSAGES else place[:1]
    return passages.astype(np.int32)


def _repeat(names: Hashes, homes: Sequence[Integers]) -> tuple[Hashes, Integers]:
    """Return one row for each name and each of its passages."""
    return np.repeat(names, [len(each) for each in homes]), np.concatenate([np.zeros(0, np.int32), *homes])


def _find_first(rising: Hashes, wanted: Hashes) -> Long:
    """Return the first place of each hash in a rising array, -1 if it is missing."""
    at = np.searchsorted(rising, wanted)
    return np.where(np.append(rising, np.uint64(0))[at] == wanted, at, -1)
