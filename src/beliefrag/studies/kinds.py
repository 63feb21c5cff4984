"""Kinds of datasets: which of those that somebody names a study is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beliefrag.bench.questions import Dataset

__all__ = ["SHORT_ANSWERS", "Kind"]


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
