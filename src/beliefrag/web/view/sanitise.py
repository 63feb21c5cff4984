"""Makes text from files safe for a database and a page: halves of surrogate pairs, which neither can take, go."""

from __future__ import annotations

from typing import Any

from beliefrag.runs.episode_format import decode_line

__all__ = ["read_json_line", "replace_lone_surrogates"]


def read_json_line(line: bytes) -> Any:
    """Return what a line of JSON holds, with a replacement character for each half of a surrogate pair.

    Raises:
        ValueError, RecursionError: It is no JSON, or has a number that is none.
    """
    value = decode_line(line)
    # Only an escape can bring a half in, and hardly any line has one.
    return replace_lone_surrogates(value) if b"\\ud" in line.lower() else value


def replace_lone_surrogates(value: Any) -> Any:
    """Return plain data with a replacement character for each half of a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_lone_surrogates(item) for item in value]
    return value
