"""Reads lines of JSON whose text may hold halves of surrogate pairs, which neither a database nor a page can take."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["mended", "read_line"]


def read_line(line: bytes) -> Any:
    """What a line holds, with a replacement character in the place of each half of a pair.

    Raises:
        ValueError: It is no JSON.
    """
    value = json.loads(line)
    # Only an escape can bring a half in, and hardly any line has one.
    return mended(value) if b"\\ud" in line.lower() else value


def mended(value: Any) -> Any:
    """Plain data without halves of pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mended(item) for item in value]
    return value
