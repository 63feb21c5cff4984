"""What a published record comes to: a labelled question and the passages that came with it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.records import plain_name
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.types import Passage, Question

__all__ = [
    "BadRecord",
    "Entry",
    "distinct",
    "kept",
    "labelled",
    "make_passage",
    "needed",
    "passage_id",
    "split_in_name",
    "strings",
    "text",
]

_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|test)(?![a-z])", re.IGNORECASE)


class BadRecord(Exception):
    """A record is not what the format says; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One question with its own passages."""

    question: LabelledQuestion
    passages: tuple[Passage, ...] = ()
    place: str = ""
    """Where it stands in which file, as far as its reader tells."""


def passage_id(title: str, body: str) -> str:
    """The id of a passage, made from its words: the same passage has the same id in every import."""
    return "p" + hashlib.sha1(f"{title}\n{body}".encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:14]


def make_passage(title: str, body: str, source: str = "") -> Passage:
    """A passage with collapsed white space and an id made from its words."""
    title, body = " ".join(title.split()), " ".join(body.split())
    return Passage(passage_id(title, body), title, body, source)


def labelled(
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
    """A labelled question.

    Raises:
        BadRecord: Without an id, a text or a gold answer there is nothing to ask or to score.
    """
    golds = distinct(answer.strip() for answer in answers)
    if not question_id or not question.strip():
        raise BadRecord("has no id" if not question_id else "has no question")
    if not golds:
        raise BadRecord("has no gold answer (test splits are published without)")
    gold = Gold(
        golds,
        None if supporting is None else distinct(supporting),
        tuple(tuple(group) for group in groups),
        fake_answer,
        is_set,
        labels or {},
    )
    return LabelledQuestion(Question(question.strip(), question_id), gold)


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """The non-empty values once each, in their order."""
    return tuple(dict.fromkeys(value for value in values if value))


def needed(record: Mapping[str, Any], key: str) -> Any:
    """The value under a key that the format always has."""
    if key not in record:
        raise BadRecord(f"has no {key!r}")
    return record[key]


def text(record: Mapping[str, Any], key: str) -> str:
    """The text under a key that the format always has; a number is taken as its digits."""
    value = needed(record, key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRecord(f"has {key!r} that is not text")
    return value


def strings(value: Any, key: str) -> tuple[str, ...]:
    """A list of texts; one text alone counts as a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BadRecord(f"has {key!r} that is not a list of texts")
    return tuple(value)


def kept(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Those of the keys that the record has, as labels."""
    return {key: record[key] for key in keys if record.get(key) is not None}


def split_in_name(path: Path) -> str:
    """The split that a file's name tells, or an empty string."""
    found = _SPLIT.search(plain_name(path).replace("_", " "))
    return {"validation": "dev", "valid": "dev"}.get(found[0].lower(), found[0].lower()) if found else ""
