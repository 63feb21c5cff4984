"""A dataset format: JSON Lines with the front and the back of a card."""

from __future__ import annotations

from pathlib import Path

from beliefrag.bench.datasets.formats import (
    DatasetEntry,
    DatasetFormat,
    PublishedRecord,
    make_passage,
    make_question,
    reader_of,
    register_format,
)


class _Card(PublishedRecord):
    number: str
    front: str
    back: str


def _read_card(card: _Card, path: Path) -> DatasetEntry:
    passage = make_passage("Card", f"{card.front} {card.back}")
    return DatasetEntry(make_question(card.number, card.front, [card.back], [passage.id]), (passage,))


QUIZ_CARDS = register_format(
    DatasetFormat(
        name="quiz_cards",
        title="Quiz cards",
        licence="CC0",
        source="example.org/cards",
        expects="cards.jsonl",
        read=reader_of(_Card, _read_card),
    )
)
