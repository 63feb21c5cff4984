"""A user's own questions with answers, from a table or JSON Lines, to be answered from the user's own documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.dataset_entry import (
    BadRecord,
    DatasetEntry,
    make_question,
    required_text,
    required_value,
    text_list,
)
from beliefrag.bench.datasets.formats import DatasetFormat, reader_of
from beliefrag.bench.datasets.importing import read_published_files
from beliefrag.bench.datasets.records import Problem, Record, name_without_gz, read_records, read_table
from beliefrag.bench.questions import Card, Dataset
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

__all__ = ["load_user_questions"]

_TABLES = {".csv": ",", ".tsv": "\t"}
_ANSWER_SEPARATOR = "|"
_FEEDBACK = "feedback"
"""The name of a value that only lines have which the page to ask in wrote."""


def load_user_questions(questions: Path, passages: Sequence[Passage]) -> Dataset:
    """Loads the questions of a file as a dataset on these passages.

    Args:
        questions: CSV or TSV with the columns `question` and `answers` (or `answer`; several with | between), or JSON
            Lines with the same names, `answers` being a list. An `id` is optional: without one it is made from the
            question's words, so that it stays the same when the file grows. A file in which the page to ask in keeps
            feedback is read too: the last line of a question counts, and it is left out as long as nobody has said
            what the right answer is.
        passages: The passages to search.

    Raises:
        DataError: The file cannot be used; the message names the first bad line.
    """
    left_out: list[str] = []
    form = _user_format(left_out)
    try:
        read = read_published_files(form, [questions])
    except DataError as error:
        if left_out:
            raise DataError(
                f"No question of {questions.name} can be used: nobody has said yet what a right answer is.",
                remedy="Say so on the page of 'beliefrag app', or write it into the file.",
            ) from None
        # A published file can be downloaded again; a user's own file has to be corrected.
        raise DataError(error.message, remedy=f"Give {form.expects}, each question once.") from None
    name = Path(name_without_gz(questions)).stem
    card = Card(
        name=name,
        questions=len(read.questions),
        passages=len(passages),
        splits=read.splits(),
        skipped=tuple(left_out),
    )
    return Dataset(name, read.questions, tuple(passages), card)


def _read_user_records(path: Path, left_out: list[str]) -> Iterator[Record | Problem]:
    delimiter = _TABLES.get(Path(name_without_gz(path)).suffix.lower())
    records = read_table(path, delimiter=delimiter, required_column="question") if delimiter else read_records(path)
    feedback: dict[str, Record] = {}
    for record in records:
        if isinstance(record, Record) and _FEEDBACK in record.data:
            # Taken out and put in again, so that questions stand in the order of their last lines.
            asked = " ".join(str(record.data.get("question")).split())
            feedback.pop(asked, None)
            feedback[asked] = record
        else:
            yield record
    for record in feedback.values():
        if record.data.get("answers"):
            yield record
        else:
            left_out.append(str(Problem(record.place, "nobody has said yet what the right answer is")))


def _read_question(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    asked = required_text(record, "question")
    key = "answers" if "answers" in record else "answer"
    answers = required_value(record, key)
    given = answers.split(_ANSWER_SEPARATOR) if isinstance(answers, str) else text_list(answers, key)
    if not any(answer.strip() for answer in given):
        raise BadRecord("has no answer")
    return DatasetEntry(make_question(str(record.get("id") or "").strip() or _make_id(asked), asked, given))


def _make_id(asked: str) -> str:
    return "q_" + hashlib.sha1(" ".join(asked.split()).encode(), usedforsecurity=False).hexdigest()[:14]


def _user_format(left_out: list[str]) -> DatasetFormat:
    """The format of a user's own questions. Lines that have no answer yet are added to the list."""
    return DatasetFormat(
        name="own questions",
        title="Own questions",
        licence="",
        source="",
        expects="CSV with commas, TSV or JSON Lines with 'question' and 'answers'",
        read=reader_of(_read_question, lambda path: _read_user_records(path, left_out)),
    )
