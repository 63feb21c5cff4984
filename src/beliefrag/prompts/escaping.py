"""Escapes untrusted text before it is put into a prompt.

Three things must not happen: a passage ends its own delimiter, a passage imitates another one, or its text becomes a
control token of the model's chat template (such as an end-of-turn mark). They need an angle bracket, a mark with square
brackets such as `[INST]`, or a line of their own: angle brackets are replaced by look-alikes, marks are spaced out, and
each piece of text is folded to a single line. Invisible characters are removed, because they can hide text from the
person who checks a trace while a model still reads it. Ordinary text stays as it is.
"""

from __future__ import annotations

import re

# Tokenizers that normalise (NFKC) turn the wide and small forms into the plain ones.
_ANGLES = str.maketrans({"<": "‹", "＜": "‹", "﹤": "‹", ">": "›", "＞": "›", "﹥": "›"})
_ANGLE = re.compile("[<>＜＞﹤﹥]")
# The marks of chat templates, in brackets plain or wide. The last bracket may be the first one of the next mark.
_MARK = re.compile(
    r"([\[［])(/?[A-Z_]{2,}|[gs]MASK|control_\d+|unused\d+|UNUSED_TOKEN_\d+|\|\w{3,}\|)(?=[\]］])"
    r"|([\[［])(e~)(?=[\[［])|([\]］])(~!?b|![pd]~)(?=[\]\[］［])"
)
# Unicode's Default_Ignorable_Code_Point, the other controls, marks of interlinear notes and of hieroglyphs' layout. Not
# the two joiners (U+200C, U+200D), without which Persian, Hindi and many others are misspelt; see _JOINER.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# A joiner is ordinary within a script that joins, within a picture, and around a word that was copied from a web page.
# Within a word or a mark of ASCII characters, or several in a row, it only hides something.
_JOINER = re.compile(r"(?<=[A-Za-z_\[\]|~/!])[\u200c\u200d](?=[A-Za-z_\[\]|~/!])|[\u200c\u200d]{2,}")
_BLANK = "\u2800"
"""Braille's blank looks like a space."""


def escape(text: str) -> str:
    """Return the text on one line, without angle brackets and invisible characters, safe between our delimiters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if not text.isascii():
        text = _JOINER.sub("", _INVISIBLE.sub("", text)).replace(_BLANK, " ")
    else:
        text = _INVISIBLE.sub("", text)
    if _ANGLE.search(text):
        text = text.translate(_ANGLES)
    return " ".join(_MARK.sub(_space_out, text).split())


def _space_out(mark: re.Match[str]) -> str:
    return " ".join((*filter(None, mark.groups()), ""))


def unescape(text: str) -> str:
    """Return a reply with the brackets of the original passages put back, for people to read."""
    return text.replace("‹", "<").replace("›", ">")
