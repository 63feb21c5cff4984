"""Writes the common form: the same content always gives the same bytes, and so the same hash."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.card import FileRecord
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.types import Passage

__all__ = ["CARD", "CORPUS", "OWN_FIELDS", "QUESTIONS", "file_record", "write_records"]

QUESTIONS = "questions.jsonl"
CORPUS = "corpus.jsonl"
CARD = "card.json"

OWN_FIELDS = frozenset({"id", "question", "answers", "supporting", "answer_groups", "fakeanswer", "answer_form"})
"""What the common form itself says about a question; every other field is a label."""


def write_records(questions: Iterable[LabelledQuestion], passages: Iterable[Passage], folder: Path) -> list[FileRecord]:
    """Writes questions and passages into a folder; gives name, size and hash of both files."""
    corpus = ({"id": passage.id, "title": passage.title, "text": passage.text} for passage in passages)
    return [
        _write(folder / f"{QUESTIONS}.gz", (_record(question) for question in questions)),
        _write(folder / f"{CORPUS}.gz", corpus),
    ]


def file_record(path: Path) -> FileRecord:
    """Name, size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(name=path.name, sha256=digest, bytes=path.stat().st_size)


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> FileRecord:
    # No time and no name in the header: a second import gives the same hash.
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        for record in records:
            packed.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    return file_record(path)


def _record(question: LabelledQuestion) -> dict[str, Any]:
    gold = question.gold
    record: dict[str, Any] = {"id": question.id, "question": question.question.text, "answers": gold.answers}
    record["supporting"] = gold.supporting
    if gold.answer_groups:
        record["answer_groups"] = gold.answer_groups
    if gold.fake_answer is not None:
        record["fakeanswer"] = gold.fake_answer
    if gold.is_set:
        record["answer_form"] = "set"
    return record | {key: value for key, value in gold.labels.items() if key not in OWN_FIELDS}
