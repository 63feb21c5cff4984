"""Turns untrusted text into prompt material that cannot pass for anything else (SPEC 6).

Three things must not happen: a passage ends its own delimiter, a passage imitates another one, or its text becomes a
control token of the model's chat template (such as an end-of-turn mark). They need an angle bracket, a word in capitals
between square brackets, or a line of their own: angle brackets are replaced by look-alikes, marks like [INST] are
spaced out, and each piece of text is folded to a single line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.types import Passage

__all__ = ["escape", "evidence_block", "unescape"]

# Control characters, directional overrides and invisible tag characters can hide text from the person who checks a
# trace while a model still reads it.
_MARK = re.compile(r"\[(/?[A-Z_]{2,})\]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u034f\u115f\u1160\u180e\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)


def escape(text: str) -> str:
    """The text on one line, without angle brackets and invisible characters, safe between our delimiters."""
    text = _INVISIBLE.sub("", text.encode("utf-8", "replace").decode("utf-8"))
    # Two replacements, not one translation: that looks up every character of a text that is not all ASCII.
    return " ".join(_MARK.sub(r"[ \1 ]", text.replace("<", "‹").replace(">", "›")).split())


def unescape(text: str) -> str:
    """A reply with the brackets of the original passages put back, for people to read."""
    return text.replace("‹", "<").replace("›", ">")


def evidence_block(passages: Sequence[Passage]) -> str:
    """The passages, numbered from 1 in their order, each on one delimited line.

    Numbers stand for ids: they are short, a small model copies them without slips, and an id that came from a file
    name never reaches a prompt.
    """
    if not passages:
        return "(no passages)"
    return "\n".join(_line(number, passage) for number, passage in enumerate(passages, start=1))


def _line(number: int, passage: Passage) -> str:
    title = escape(passage.title).replace('"', "'")
    heading = f' title="{title}"' if title else ""
    return f'<passage id="{number}"{heading}>{escape(passage.text)}</passage>'
