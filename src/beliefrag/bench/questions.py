"""Questions with their gold answers, kept in two values so that only one of them can be handed on.

A controller is given `LabelledQuestion.question`, which is a plain `Question`: an id and a text, with no way back to
what it was taken from. Gold answers, supporting passages and labels live in `Gold`, which no type of the loop, the
model calls or the prompts mentions.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage, Question

TRAIN = "train"
"""The split that things are fitted on: no fitted method is compared on it."""


@dataclass(frozen=True, slots=True)
class Gold:
    """What is right about a question. For evaluation only."""

    answers: tuple[str, ...]
    """Accepted answers, any of which is right; for a set-valued question, the rows that all belong to the answer."""
    supporting: tuple[str, ...] | None = None
    """Ids of the passages that the answer rests on; None where they are not annotated."""
    answer_groups: tuple[tuple[str, ...], ...] = ()
    """Where an answer has several parts, the accepted spellings of each part. Empty where one answer is enough."""
    fake_answer: str | None = None
    """What counterfactual passages claim instead (RGB)."""
    is_set: bool = False
    """Whether the answer is a set of rows (HoloBench) rather than one fact with several spellings."""
    labels: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Everything else that the file says about the question: split, type, level, popularity."""

    @property
    def is_distant(self) -> bool:
        """Whether the supporting passages were found by rule, as those that hold the answer, not by an annotator."""
        return not str(self.labels.get("supporting_kind", "annotated")).startswith("annotated")

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, and apart from it what is right."""

    question: Question
    gold: Gold

    def __post_init__(self) -> None:
        # A subclass could smuggle gold to a controller: what is handed on is a plain question or nothing.
        if type(self.question) is not Question:
            raise TypeError(f"a labelled question holds a plain Question, not {type(self.question).__name__}")
        if not self.question.id or not self.question.text.strip():
            raise ValueError("a benchmark question has an id and a text")

    @property
    def id(self) -> str:
        """The question's id."""
        return self.question.id

    @property
    def split(self) -> str:
        """The split that the file names (train, dev, noise ...), or an empty string."""
        return str(self.gold.labels.get("split") or self.gold.labels.get("subset") or "")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A benchmark in the common form: questions, the passages to search, and the card with its origin."""

    name: str
    questions: tuple[LabelledQuestion, ...] = field(repr=False)
    passages: tuple[Passage, ...] = field(repr=False)
    card: Card
    documents: str = ""
    """The key of the user's documents that the passages come from."""

    def __post_init__(self) -> None:
        for what, values in (("question", self.questions), ("passage", self.passages)):
            ids = [each.id for each in values]
            if len(set(ids)) < len(ids):
                twice, times = Counter(ids).most_common(1)[0]
                raise DataError(
                    f"The {what} id {twice!r} occurs {times} times in {self.name}.",
                    remedy="Ids must be unique: remove or rename the copies.",
                )

    def splits(self) -> dict[str, int]:
        """Return how many questions each split has."""
        return dict(sorted(Counter(question.split for question in self.questions).items()))

    def evaluation_splits(self) -> tuple[str, ...]:
        """Return the splits that methods are compared on: those of the card, or else every one but train."""
        return self.card.evaluation or tuple(split for split in self.splits() if split != TRAIN)

    def of_split(self, *splits: str) -> Dataset:
        """Return the same benchmark with the questions of these splits only, on the whole corpus."""
        present = self.splits()
        for split in splits:
            if split not in present:
                known = ", ".join(name or "(unnamed)" for name in present) or "none"
                raise DataError(f"{self.name} has no split {split!r}.", remedy=f"It has: {known}.")
        return replace(self, questions=tuple(question for question in self.questions if question.split in splits))


def wrong_ids(gold: Gold) -> Sequence[str]:
    """Return the ids of the false passages that a dataset brings for a question."""
    found = gold.labels.get("positive_wrong_ids")
    return [str(each) for each in found] if isinstance(found, list | tuple) else ()


def gold_hash(questions: tuple[LabelledQuestion, ...]) -> str:
    """Return a hash of questions with what is right and what is false about them, whatever their order in the file."""
    rows = [
        [
            *(q.id, q.question.text, q.gold.answers, q.gold.supporting, q.gold.answer_groups, q.gold.is_set),
            *((q.gold.fake_answer, *wrong_ids(q.gold)) if q.gold.fake_answer else ()),
        ]
        for q in sorted(questions, key=lambda question: question.id)
    ]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:32]


class CardFile(BaseModel):
    """One file that was read or written."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The file's name, without its folder: that is private."""
    sha256: str
    bytes: int = Field(ge=0)


class Card(BaseModel):
    """The content of `card.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = ""
    licence: str = ""
    source: str = ""
    """Where the published files come from, for people."""
    format: str = ""
    """The published format that was imported; empty for files that were in the common form already."""
    questions: int = Field(default=0, ge=0)
    passages: int = Field(default=0, ge=0)
    splits: Mapping[str, int] = {}
    evaluation: tuple[str, ...] = ()
    """The splits that methods are compared on; empty for every split but train."""
    with_supporting: int = Field(default=0, ge=0)
    """Questions whose supporting passages are known."""
    skipped: tuple[str, ...] = ()
    """The user's questions that have no right answer yet, each with its place."""
    notes: tuple[str, ...] = ()
    inputs: tuple[CardFile, ...] = ()
    """The files that were read; those within a folder are not listed."""
    outputs: tuple[CardFile, ...] = ()
    made_by: str = ""
