"""File names, which may hold any bytes, as text that can be printed and stored."""

from __future__ import annotations

import os
from pathlib import PurePath

__all__ = ["printable"]


def printable(path: str | PurePath) -> str:
    r"""Gives a path as printable text; two different paths never give the same text.

    Bytes that are not UTF-8 and control characters (a newline, a terminal's escape) become `\xNN` or `\uNNNN`. A
    backslash that stands in a name itself is doubled, which is what keeps the result unambiguous.
    """
    text = os.fspath(path)
    if os.sep == "\\":
        text = text.replace("\\", "/")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
