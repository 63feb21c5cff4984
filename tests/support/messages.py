"""What a message must hold: the values and the remedy, whatever words stand between them."""

from __future__ import annotations

import re


def mentions(text: str, *parts: object) -> bool:
    """Return whether a text has all of these parts in this order; a part that ends in a letter or digit ends a word."""
    place = 0
    for part in parts:
        found = re.compile(rf"(?<!\w)(?={re.escape(str(part))}(?!\B\w))").search(text, place)
        if found is None:
            return False
        place = found.start() + len(str(part))
    return True
