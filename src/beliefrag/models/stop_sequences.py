"""Ends a reply at its first stop text, for providers whose server does not, or does so only in part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

__all__ = ["before_stop", "spelling"]


def before_stop(text: str, stop: Iterable[str]) -> str:
    """The text up to the first stop text in it, or all of it.

    What a server that honours `stop` gives comes out as it went in, so every reply may go through here: one that
    ignores it, or leaves the stop text standing, then reads the same as one that obeys.
    """
    return text[: min((at for each in stop if (at := text.find(each)) >= 0), default=len(text))]


def spelling(pieces: Sequence[str] | Sequence[bytes], length: int) -> int:
    """How many of the pieces it takes to spell so much of a text.

    Servers report probabilities for the tokens of the stop text too, and a token can reach across its beginning: that
    one is counted.
    """
    starts = accumulate((len(piece) for piece in pieces[:-1]), initial=0)
    return sum(start < length for start in starts) if pieces else 0
