"""The parts of a dataset that readers of published formats make: questions with gold answers, and passages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.records import name_without_gz
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.types import Passage, Question

__all__ = [
    "BadRecord",
    "DatasetEntry",
    "answer_groups",
    "make_passage",
    "make_question",
    "passage_id",
    "required_text",
    "required_value",
    "select_fields",
    "split_in_name",
    "text_list",
    "unique_texts",
]

_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|test)(?![a-z])", re.IGNORECASE)


class BadRecord(Exception):
    """A record does not follow the format; the message is the reason."""


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """One question with its own passages."""

    question: LabelledQuestion
    passages: tuple[Passage, ...] = ()
    place: str = ""
    """Its file and its line or number, where the reader tells them."""


def passage_id(title: str, body: str) -> str:
    """Gives the id of a passage, made from its words: the same passage has the same id in every import."""
    return "p" + hashlib.sha1(f"{title}\n{body}".encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:14]


def make_passage(title: str, body: str, source: str = "") -> Passage:
    """Gives a passage with single spaces and an id made from its words."""
    title, body = " ".join(title.split()), " ".join(body.split())
    return Passage(passage_id(title, body), title, body, source)


def make_question(
    question_id: str,
    question: str,
    answers: Iterable[str],
    supporting: Iterable[str] | None = None,
    *,
    groups: Sequence[Sequence[str]] = (),
    fake_answer: str | None = None,
    is_set: bool = False,
    labels: Mapping[str, Any] | None = None,
) -> LabelledQuestion:
    """Gives a question with what is right about it.

    Raises:
        BadRecord: The id, the text or the gold answer is missing: there is nothing to ask or to score.
    """
    golds = unique_texts(answer.strip() for answer in answers)
    if not question_id or not question.strip():
        raise BadRecord("has no id" if not question_id else "has no question")
    if not golds:
        raise BadRecord("has no gold answer (test splits are published without)")
    gold = Gold(
        golds,
        None if supporting is None else unique_texts(supporting),
        tuple(tuple(group) for group in groups),
        fake_answer,
        is_set,
        labels or {},
    )
    return LabelledQuestion(Question(question.strip(), question_id), gold)


def unique_texts(values: Iterable[str]) -> tuple[str, ...]:
    """Gives the non-empty texts in their order, each once."""
    return tuple(dict.fromkeys(value for value in values if value))


def required_value(record: Mapping[str, Any], key: str) -> Any:
    """Gives the value of a key that every record of the format has."""
    if key not in record:
        raise BadRecord(f"has no {key!r}")
    return record[key]


def required_text(record: Mapping[str, Any], key: str) -> str:
    """Gives the text of a key that every record of the format has; a number becomes its digits."""
    value = required_value(record, key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRecord(f"has {key!r} that is not text")
    return value


def text_list(value: Any, key: str) -> tuple[str, ...]:
    """Gives the value as a list of texts; a single text is a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BadRecord(f"has {key!r} that is not a list of texts")
    return tuple(value)


def select_fields(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Gives the values of those keys that the record has, as labels."""
    return {key: record[key] for key in keys if record.get(key) is not None}


def split_in_name(path: Path) -> str:
    """Gives the split that a file's name contains, or an empty string."""
    found = _SPLIT.search(name_without_gz(path).replace("_", " "))
    return {"validation": "dev", "valid": "dev"}.get(found[0].lower(), found[0].lower()) if found else ""


def answer_groups(answer: Any) -> tuple[tuple[str, ...], ...]:
    """Gives the parts of an answer with their spellings: a list names parts, a list within it the spellings of one."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    groups = tuple(text_list(part, "answer") for part in parts)
    if not all(groups):
        raise BadRecord("has an 'answer' with an empty part")
    return groups
