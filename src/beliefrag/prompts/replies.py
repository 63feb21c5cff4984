"""Reads what models reply: repairs what is clearly meant, refuses the rest, and counts both."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import json_repair

from beliefrag.errors import ReplyError
from beliefrag.prompts import unescape

Repairs = Counter[str]
"""How often each kind of repair was needed."""

REPAIRS = {
    "repaired": "replies repaired",
    "asked_again": "replies asked for a second time",
    "unusable": "replies that could not be used, replaced by a cautious reading",
    "clamped": "scores moved into [0, 1]",
    "unknown_ids": "passage ids ignored because no such passage was shown",
    "repeated_queries": "queries that were searched for already, replaced by others",
}
"""The kinds, in words."""

_FENCE_OPENS = re.compile(r"```[a-zA-Z]*[ \t]*\n")
_OBJECT_BEGINS = re.compile(r"\{(?=\s*[\"}])")
_MOST_BROKEN_OBJECTS = 64
"""How many places that look like an object are tried. Each may be read to the end of the reply, so without
a limit a long reply of nested, broken objects would take its length squared."""
_LONGEST_REPAIR = 8_000
"""In characters. A verdict is a few hundred; the repair is slow on longer texts, and takes their length squared."""
_LABEL = re.compile(r"\A(?:the\s+)?(?:final\s+|search\s+|rewritten\s+|short\s+)?(?:answer|query)\s*:\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", "«": "»"}


def read_json_object(text: str, repairs: Repairs) -> dict[str, Any]:
    """Read the one JSON object in a reply.

    A code fence or text around the object is ignored, and small damage (a trailing comma, wrong quotes) is repaired;
    each of these is counted once. Two objects are refused, and one that does not close: its last number may be cut.
    """
    plain = _strip_thinking(text)
    try:
        try:
            value, whole = json.loads(plain), True
        except json.JSONDecodeError:
            value, whole = _find_object(plain), False
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and brackets nested by the thousand are not a verdict.
        raise ReplyError("The reply is not a JSON object.") from error
    if not isinstance(value, dict):
        raise ReplyError("The reply is not a JSON object.")
    if not whole:
        repairs["repaired"] += 1
    return value


def read_line(text: str) -> str:
    """Read the first line with words in it, without label, quotes or fence: how a query is read."""
    for line in _strip_fence(text).splitlines():
        cleaned = _strip_quotes(_LABEL.sub("", line.strip()))
        if re.search(r"\w", cleaned):
            return cleaned
    raise ReplyError("The reply holds no query.")


def read_answer(text: str) -> str:
    """Read the answer on one line, without label, quotes or fence."""
    answer = unescape(_strip_quotes(_LABEL.sub("", " ".join(_strip_fence(text).split()))))
    if not re.search(r"\w", answer):
        raise ReplyError("The reply holds no answer.")
    return answer


# Replies are untrusted: what reads them takes time in proportion to their length. A pattern with two repeats that can
# match the same text does not; searching for fixed texts does.


def _strip_fence(text: str) -> str:
    plain = _strip_thinking(text)
    opening = _FENCE_OPENS.match(plain)
    if opening is None or not plain.endswith("```") or len(plain) - 3 < opening.end():
        return plain
    return plain[opening.end() : -3].rstrip()


def _strip_thinking(text: str) -> str:
    said = text.lstrip()
    if said.startswith("<think>"):
        end = said.find("</think>")
        said = said[end + len("</think>") :].lstrip() if end >= 0 else said
    if said.startswith("<think>"):
        raise ReplyError("The reply is all thinking and no answer.")
    return said.rstrip()


def _find_object(text: str) -> Any:
    found = _find_whole_objects(text)
    if len(found) > 1:
        raise ReplyError("The reply holds more than one JSON object.")
    if found:
        return found[0]
    start, end = text.find("{"), text.rfind("}")
    return _repair(text[start : end + 1]) if 0 <= start < end else None


def _find_whole_objects(text: str) -> list[dict[str, Any]]:
    """Return the first two objects in a text that are valid JSON."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    broken = 0
    begins = _OBJECT_BEGINS.search(text)
    while begins and len(found) < 2:
        end = begins.end()
        try:
            value, end = decoder.raw_decode(text, begins.start())
            found.append(value)
        except json.JSONDecodeError:
            broken += 1
            if broken > _MOST_BROKEN_OBJECTS:
                raise ReplyError("The reply holds too many broken JSON objects.") from None
        begins = _OBJECT_BEGINS.search(text, end)
    return found


def _repair(text: str) -> Any:
    if len(text) > _LONGEST_REPAIR:
        raise ReplyError("The reply holds a long JSON object that is broken.")
    try:
        return json_repair.loads(text)
    except Exception as error:
        # It raises whatever it trips over (AssertionError, RecursionError, IndexError). That says nothing about us.
        raise ReplyError("The reply holds a JSON object that cannot be repaired.") from error


def _strip_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[-1] not in text[1:-1]:
        return text[1:-1].strip()
    return text
