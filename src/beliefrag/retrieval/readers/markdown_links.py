"""Links of Markdown and wiki texts, and the names that links call headings by."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["find_markdown_links", "slug"]

_LINK = re.compile(
    r"(?<!!)\[(?P<words>[^\[\]]{1,200})\]\(\s*<?(?P<target>[^()\s<>]{1,300})>?(?:\s+[\"'(][^)]*)?\s*\)"
    r"|\[\[(?P<page>[^\[\]|]{1,200})(?:\|(?P<shown>[^\[\]]{1,200}))?\]\]"
)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


def find_markdown_links(line: str) -> Iterator[tuple[str, str]]:
    """Gives target and words of the links in a line: `[words](target)`, and `[[page]]` or `[[page|words]]` of wikis.

    The target of a wiki's link begins with `wiki:`. Images are no links.
    """
    for found in _LINK.finditer(line):
        if found["target"]:
            yield found["target"], found["words"].strip()
        else:
            page = found["page"].strip()
            yield f"wiki:{page}", (found["shown"] or page).strip()


def slug(heading: str) -> str:
    """Gives the name that links call a heading by, as most tools make it: `What is new?` becomes `what-is-new`."""
    return _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
