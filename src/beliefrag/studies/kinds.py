"""Kinds of datasets: which of those that somebody names a study is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beliefrag.bench.questions import Dataset

__all__ = ["MULTI_HOP", "ROWS", "SHORT_ANSWERS", "WITH_FALSEHOODS", "WITH_NOISE", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """Datasets that serve one purpose."""

    words: str
    """What they are, in the plural: "datasets of questions with short answers"."""
    has: Callable[[Dataset], bool]
    """Whether a dataset is of this kind."""
    has_name: Callable[[str], bool] = lambda name: True
    """Whether a dataset of an existing run, of which only the name is known, can be of this kind."""


def _short_answers(dataset: Dataset) -> bool:
    return not any(question.gold.is_set or question.gold.fake_answer for question in dataset.questions)


SHORT_ANSWERS = Kind("datasets of questions with short answers", _short_answers)
"""Ordinary questions: neither sets of rows nor evidence that was made false on purpose."""


def _multi_hop(dataset: Dataset) -> bool:
    linked = sum(len(question.gold.supporting or ()) > 1 for question in dataset.questions)
    return _short_answers(dataset) and 2 * linked >= len(dataset.questions)


def _of_split(split: str) -> Callable[[Dataset], bool]:
    return lambda dataset: split in dataset.splits()


def _never(name: str) -> bool:
    """An existing run does not tell of which split its questions are."""
    return False


MULTI_HOP = Kind(
    "datasets of questions that rest on several passages",
    _multi_hop,
    lambda name: name.casefold() not in {"nq", "triviaqa", "popqa", "rgb"},
)
"""Half of the questions or more have two or more supporting passages."""
WITH_NOISE = Kind("datasets with a split 'noise', such as RGB", _of_split("noise"), _never)
WITH_FALSEHOODS = Kind("datasets with a split 'fact', such as RGB", _of_split("fact"), _never)
ROWS = Kind(
    "datasets of questions about sets of rows, such as HoloBench",
    lambda dataset: any(question.gold.is_set and question.gold.supporting for question in dataset.questions),
    lambda name: "holobench" in name.casefold(),
)
