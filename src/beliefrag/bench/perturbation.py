"""Imperfect evidence in a run: what is injected into the hits of its searches, and what came of it.

The gold answers are needed to make a passage lie and to keep the answer out of the noise. They stay here: an episode is
handed a retriever, and a controller only ever sees hits.

RGB brings false passages: for each passage that answers, one with another answer in its place. For any other dataset a
false answer of the same kind is drawn from the other questions' answers, and put in the place of the true one wherever
its spelling stands in a passage. docs/bench.md has the limits of that.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from beliefrag.bench.datasets.formats import passage_id
from beliefrag.bench.metrics import covers, normalise
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion, wrong_ids
from beliefrag.record import Episode, Injected
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.retrieval.protocol import Retriever
from beliefrag.runs.record import Injection
from beliefrag.types import Passage

_CLOSED = frozenset({"yes", "no", "true", "false", "noanswer"})
_MONTH = r"(january|february|march|april|may|june|july|august|september|october|november|december)"
_DATE = re.compile(rf"\b{_MONTH}\b.*\d|\d.*\b{_MONTH}\b|\b\d{{4}}-\d\d-\d\d\b|\b\d\d?/\d\d?/\d{{2,4}}\b", re.IGNORECASE)
_YEAR = re.compile(r"\W*(1\d{3}|20\d\d)\W*")
_COUNTED = re.compile(
    r"(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand|"
    r"million|billion)\b",
    re.IGNORECASE,
)
_LONG_NUMBER = 3
"""Words that a number may have with its unit; longer answers with a digit are names of things."""


def false_passage_ids(questions: Iterable[LabelledQuestion]) -> frozenset[str]:
    """Return the ids of the false passages that a dataset brings itself."""
    return frozenset(each for question in questions for each in wrong_ids(question.gold))


def passages_to_search(dataset: Dataset) -> tuple[Passage, ...]:
    """Return the passages to search. False passages that a dataset brings are searched only where they are injected."""
    false = false_passage_ids(dataset.questions)
    return tuple(passage for passage in dataset.passages if passage.id not in false)


class Injector:
    """The maker of the retrievers of one dataset, one for each episode.

    False answers are drawn from all of its questions, noise from all of its passages.
    """

    def __init__(self, dataset: Dataset, injection: Injection) -> None:
        self._injection = injection
        self._pool = passages_to_search(dataset)
        self._false = FalseAnswers(dataset.questions, dataset.passages, injection.seed)

    def falsehood(self, labelled: LabelledQuestion) -> Falsehood | None:
        """Return what passages claim in place of the truth; None where nothing false is injected or can be."""
        return self._false.find_falsehood(labelled) if self._injection.counterfactual else None

    def wrap(self, retriever: Retriever, labelled: LabelledQuestion) -> InjectedRetriever:
        """Return the retriever for one episode on that question."""
        falsehood = self.falsehood(labelled)
        return InjectedRetriever(
            retriever,
            noise=self._injection.noise,
            pool=self._pool,
            about=labelled.question.text,
            unfit=lambda passage: _helps(passage, labelled.gold),
            counterfactual=self._injection.counterfactual,
            false_version=falsehood.version if falsehood else lambda _: None,
            false_passages=falsehood.passages if falsehood else (),
            seed=f"{self._injection.seed}/{labelled.id}",
        )

    def add_injected(self, episode: Episode, retriever: InjectedRetriever, labelled: LabelledQuestion) -> Episode:
        """Return the episode with what was injected into it and, if it finished, whether it was misled."""
        falsehood = self.falsehood(labelled)
        metrics = dict(episode.metrics)
        if metrics and falsehood is not None:
            metrics |= score_misled(episode.answer, labelled.gold, falsehood.answer)
            metrics["false_read"] = float(len(retriever.false_ids))
        injected = Injected(noise=tuple(retriever.noise_ids), counterfactual=tuple(retriever.false_ids))
        return episode.model_copy(update={"metrics": metrics, "injected": injected})


def score_misled(answer: str | None, gold: Gold, false_answer: str) -> dict[str, float]:
    """Return whether an answer follows a false claim and lacks the truth, and whether it has the truth."""
    right = answer is not None and covers(answer, gold)
    follows = answer is not None and not right and covers(answer, Gold((false_answer,)))
    return {"follows_false": float(follows), "recovers_true": float(right)}


def _helps(passage: Passage, gold: Gold) -> bool:
    if passage.id in (gold.supporting or ()):
        return True
    return not gold.is_set and covers(f"{passage.title} {passage.text}", Gold(gold.answers))


@dataclass(frozen=True, slots=True)
class Falsehood:
    """What is claimed in place of the truth, and how a passage claims it."""

    answer: str
    version: Callable[[Passage], Passage | None]
    """The false version of a passage; None where it has none."""
    passages: tuple[Passage, ...] = ()
    """The false passages that the dataset brings, whatever they are versions of."""


class FalseAnswers:
    """Finds a false claim about each question of a dataset, drawn from the answers of all of them.

    The passages are for the false ones that the dataset brings itself.
    """

    def __init__(self, questions: Iterable[LabelledQuestion], passages: Iterable[Passage], seed: int) -> None:
        asked = list(questions)
        own = false_passage_ids(asked)
        self._own = {passage.id: passage for passage in passages if passage.id in own}
        self._seed = seed
        by_kind: dict[str, dict[str, str]] = defaultdict(dict)
        for question in asked:
            if not question.gold.is_set and (kind := answer_kind(question.gold.answers[0])):
                by_kind[kind].setdefault(normalise(question.gold.answers[0]), question.gold.answers[0])
        # Sorted: the order of the file plays no part.
        self._answers = {kind: dict(sorted(found.items())) for kind, found in by_kind.items()}

    def find_falsehood(self, labelled: LabelledQuestion) -> Falsehood | None:
        """Return a false claim for the question, or None."""
        gold = labelled.gold
        if gold.is_set:
            return None
        wrong, right = wrong_ids(gold), gold.supporting or ()
        if gold.fake_answer and wrong and len(wrong) == len(right):
            # RGB lists the false passages in the order of those that they were made from.
            versions = {own: self._own[other] for own, other in zip(right, wrong, strict=True) if other in self._own}
            passages = tuple(dict.fromkeys(versions.values()))
            return Falsehood(gold.fake_answer, lambda passage: versions.get(passage.id), passages)
        kind = answer_kind(gold.answers[0])
        answer = gold.fake_answer or self._draw_answer(labelled, kind or "")
        if kind is None or answer is None:
            return None
        spellings = _spelling_pattern(gold.answers)
        return Falsehood(answer, lambda passage: _falsify(passage, spellings, answer))

    def _draw_answer(self, labelled: LabelledQuestion, kind: str) -> str | None:
        right = labelled.gold.answers
        own = [f" {normalise(answer)} " for answer in right]
        # Where one answer contains the other, neither is a false answer in place of the other.
        others = [
            answer
            for key, answer in self._answers.get(kind, {}).items()
            if not any(f" {key} " in each or each in f" {key} " for each in own)
        ]
        # A full name is more often a person's and one word a place's: the like-sized ones come first.
        close = [other for other in others if _size(other) == _size(right[0])]
        draw = random.Random(f"{self._seed}/false/{labelled.id}")  # noqa: S311
        return draw.choice(close or others) if others else None


def answer_kind(answer: str) -> str | None:
    """Return what kind of thing an answer looks like; None where nothing of its kind could be put in its place."""
    words = normalise(answer).split()
    if not words or " ".join(words) in _CLOSED:
        return None
    if _DATE.search(answer):
        return "date"
    if _YEAR.fullmatch(answer):
        return "year"
    if len(words) <= _LONG_NUMBER and (answer.strip(" $€£+-~")[:1].isdigit() or _COUNTED.match(answer.strip())):
        return "number"
    capitals = sum(word.strip("\"'(")[:1].isupper() for word in answer.split())
    return "name" if 2 * capitals >= len(answer.split()) else "words"


def _size(answer: str) -> int:
    """Return the class of an answer's length: one word, two, three, some, a sentence."""
    words = len(answer.split())
    return words if words <= 3 else 4 if words <= 6 else 5


def _spelling_pattern(answers: Sequence[str]) -> re.Pattern[str]:
    spellings = sorted({" ".join(each.split()) for each in answers if answer_kind(each)}, key=lambda s: (-len(s), s))
    parts = (r"\s+".join(map(re.escape, spelling.split())) for spelling in spellings)
    return re.compile(rf"(?<!\w)({'|'.join(parts)})(?!\w)", re.IGNORECASE)


def _falsify(passage: Passage, spellings: re.Pattern[str], answer: str) -> Passage | None:
    title, in_title = spellings.subn(lambda _: answer, passage.title)
    text, in_text = spellings.subn(lambda _: answer, passage.text)
    # The id is the one that an import would give these words: distinct, and nothing about it is telling.
    return Passage(passage_id(title, text), title, text, passage.source) if in_title or in_text else None
