"""Makes text that others wrote harmless to a terminal.

Passages, titles, file names and model replies may hold escape sequences that recolour the screen, set its title, hide a
link behind other words or turn the reading direction around. Here every such character becomes a visible mark. Markup
is no concern of this module: text reaches rich as `Text` or through a console without markup, so it is never parsed.
"""

from __future__ import annotations

import re

__all__ = ["shown", "shown_lines"]

# Joiners have no power over a terminal, and Persian, Hindi and emoji are not spelt without them.
_JOINERS = "\u200c\u200d"
_MARK = "\N{REPLACEMENT CHARACTER}"
_NOT_ASCII_TEXT = re.compile(r"[^ -~]")


def shown(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    return " ".join(_marked(text).split())


def shown_lines(text: str) -> str:
    """The same, keeping its lines and their indentation."""
    return "\n".join(_marked(line.expandtabs(4)).rstrip() for line in text.splitlines())


def _marked(text: str) -> str:
    return _NOT_ASCII_TEXT.sub(lambda match: _harmless(match[0]), text)


def _harmless(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _MARK
