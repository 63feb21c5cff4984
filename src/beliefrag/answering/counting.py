"""Questions about a whole collection: what they list is gathered from more passages than one prompt shows.

The forms of such questions are known in English alone. All functions are lexical and pure, and ask no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from beliefrag.answering.packing import EMPTY_WORDS, lower_words
from beliefrag.prompts import unescape
from beliefrag.types import Passage

_COUNTS = re.compile(r"\bhow many\b|\bcount (?:the|all|how)\b|\bnumber of\b", re.IGNORECASE)
_LISTS = re.compile(r"\b(?:list|name|show|give|find|which|what)\b.{0,20}\b(?:all|every|each)\b", re.IGNORECASE)
_COMPARES = re.compile(r"\bcompar(?:e|ison)\b|\bdifferences? between\b", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*\u2022]|\d{1,3}[.)])\s+")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def asks_for_all(question: str) -> bool:
    """Return whether an English question counts, lists or compares, so that what was not read may matter."""
    return any(form.search(question) for form in (_COUNTS, _LISTS, _COMPARES))


def asks_for_list(question: str) -> bool:
    """Return whether an English question asks for all things of a kind."""
    return _LISTS.search(question) is not None


def read_items(reply: str) -> list[str]:
    """Return the items of a reply that has one on each line; none where it says NONE."""
    lines = (unescape(_BULLET.sub("", line)).strip(" .;,") for line in reply.splitlines())
    return [line for line in lines if lower_words(line) not in ([], ["none"])]


def find_new(items: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the items that are not among the known ones in the same words, each once."""
    found = {_key(item): item for item in reversed(list(items))}
    return [found[key] for key in reversed(found) if key not in set(map(_key, known))]


def _key(item: str) -> tuple[str, ...]:
    words = lower_words(item)
    return tuple(sorted(word for word in words if word not in EMPTY_WORDS) or words)


def is_own_count(question: str, answer: str, read: Sequence[Passage]) -> bool:
    """Return whether an answer to "how many" is a number that no passage states: the model has counted by itself."""
    if _COUNTS.search(question) is None:
        return False
    numbers = {spelling for word in lower_words(answer) for spelling in _spell(word)}
    held = {word for passage in read for word in lower_words(f"{passage.title} {passage.text}")}
    return bool(numbers) and not numbers & held


def _spell(word: str) -> tuple[str, ...]:
    if word in _NUMBERS:
        return word, str(_NUMBERS.index(word))
    if word.isdigit():
        return (word, _NUMBERS[int(word)]) if len(word) < 3 and int(word) < len(_NUMBERS) else (word,)
    return ()
