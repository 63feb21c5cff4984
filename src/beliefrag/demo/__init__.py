"""A small corpus with questions, to try the whole loop without own data.

The passages and questions were written for this project; the README beside them says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from beliefrag.types import Passage, Question

__all__ = ["DemoQuestion", "load_passages", "load_questions"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question with its gold answers, for scoring. A controller only gets what `to_question` returns."""

    id: str
    question: str
    answers: tuple[str, ...]
    """Accepted spellings, each found word for word in a supporting passage; none when the corpus lacks the fact."""
    supporting: tuple[str, ...]
    """Passage ids. Of a two-hop question the first hop comes first; of a conflict, both sides are here."""
    kind: Literal["two-hop", "one-hop", "unanswerable", "conflict"]
    note: str
    """For people: the bridge, what is missing, or which of two passages is right."""

    def to_question(self) -> Question:
        """Return the question without its answers: all that a controller or a prompt may see."""
        return Question(self.question, self.id)


def load_passages() -> list[Passage]:
    """Return the corpus, in file order, ready to be indexed."""
    return _read("corpus.jsonl", Passage)


def load_questions() -> list[DemoQuestion]:
    """Return the questions, in file order; the first one is what `make demo` asks."""
    return _read("questions.jsonl", DemoQuestion)


def _read(name: str, row_type: type[_T]) -> list[_T]:
    lines = (resources.files(__package__) / name).read_text(encoding="utf-8").splitlines()
    adapter = TypeAdapter(row_type)
    return [adapter.validate_json(line) for line in lines]
