"""What is measured of ranked passages: needed passages among the first, and answers in packed evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.answering.packing import pack_passages
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.retrieval.documents import find_words
from beliefrag.types import Passage
from benchmarks.find.mixed_corpus import MULTI_HOP, MixedCorpus, contains_answer

__all__ = [
    "Ranking",
    "answer_in_packed",
    "answer_in_whole",
    "asks_yes_or_no",
    "found_among",
    "read_ranking",
    "recall_among",
]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one system ranks first for each question."""

    system: str
    identity: str
    ranked: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]
    """By set and question: passage ids with scores, best first."""


def read_ranking(path: Path) -> Ranking:
    """Read what `benchmarks.find.rank_questions` wrote."""
    held = json.loads(path.read_text("utf-8"))
    ranked = {
        name: {question: [(str(one), float(score)) for one, score in hits] for question, hits in questions.items()}
        for name, questions in held["ranked"].items()
    }
    return Ranking(held["system"], held.get("identity") or "", ranked)


def found_among(ranking: Ranking, dataset: str, question: LabelledQuestion, mixed: MixedCorpus, first: int) -> float:
    """1 where all supporting passages (multi-hop) or a passage with the answer (single-hop) are among the first."""
    ids = [one for one, _ in ranking.ranked[dataset][question.id][:first]]
    if dataset in MULTI_HOP:
        return float(set(question.gold.supporting or ()) <= set(ids))
    return float(contains_answer(question, [_whole_text(mixed.passages[one]) for one in ids]))


def recall_among(ranking: Ranking, dataset: str, question: LabelledQuestion, first: int) -> float:
    """Return the share of the supporting passages that are among the first."""
    needed = set(question.gold.supporting or ())
    ids = {one for one, _ in ranking.ranked[dataset][question.id][:first]}
    return len(needed & ids) / len(needed)


def answer_in_packed(
    hits: Sequence[tuple[str, float]], question: LabelledQuestion, mixed: MixedCorpus, words: int
) -> float:
    """1 where the packed sentences of these passages hold the answer."""
    passages = [mixed.passages[one] for one, _ in hits]
    packed = pack_passages(question.question.text, passages, words, scores=[score for _, score in hits])
    return float(contains_answer(question, [" ".join(_whole_text(each.shown) for each in packed)]))


def answer_in_whole(
    hits: Sequence[tuple[str, float]], question: LabelledQuestion, mixed: MixedCorpus, words: int
) -> float:
    """1 where the first so many words of these passages, one after the other, hold the answer."""
    text = " ".join(_whole_text(mixed.passages[one]) for one, _ in hits)
    places = find_words(text)[:words]
    return float(contains_answer(question, [text[: places[-1][1]] if places else ""]))


def asks_yes_or_no(question: LabelledQuestion) -> bool:
    """Return whether the answer is a yes or a no, which stands in no passage."""
    return _is_yes_or_no(question.gold.answers)


def _is_yes_or_no(answers: Iterable[str]) -> bool:
    return any(answer.strip().lower() in ("yes", "no") for answer in answers)


def _whole_text(passage: Passage) -> str:
    return f"{passage.title}. {passage.text}"
