"""NQ-open JSON Lines (Lee et al., 2019): a question and its short answers, without passages.

The oracle files of lost-in-the-middle (Liu et al., 2024) are the same with passages under `ctxs`, the gold one marked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import (
    BadRecord,
    Entry,
    labelled,
    make_passage,
    needed,
    split_in_name,
    strings,
    text,
)
from beliefrag.bench.datasets.format import Format, per_record

__all__ = ["NQ_OPEN"]


_FOREIGN = frozenset({"paragraphs", "context", "supporting", "supporting_facts", "possible_answers"})
"""What NQ-open never has, while other benchmarks have a question and an answer too."""


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    if foreign := _FOREIGN & record.keys():
        raise BadRecord(f"has {min(foreign)!r}, which NQ-open has not")
    asked = text(record, "question")
    key = "answers" if "answers" in record else "answer"
    answers = strings(needed(record, key), key)
    passages, supporting = [], []
    for context in record.get("ctxs") or ():
        if not isinstance(context, dict):
            raise BadRecord("has 'ctxs' that are not objects")
        passages.append(make_passage(text(context, "title"), text(context, "text")))
        if context.get("isgold"):
            supporting.append(passages[-1].id)
    labels = {"split": split_in_name(path), "context_ids": [passage.id for passage in passages]}
    question = labelled(_id(asked), asked, answers, supporting or None, labels=labels)
    return Entry(question, tuple(passages))


def _id(asked: str) -> str:
    # The file has no ids. One made from the words stays the same when the file is cut or put in another order.
    return "nq_" + hashlib.sha1(" ".join(asked.split()).encode(), usedforsecurity=False).hexdigest()[:14]


NQ_OPEN = Format(
    name="nq",
    title="NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019)",
    licence="Apache-2.0 (repository); Wikipedia text CC BY-SA",
    source="github.com/google-research-datasets/natural-questions, nq_open",
    expects="NQ-open.dev.jsonl",
    read=per_record(_entry),
    notes=("NQ-open has no passages of its own: give a corpus with --corpus.",),
)
