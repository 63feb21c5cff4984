"""A user's own questions with answers, from a table or JSON Lines, to be answered from the user's own documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag.bench.datasets.formats import (
    BadRecord,
    PublishedRecord,
    RawRecord,
    make_question,
    name_without_gz,
    question_id,
    read_each,
    read_records,
    read_table,
)
from beliefrag.bench.questions import Card, Dataset, LabelledQuestion
from beliefrag.retrieval import PassageSource
from beliefrag.runs.run_errors import DataError
from beliefrag.types import NO_ANSWER, Passage

_TABLES = {".csv": ",", ".tsv": "\t"}
_EXPECTED = "CSV with commas, TSV or JSON Lines with 'question' and 'answers'"
_FEEDBACK = "feedback"
"""A field that only lines have which the page to ask in wrote."""


@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """A file of the user's questions with answers (CSV, TSV or JSON Lines), and the documents to answer them from."""

    questions: Path
    docs: tuple[Path, ...]

    def load(self) -> Dataset:
        """Read both as a dataset."""
        source = PassageSource(docs=self.docs)
        index = source.open_index()
        dataset = load_user_questions(self.questions, index.first(len(index)))
        return replace(dataset, documents=source.documents)


class _UserRecord(PublishedRecord):
    id: str | None = None
    question: str
    answers: str | tuple[str, ...] | None = None
    answer: str | tuple[str, ...] | None = None


def load_user_questions(questions: Path, passages: Sequence[Passage]) -> Dataset:
    """Load the questions of a file as a dataset on these passages.

    The file is CSV or TSV with the columns `question` and `answers` (or `answer`; several with | between), or JSON
    Lines with the same names, `answers` being a list. Without an answer, declining is right. An `id` is optional:
    without one it is made from the question's words. A file in which the page to ask in keeps feedback is read too: the
    last line of a question counts, and it is left out as long as it has no right answer.
    """
    left_out: list[str] = []
    asked: dict[str, LabelledQuestion] = {}

    def add(record: _UserRecord) -> None:
        question = _make_question(record)
        if question.id in asked:
            raise BadRecord(f"question {question.id} occurs twice")
        asked[question.id] = question

    try:
        for _ in read_each(_read_user_records(questions, left_out), _UserRecord, add):
            pass
    except DataError as error:
        raise DataError(error.message, remedy=f"Give {_EXPECTED}, each question once.") from None
    if not asked:
        raise DataError(
            f"No question of {questions.name} can be used: none has a right answer yet.",
            remedy=f"Give {_EXPECTED}, or answer on the page of 'beliefrag app'.",
        )
    name = Path(name_without_gz(questions)).stem
    card = Card(name=name, questions=len(asked), passages=len(passages), skipped=tuple(left_out))
    return Dataset(name, tuple(asked.values()), tuple(passages), card)


def _read_user_records(path: Path, left_out: list[str]) -> Iterator[RawRecord]:
    delimiter = _TABLES.get(Path(name_without_gz(path)).suffix.lower())
    records = read_table(path, delimiter=delimiter, required_column="question") if delimiter else read_records(path)
    feedback: dict[str, RawRecord] = {}
    for record in records:
        if _FEEDBACK in record.data:
            # Removed and added again: questions have the order of their last lines.
            asked = " ".join(str(record.data.get("question")).split())
            feedback.pop(asked, None)
            feedback[asked] = record
        else:
            yield record
    for record in feedback.values():
        if record.data.get("answers"):
            yield record
        else:
            left_out.append(f"{record.place}: has no right answer yet")


def _make_question(record: _UserRecord) -> LabelledQuestion:
    given = record.answer if record.answers is None else record.answers
    if given is None:
        raise BadRecord("has no 'answer'")
    answers = given.split("|") if isinstance(given, str) else given
    if not any(answer.strip() for answer in answers):
        answers = (NO_ANSWER,)
    identifier = (record.id or "").strip() or question_id("q_", record.question)
    return make_question(identifier, record.question, answers)
