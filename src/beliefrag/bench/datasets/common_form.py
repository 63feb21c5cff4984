"""Loads and writes our own form of every benchmark: `questions.jsonl`, `corpus.jsonl` and `card.json` in a folder.

A question has `id`, `question`, `answers` and `supporting` (null where nobody annotated it); `answer_groups`,
`fakeanswer` and `answer_form` where they apply; every other field is a label. A passage has `id`, `title` and `text`.
Both files may be compressed with gzip. The same content always gives the same bytes, and so the same hash.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from beliefrag.bench.datasets.dataset_entry import (
    BadRecord,
    answer_groups,
    make_question,
    passage_id,
    required_text,
    required_value,
    text_list,
)
from beliefrag.bench.datasets.formats import DATASET_FORMATS, find_format
from beliefrag.bench.datasets.records import Problem, Record, read_json_lines
from beliefrag.bench.questions import Card, CardFile, Dataset, LabelledQuestion
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

__all__ = ["CARD", "describe_file", "is_dataset", "load_dataset", "load_passages", "write_dataset"]

_T = TypeVar("_T")

_QUESTIONS = "questions.jsonl"
_CORPUS = "corpus.jsonl"
CARD = "card.json"
"""The file name of the card."""

_OWN_FIELDS = frozenset({"id", "question", "answers", "supporting", "answer_groups", "fakeanswer", "answer_form"})
"""The fields of a question in the common form; every other field is a label."""


def is_dataset(folder: Path) -> bool:
    """Says whether a folder holds questions in the common form."""
    return any((folder / name).is_file() for name in (_QUESTIONS, f"{_QUESTIONS}.gz"))


def load_dataset(folder: Path) -> Dataset:
    """Loads a benchmark from a folder in the common form.

    Args:
        folder: Holds `questions.jsonl` and `corpus.jsonl`, each with or without `.gz`.

    Raises:
        DataError: A file is missing, broken or not the one that the card describes, or supporting passages are not in
            the corpus.
    """
    questions = _all_or_error(_read_question(record) for record in read_json_lines(_find(folder, _QUESTIONS)))
    passages = load_passages(folder)
    known = {passage.id for passage in passages}
    lacking = [question.id for question in questions if not known.issuperset(question.gold.supporting or ())]
    if lacking:
        raise DataError(
            f"{len(lacking)} questions of {folder.name} need passages that the corpus lacks, such as {lacking[0]!r}.",
            remedy="Give the corpus that belongs to the questions.",
        )
    card = _read_card(folder) or _make_card(folder, questions, passages)
    return Dataset(card.name, questions, passages, card)


def load_passages(path: Path) -> tuple[Passage, ...]:
    """Loads the passages of a folder in the common form, or of a JSON Lines file with `title` and `text`.

    A passage without an id gets one made from its words.
    """
    file = _find(path, _CORPUS) if path.is_dir() else path
    return _all_or_error(_read_passage(record) for record in read_json_lines(file))


def _read_question(record: Record | Problem) -> LabelledQuestion | Problem:
    if isinstance(record, Problem):
        return record
    data = record.data
    try:
        supporting, fake = required_value(data, "supporting"), data.get("fakeanswer")
        return make_question(
            required_text(data, "id"),
            required_text(data, "question"),
            text_list(required_value(data, "answers"), "answers"),
            None if supporting is None else text_list(supporting, "supporting"),
            groups=answer_groups(data["answer_groups"]) if data.get("answer_groups") else (),
            fake_answer=text_list(fake, "fakeanswer")[0] if fake else None,
            # Files made before there was an `answer_form` mark a set by its number of answer rows.
            is_set=data.get("answer_form") == "set" or "n_answer_rows" in data,
            labels={key: value for key, value in data.items() if key not in _OWN_FIELDS},
        )
    except BadRecord as error:
        return Problem(record.place, str(error))


def _read_passage(record: Record | Problem) -> Passage | Problem:
    if isinstance(record, Problem):
        return record
    try:
        title, body = required_text({"title": "", **record.data}, "title"), required_text(record.data, "text")
        own = required_text(record.data, "id") if record.data.get("id") else passage_id(title, body)
    except BadRecord as error:
        return Problem(record.place, str(error))
    return Passage(own, title, body)


def _all_or_error(found: Iterable[_T | Problem]) -> tuple[_T, ...]:
    """Gives all values, or raises the first problem: a dataset in the common form was complete when it was written."""
    values, problems = [], []
    for value in found:
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values.append(value)
    if problems:
        more = f" ({len(problems)} such records)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0]}{more}.", remedy="Import the dataset again, or correct the file.")
    return tuple(values)


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    what = "no folder" if not folder.is_dir() else f"no {name} or {name}.gz in it"
    raise DataError(
        f"{folder} is not a dataset: there is {what}.",
        remedy="Make one with 'beliefrag data import', or name the folder that holds it.",
    )


def _read_card(folder: Path) -> Card | None:
    path = folder / CARD
    if not path.exists():
        return None
    try:
        card = Card.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else error.strerror
        raise DataError(f"{path} cannot be used: {reason}.", remedy="Import the dataset again.") from None
    for name in (_QUESTIONS, _CORPUS):
        actual = describe_file(_find(folder, name))
        if actual not in card.outputs:
            raise DataError(
                f"{folder / actual.name} is not the file that its card describes.",
                remedy="Import the dataset again; or delete card.json if you changed the file on purpose.",
            )
    return card


def _make_card(folder: Path, questions: Iterable[LabelledQuestion], passages: tuple[Passage, ...]) -> Card:
    """Gives a card for a folder that has none: what can be counted, and what the format of this name says."""
    name = folder.resolve().name
    known = find_format(name) if name in DATASET_FORMATS else None
    dataset = Dataset(name, tuple(questions), passages, Card(name=name))
    files = [_find(folder, _QUESTIONS)]
    files += [path for path in (folder / f"{_CORPUS}.gz", folder / _CORPUS) if path.is_file()][:1]
    return Card(
        name=name,
        title=known.title if known else "",
        licence=known.licence if known else "",
        source=known.source if known else "",
        questions=len(dataset.questions),
        passages=len(passages),
        splits=dataset.splits(),
        with_supporting=sum(question.gold.supporting is not None for question in dataset.questions),
        outputs=tuple(describe_file(path) for path in files),
    )


def write_dataset(questions: Iterable[LabelledQuestion], passages: Iterable[Passage], folder: Path) -> list[CardFile]:
    """Writes questions and passages into a folder; returns name, size and hash of both files."""
    corpus = ({"id": passage.id, "title": passage.title, "text": passage.text} for passage in passages)
    return [
        _write_lines(folder / f"{_QUESTIONS}.gz", (_question_record(question) for question in questions)),
        _write_lines(folder / f"{_CORPUS}.gz", corpus),
    ]


def describe_file(path: Path) -> CardFile:
    """Gives the name, size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return CardFile(name=path.name, sha256=digest, bytes=path.stat().st_size)


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> CardFile:
    # No time and no name in the header: a second import gives the same hash.
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        for record in records:
            packed.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    return describe_file(path)


def _question_record(question: LabelledQuestion) -> dict[str, Any]:
    gold = question.gold
    record: dict[str, Any] = {"id": question.id, "question": question.question.text, "answers": gold.answers}
    record["supporting"] = gold.supporting
    if gold.answer_groups:
        record["answer_groups"] = gold.answer_groups
    if gold.fake_answer is not None:
        record["fakeanswer"] = gold.fake_answer
    if gold.is_set:
        record["answer_form"] = "set"
    return record | {key: value for key, value in gold.labels.items() if key not in _OWN_FIELDS}
