"""RGB JSON Lines (Chen et al., 2024): web snippets that answer, that do not, and that lie.

`en.json` and `en_refine.json` test noise, `en_int.json` answers in several parts, `en_fact.json` counterfactuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.dataset_entry import (
    BadRecord,
    DatasetEntry,
    answer_groups,
    make_passage,
    make_question,
    required_text,
    required_value,
    select_fields,
    text_list,
    unique_texts,
)
from beliefrag.bench.datasets.formats import DatasetFormat, reader_of, register_format
from beliefrag.bench.datasets.records import name_without_gz
from beliefrag.types import Passage

__all__ = ["RGB"]


def _read_question(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    groups = answer_groups(required_value(record, "answer"))
    nested = any(isinstance(item, list) for item in record.get("positive") or ())
    positive, negative = _snippets(record, "positive"), _snippets(record, "negative")
    wrong = _snippets(record, "positive_wrong") if "positive_wrong" in record else []
    stem = name_without_gz(path).partition(".")[0]
    labels = {
        "subset": "fact" if wrong else "integration" if nested else "noise",
        "negative_ids": [passage.id for passage in negative],
        **({"positive_wrong_ids": [passage.id for passage in wrong]} if wrong else {}),
        **select_fields(record, "source"),
    }
    question = make_question(
        # The files number their questions from 0 each: the name keeps them apart.
        f"rgb_{stem}_{required_text(record, 'id')}",
        required_text(record, "query"),
        unique_texts(spelling for group in groups for spelling in group),
        [passage.id for passage in positive] or None,
        groups=groups,
        fake_answer=_fake(record),
        labels=labels,
    )
    return DatasetEntry(question, (*positive, *negative, *wrong))


def _snippets(record: Mapping[str, Any], key: str) -> list[Passage]:
    found = required_value(record, key)
    if not isinstance(found, list):
        raise BadRecord(f"has {key!r} that is not a list")
    return [make_passage("", snippet) for item in found for snippet in text_list(item, key) if snippet.strip()]


def _fake(record: Mapping[str, Any]) -> str | None:
    # Some records list several spellings of the false answer; the first is the one that the passages use.
    fakes = text_list(record["fakeanswer"], "fakeanswer") if record.get("fakeanswer") else ()
    return fakes[0] if fakes else None


RGB = register_format(
    DatasetFormat(
        name="rgb",
        title="RGB (Chen et al., 2024)",
        licence="CC BY-NC-SA 4.0 (non-commercial)",
        source="github.com/chen700564/RGB",
        expects="en.json, en_int.json, en_fact.json",
        read=reader_of(_read_question),
    )
)
