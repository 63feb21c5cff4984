"""Spelling: which words a mistyped word of a question may stand for."""

from __future__ import annotations

import re

QUESTION_WORD = re.compile(r"\b[A-Za-z]{6,30}\b")
"""Words that may be mistyped; shorter ones are like too many others."""
_NAME, _LONG = 7, 8
"""The fewest letters of a name that is corrected, and of a word in which more than one kind of slip is looked for."""
_LETTERS, _VOWELS = "abcdefghijklmnopqrstuvwxyz", "aeiou"


def possible_words(typed: str) -> list[str]:
    """Return the words that an unknown word may be a slip for, the likeliest first; none where it may be right.

    Two neighbouring letters have changed places. In a long word in small letters, one may also be missing or doubled,
    or a vowel may be wrong. What differs from a word in another way is as often a different word, and a name that
    differs from a name by a letter is one. The first letter is right.
    """
    is_name = not typed.islower()
    if is_name and len(typed) < _NAME:
        return []
    cuts = [(typed[:at], typed[at:]) for at in range(1, len(typed))]
    found = [start + rest[1] + rest[0] + rest[2:] for start, rest in cuts[:-1]]
    if len(typed) >= _LONG and not is_name:
        found += [start + rest[1:] for start, rest in cuts if start[-1] == rest[0]]
        found += [start + vowel + rest[1:] for start, rest in cuts if rest[0] in _VOWELS for vowel in _VOWELS]
        found += [start + letter + rest for start, rest in cuts for letter in _LETTERS]
    return [word for word in dict.fromkeys(found) if word != typed]
