"""RGB JSON Lines (Chen et al., 2024): web snippets that answer, that do not, and that lie.

`en.json` and `en_refine.json` test noise, `en_int.json` answers in several parts, `en_fact.json` counterfactuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import (
    BadRecord,
    Entry,
    distinct,
    kept,
    labelled,
    make_passage,
    needed,
    strings,
    text,
)
from beliefrag.bench.datasets.format import Format, per_record
from beliefrag.bench.datasets.records import plain_name
from beliefrag.types import Passage

__all__ = ["RGB", "answer_groups"]


def answer_groups(answer: Any) -> tuple[tuple[str, ...], ...]:
    """The parts of a published answer with their spellings: a list names parts, a list within it spellings of one."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    groups = tuple(strings(part, "answer") for part in parts)
    if not all(groups):
        raise BadRecord("has an 'answer' with an empty part")
    return groups


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    groups = answer_groups(needed(record, "answer"))
    nested = any(isinstance(item, list) for item in record.get("positive") or ())
    positive, negative = _snippets(record, "positive"), _snippets(record, "negative")
    wrong = _snippets(record, "positive_wrong") if "positive_wrong" in record else []
    stem = plain_name(path).partition(".")[0]
    labels = {
        "subset": "fact" if wrong else "integration" if nested else "noise",
        "negative_ids": [passage.id for passage in negative],
        **({"positive_wrong_ids": [passage.id for passage in wrong]} if wrong else {}),
        **kept(record, "source"),
    }
    question = labelled(
        # The files number their questions from 0 each: the name keeps them apart.
        f"rgb_{stem}_{text(record, 'id')}",
        text(record, "query"),
        distinct(spelling for group in groups for spelling in group),
        [passage.id for passage in positive] or None,
        groups=groups,
        fake_answer=_fake(record),
        labels=labels,
    )
    return Entry(question, (*positive, *negative, *wrong))


def _snippets(record: Mapping[str, Any], key: str) -> list[Passage]:
    found = needed(record, key)
    if not isinstance(found, list):
        raise BadRecord(f"has {key!r} that is not a list")
    return [make_passage("", snippet) for item in found for snippet in strings(item, key) if snippet.strip()]


def _fake(record: Mapping[str, Any]) -> str | None:
    # Some records list several spellings of the false answer; the first is the one that the passages use.
    fakes = strings(record["fakeanswer"], "fakeanswer") if record.get("fakeanswer") else ()
    return fakes[0] if fakes else None


RGB = Format(
    name="rgb",
    title="RGB (Chen et al., 2024)",
    licence="CC BY-NC-SA 4.0 (non-commercial)",
    source="github.com/chen700564/RGB",
    expects="en.json, en_int.json, en_fact.json",
    read=per_record(_entry),
)
