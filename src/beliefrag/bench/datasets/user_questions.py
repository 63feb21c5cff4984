"""Somebody's own labelled questions: a table or JSON Lines with a question and its answers, on their own documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.bench.card import Card
from beliefrag.bench.datasets.entry import BadRecord, Entry, labelled, needed, strings, text
from beliefrag.bench.datasets.format import Format, per_record
from beliefrag.bench.datasets.importing import read_published
from beliefrag.bench.datasets.records import Problem, Record, plain_name, read_records, read_table
from beliefrag.bench.questions import Dataset
from beliefrag.runs.errors import DataError
from beliefrag.types import Passage

__all__ = ["own_dataset"]

_TABLES = {".csv": ",", ".tsv": "\t"}
_BETWEEN_ANSWERS = "|"


def own_dataset(questions: Path, passages: Sequence[Passage]) -> Dataset:
    """The questions of a file, to be answered from these passages.

    Args:
        questions: CSV or TSV with the columns `question` and `answers` (or `answer`; several with | between), or JSON
            Lines with the same names, `answers` being a list. An `id` is optional: without one it is made from the
            question's words, so that it stays the same when the file grows.
        passages: What there is to search.

    Raises:
        DataError: The file cannot be used; the message names the first bad line.
    """
    try:
        read = read_published(_OWN, [questions])
    except DataError as error:
        # A published file can be downloaded again; one's own can only be mended.
        raise DataError(error.message, remedy=f"Give {_OWN.expects}, each question once.") from None
    name = Path(plain_name(questions)).stem
    card = Card(name=name, questions=len(read.questions), passages=len(passages), splits=read.splits())
    return Dataset(name, read.questions, tuple(passages), card)


def _records(path: Path) -> Iterator[Record | Problem]:
    delimiter = _TABLES.get(Path(plain_name(path)).suffix.lower())
    return read_table(path, delimiter=delimiter, needs="question") if delimiter else read_records(path)


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    asked = text(record, "question")
    key = "answers" if "answers" in record else "answer"
    answers = needed(record, key)
    given = answers.split(_BETWEEN_ANSWERS) if isinstance(answers, str) else strings(answers, key)
    if not any(answer.strip() for answer in given):
        raise BadRecord("has no answer")
    return Entry(labelled(str(record.get("id") or "").strip() or _id(asked), asked, given))


def _id(asked: str) -> str:
    return "q_" + hashlib.sha1(" ".join(asked.split()).encode(), usedforsecurity=False).hexdigest()[:14]


_OWN = Format(
    name="own questions",
    title="Own questions",
    licence="",
    source="",
    expects="CSV with commas, TSV or JSON Lines with 'question' and 'answers'",
    read=per_record(_entry, _records),
)
