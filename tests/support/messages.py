"""What a message must hold: the values and the remedy, whatever words stand between them."""

from __future__ import annotations

import re


def mentions(text: str, *parts: object) -> bool:
    """Says whether a text has all of these parts, each as whole words, in this order."""
    place = 0
    for part in parts:
        found = re.compile(rf"(?<!\w){re.escape(str(part))}(?!\w)").search(text, place)
        if found is None:
            return False
        place = found.end()
    return True
