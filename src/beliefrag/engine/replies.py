"""Reads what models reply: mends what is plainly meant, refuses the rest, and counts both (SPEC 6)."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import json_repair

from beliefrag.errors import ReplyError
from beliefrag.prompts import unescape

__all__ = ["REPAIRS", "Repairs", "read_answer", "read_json_object", "read_line"]

Repairs = Counter[str]
"""How often each kind of mending was needed."""

REPAIRS = {
    "repaired": "replies mended",
    "asked_again": "replies asked for a second time",
    "unusable": "replies that could not be used, replaced by a cautious reading",
    "clamped": "scores moved into [0, 1]",
    "unknown_ids": "passage ids ignored because no such passage was shown",
}
"""The kinds, in words."""

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_LABEL = re.compile(r"\A(?:the\s+)?(?:final\s+|search\s+|rewritten\s+|short\s+)?(?:answer|query)\s*:\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", "«": "»"}


def read_json_object(text: str, repairs: Repairs) -> dict[str, Any]:
    """The one JSON object in a reply.

    A code fence or text around the object is passed over, and small damage (a trailing comma, wrong quotes) is mended;
    each of these is counted once. Two objects are not: which one is meant cannot be known. Nor is one that does not
    close: its last number may be cut in half.

    Raises:
        ReplyError: There is no object, or more than one.
    """
    plain = _strip_thinking(text)
    try:
        try:
            value, whole = json.loads(plain), True
        except json.JSONDecodeError:
            value, whole = _find_object(plain), False
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and brackets nested by the thousand are no verdict.
        raise ReplyError("The reply is not a JSON object.") from error
    if not isinstance(value, dict):
        raise ReplyError("The reply is not a JSON object.")
    if not whole:
        repairs["repaired"] += 1
    return value


def read_line(text: str) -> str:
    """The first line with words in it, without label, quotes or fence: how a query is read.

    Raises:
        ReplyError: The reply has no words.
    """
    for line in _strip_fence(text).splitlines():
        cleaned = _strip_quotes(_LABEL.sub("", line.strip()))
        if re.search(r"\w", cleaned):
            return cleaned
    raise ReplyError("The reply holds no query.")


def read_answer(text: str) -> str:
    """The answer on one line, without label, quotes or fence.

    Raises:
        ReplyError: The reply has no words.
    """
    answer = unescape(_strip_quotes(_LABEL.sub("", " ".join(_strip_fence(text).split()))))
    if not re.search(r"\w", answer):
        raise ReplyError("The reply holds no answer.")
    return answer


def _strip_fence(text: str) -> str:
    plain = _strip_thinking(text)
    fenced = _FENCE.match(plain)
    return fenced.group(1) if fenced else plain


def _strip_thinking(text: str) -> str:
    said = _THINKING.sub("", text).strip()
    if said.startswith("<think>"):
        raise ReplyError("The reply is all thinking and no answer.")
    return said


def _find_object(text: str) -> Any:
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            end = position + 1
        else:
            found.append(value)
        position = text.find("{", end)
    if len(found) > 1:
        raise ReplyError("The reply holds more than one JSON object.")
    if found:
        return found[0]
    start, end = text.find("{"), text.rfind("}")
    return json_repair.loads(text[start : end + 1]) if 0 <= start < end else None


def _strip_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[-1] not in text[1:-1]:
        return text[1:-1].strip()
    return text
