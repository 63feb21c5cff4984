"""A small corpus with questions, so that the whole loop can be tried without any data of one's own.

The passages and questions were written for this project; the README beside them says how. `load_passages` gives what
an index is built from, `load_questions` what to ask and what a good answer is.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import CorpusError
from beliefrag.types import Passage, Question

__all__ = ["DemoQuestion", "Kind", "load_passages", "load_questions"]

Kind = Literal["two-hop", "one-hop", "unanswerable", "conflict"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question with its gold answers, for whoever scores an episode.

    A controller is never given one of these, only what `to_question` returns.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    """Accepted spellings, each found word for word in a supporting passage; none when the corpus lacks the fact."""
    supporting: tuple[str, ...]
    """Passage ids. Of a two-hop question the first hop comes first; of a conflict, both sides are here."""
    kind: Kind
    note: str
    """For people: the bridge, what is missing, or which of two passages is right."""

    def to_question(self) -> Question:
        """Gives the question without its answers: all that a controller or a prompt may see."""
        return Question(self.question, self.id)


def load_passages() -> list[Passage]:
    """Gives the corpus, in file order, ready to be indexed.

    Raises:
        CorpusError: The installed file is missing or damaged.
    """
    return _rows("corpus.jsonl", Passage)


def load_questions() -> list[DemoQuestion]:
    """Gives the questions, in file order; the first one is what `make demo` asks.

    Raises:
        CorpusError: The installed file is missing or damaged.
    """
    return _rows("questions.jsonl", DemoQuestion)


def _rows(name: str, row_type: type[_T]) -> list[_T]:
    remedy = "Install beliefrag again."
    try:
        lines = (resources.files(__package__) / name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"Cannot read the demo file {name}: {error}.", remedy=remedy) from error
    adapter = TypeAdapter(row_type)
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(adapter.validate_json(line))
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            raise CorpusError(f"Line {number} of the demo file {name} is damaged: {problem}.", remedy=remedy) from error
    if not rows:
        raise CorpusError(f"The demo file {name} is empty.", remedy=remedy)
    return rows
