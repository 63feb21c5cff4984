"""Who may read which documents: the passages of an index that some groups may read.

Each set of groups gets an index of its own with what it may read and nothing else. A filter over a shared index would
leak: how rare a word is, and which names lead where, depends on all passages, and with it scores and order.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import printable_path
from beliefrag.settings import PathRule
from beliefrag.types import Passage

_GIVEN_BY_INDEX = re.compile(r"~[0-9a-f]{8}\Z")


def select_readable(index: Bm25Index, rules: Sequence[PathRule], groups: frozenset[str]) -> list[Passage]:
    """Return the passages of an index that some groups may read, with no trace of others.

    The first rule whose pattern describes a file decides. A file that no rule describes cannot be read.
    """
    may_read = _reader_of(rules, groups)
    seen = (
        _limit_sources(passage, [source for source in sources if may_read(source)])
        for page in index.read_passages()
        for passage, sources in page
    )
    passages = [passage for passage in seen if passage is not None]
    # The index gives a second id to a passage whose own id another document has, which may be hidden here.
    own = [_GIVEN_BY_INDEX.sub("", passage.id) for passage in passages]
    taken = Counter([*own, *(passage.id for passage in passages)])
    return [
        replace(passage, id=name) if name != passage.id and taken[name] == 1 else passage
        for passage, name in zip(passages, own, strict=True)
    ]


def _limit_sources(passage: Passage, sources: Sequence[str]) -> Passage | None:
    """Return a passage with the first source that may be read; place and metadata are those of its first source."""
    if not sources:
        return None
    if passage.source == sources[0]:
        return passage
    return replace(passage, source=sources[0], place="", metadata=())


def _reader_of(rules: Sequence[PathRule], groups: frozenset[str]) -> Callable[[str], bool]:
    compiled = [(_compile(rule.pattern), not groups.isdisjoint(rule.groups)) for rule in rules]

    def may_read(source: str) -> bool:
        return next((allowed for pattern, allowed in compiled if pattern.fullmatch(source)), False)

    return may_read


def _compile(pattern: str) -> re.Pattern[str]:
    """Return what a pattern describes: files, or folders with all that is in them.

    It is a path, from the current folder on; `*` matches any characters of a name, `**` for folders, too.
    """
    folder, slash, rest = pattern.partition("*")
    folder, _, name = folder.rpartition("/") if slash else (pattern, "", "")
    is_root = slash and not folder and pattern.startswith("/")
    start = "" if is_root else printable_path(os.path.realpath(folder or ".")).rstrip("/")
    parts = re.split(r"(\*+)", f"{start}/{name}{slash}{rest}" if slash else start)
    translated = (("[^/]*" if part == "*" else ".*") if part[:1] == "*" else re.escape(part) for part in parts)
    return re.compile(f"{''.join(translated)}(?:/.*)?", re.DOTALL)
