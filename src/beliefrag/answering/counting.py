"""Questions about a whole collection: only part of it is read, and an answer must say so.

The forms of such questions are known in English alone. All functions are lexical and pure, and ask no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.answering.packing import lower_words
from beliefrag.types import Passage

_COUNTS = re.compile(r"\bhow many\b|\bcount (?:the|all|how)\b|\bnumber of\b", re.IGNORECASE)
_LISTS = re.compile(
    r"\b(?:list|name|show|give|find|which|what)\b.{0,20}\b(?:all|every|each)\b"
    r"|\bcompar(?:e|ison)\b|\bdifferences? between\b",
    re.IGNORECASE,
)
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def asks_for_all(question: str) -> bool:
    """Return whether an English question counts, lists or compares, so that what was not read may matter."""
    return _COUNTS.search(question) is not None or _LISTS.search(question) is not None


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
