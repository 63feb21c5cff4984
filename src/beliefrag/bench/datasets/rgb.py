"""RGB JSON Lines (Chen et al., 2024): web snippets that answer, that do not, and that lie.

`en.json` and `en_refine.json` test noise, `en_int.json` answers in several parts, `en_fact.json` counterfactuals.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.formats import (
    AnswerGroups,
    DatasetEntry,
    DatasetFormat,
    PublishedRecord,
    Texts,
    make_passage,
    make_question,
    name_without_gz,
    reader_of,
    register_format,
)
from beliefrag.types import Passage


class _Snippets(PublishedRecord):
    id: str
    query: str
    answer: AnswerGroups
    fakeanswer: Texts | None = None
    positive: list[str | list[str]]
    negative: list[str | list[str]]
    positive_wrong: tuple[str | list[str], ...] = ()
    source: Any = None


def _read_question(record: _Snippets, path: Path) -> DatasetEntry:
    nested = any(isinstance(item, list) for item in record.positive)
    positive, negative, wrong = map(_make_passages, (record.positive, record.negative, record.positive_wrong))
    labels = {
        "subset": "fact" if wrong else "integration" if nested else "noise",
        "negative_ids": [passage.id for passage in negative],
        **({"positive_wrong_ids": [passage.id for passage in wrong]} if wrong else {}),
        **record.labels("source"),
    }
    question = make_question(
        # The files number their questions from 0 each: the name keeps them apart.
        f"rgb_{name_without_gz(path).partition('.')[0]}_{record.id}",
        record.query,
        [spelling for group in record.answer for spelling in group],
        [passage.id for passage in positive] or None,
        groups=record.answer,
        # Some records list several spellings of the false answer; the first is the one that the passages use.
        fake_answer=record.fakeanswer[0] if record.fakeanswer and record.fakeanswer[0] else None,
        labels=labels,
    )
    return DatasetEntry(question, (*positive, *negative, *wrong))


def _make_passages(items: Iterable[str | list[str]]) -> list[Passage]:
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    return [make_passage("", text) for text in texts if text.strip()]


RGB = register_format(
    DatasetFormat(
        name="rgb",
        title="RGB (Chen et al., 2024)",
        licence="CC BY-NC-SA 4.0 (non-commercial)",
        source="github.com/chen700564/RGB",
        expects="en.json, en_int.json, en_fact.json",
        read=reader_of(_Snippets, _read_question),
    )
)
