"""How answers are made comparable: the normalisation of the SQuAD v1.1 evaluation (Rajpurkar et al., 2016).

Lower case, no ASCII punctuation, no articles, single spaces, in that order. The order is theirs and it matters:
"A.N. Other" becomes "an other" and then "other".
"""

from __future__ import annotations

import re
import string

__all__ = ["normalise", "tokens"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """The text as the SQuAD evaluation compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def tokens(text: str) -> list[str]:
    """The words of the normalised text, repeated ones as often as they occur."""
    return normalise(text).split()
