"""Tables as text: each value with the header of its column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.retrieval.documents import clean_line

_NUMBER = re.compile(r"[-+(]?\s*[$€£]?\s*\d[\d.,:/ %\u00a0-]*\)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SAMPLE = 20


def find_header(rows: Sequence[Sequence[str]], *, is_sheet: bool = False) -> tuple[str, int]:
    """Return the caption above a table's header and the place of the header in the rows, -1 where it has none.

    A header is the first row that is as full as the others and has no number but years. Outside a spreadsheet, a row of
    two names counts only if there are numbers below: it may as well be the first of several pairs.
    """
    filled = [[cell for cell in row if cell] for row in rows[:_SAMPLE]]
    widest = max(map(len, filled), default=0)
    place = next((at for at, cells in enumerate(filled) if 2 * len(cells) > widest), 0)
    caption = clean_line(" ".join(cell for cells in filled[:place] for cell in dict.fromkeys(cells)))
    names = filled[place] if filled else []
    is_header = (
        len(set(names)) == len(names) > 1
        and place + 1 < len(rows)
        and all(_YEAR.fullmatch(cell) or not _NUMBER.fullmatch(cell) for cell in names)
    )
    if is_header and not is_sheet and widest < 3:
        is_header = any(_NUMBER.fullmatch(cell) for cells in filled[place + 1 :] for cell in cells)
    return caption, place if is_header else -1


def write_row(header: Sequence[str], cells: Sequence[str]) -> str:
    """Return a row as `name: value` pairs; without a header, as values."""
    pairs = []
    for place, cell in enumerate(cells):
        if value := " ".join(cell.split()):
            name = (header[place] if place < len(header) else "") or f"column {place + 1}"
            pairs.append(f"{name}: {value}" if header else value)
    return "; ".join(pairs)


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as paragraphs: its caption, then its rows."""
    caption, header = find_header(rows)
    if header < 0:
        lines = [" | ".join(dict.fromkeys(cell for cell in row if cell)) for row in rows]
    else:
        # What stands in a first column without a name is what the row is about.
        names = [rows[header][0] or "row", *rows[header][1:]]
        lines = [caption, *(write_row(names, row).removeprefix("row: ") for row in rows[header + 1 :])]
    return "\n\n".join(clean for line in lines if (clean := line.strip()))
