"""A dataset format: JSON Lines with the front and the back of a card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.formats import (
    DatasetEntry,
    DatasetFormat,
    make_passage,
    make_question,
    reader_of,
    register_format,
    required_text,
)


def _read_card(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    passage = make_passage("Card", f"{required_text(record, 'front')} {required_text(record, 'back')}")
    question = make_question(
        required_text(record, "number"), required_text(record, "front"), [required_text(record, "back")], [passage.id]
    )
    return DatasetEntry(question, (passage,))


QUIZ_CARDS = register_format(
    DatasetFormat(
        name="quiz_cards",
        title="Quiz cards",
        licence="CC0",
        source="example.org/cards",
        expects="cards.jsonl",
        read=reader_of(_read_card),
    )
)
