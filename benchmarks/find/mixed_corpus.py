"""The mixed corpus, its questions, and which of them may be fitted on, chosen on and reported.

HotpotQA and MuSiQue have train questions: those are for fitting. The other sets have none, so their xfit part is for
fitting, their xsel part for choosing settings and their xhold part for reporting. Choices are made on the xsel part of
the HotpotQA and MuSiQue dev questions too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from beliefrag.bench import load_dataset
from beliefrag.bench.datasets.common_form import load_passages
from beliefrag.bench.metrics import normalise
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.runs.partitions import Partition, partition
from beliefrag.types import Passage

__all__ = ["MULTI_HOP", "SETS", "MixedCorpus", "contains_answer", "data_folder", "is_for_fitting", "load_mixed_corpus"]

MULTI_HOP = ("hotpotqa", "2wikimultihopqa", "musique")
SETS = (*MULTI_HOP, "nq", "popqa", "triviaqa")
_POOL = "open_wiki_pool"
_HAVE_TRAIN = ("hotpotqa", "musique")


@dataclass(frozen=True, slots=True)
class MixedCorpus:
    """All passages of six sets in one corpus, and the questions of each."""

    passages: Mapping[str, Passage]
    questions: Mapping[str, tuple[LabelledQuestion, ...]]


def data_folder() -> Path:
    """Return where the sets are: BELIEFRAG_DATA."""
    return Path(os.environ.get("BELIEFRAG_DATA", "../shared/data"))


def load_mixed_corpus() -> MixedCorpus:
    """Read the six sets and the pool of further passages."""
    passages: dict[str, Passage] = {}
    questions = {}
    for name in SETS:
        dataset = load_dataset(data_folder() / name)
        questions[name] = dataset.questions
        passages |= {passage.id: passage for passage in dataset.passages}
    passages |= {passage.id: passage for passage in load_passages(data_folder() / _POOL)}
    return MixedCorpus(passages, questions)


def is_for_fitting(dataset: str, question: LabelledQuestion) -> bool:
    """Return whether a ranker may be fitted on this question; such a question is in no table."""
    if dataset in _HAVE_TRAIN:
        return question.split == "train"
    return partition(question.id) is Partition.XFIT


def contains_answer(question: LabelledQuestion, texts: Sequence[str]) -> bool:
    """Return whether one of the texts holds a gold answer, word for word after normalisation."""
    golds = [f" {gold} " for gold in map(_normalise, question.gold.answers) if gold]
    return any(gold in f" {_normalise(text)} " for text in texts for gold in golds)


# The same passages are looked at for many questions and systems.
_normalise = lru_cache(maxsize=200_000)(normalise)
