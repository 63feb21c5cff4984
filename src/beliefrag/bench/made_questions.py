"""Questions with known answers, made from the user's documents by the model that is to be calibrated.

A passage gives a question that it answers. Two passages of which one names what the other is about give a question that
needs both. A question whose passage is taken out of the documents can no longer be answered from them. What the model
writes is checked without a model: the answer must stand in its passage, and the question must neither hold the answer
nor speak of "the passage"; then the model must find the answer again when it is shown the passage.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beliefrag.answering.packing import lower_words
from beliefrag.bench.metrics import covers, normalise, token_f1
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel, ChatReply
from beliefrag.prompts import Prompts, Repairs, escape, evidence_block, read_json_object, unescape
from beliefrag.retrieval.documents import count_words
from beliefrag.runs.partitions import hash_position
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage, Question
from beliefrag.verifiers import build_verifier

QuestionKind = Literal["single", "two_hop", "unanswerable"]

CALLS_PER_QUESTION = 5
"""About how many calls one question takes that passes all checks: about half of what a small model writes does not."""
TOKENS_PER_CALL = 350

_SHARES: Mapping[QuestionKind, float] = {"single": 0.45, "two_hop": 0.3, "unanswerable": 0.25}
_SPARE = 4
"""How many seeds are drawn for each question that is wanted."""
_FEWEST_WORDS = 25
_LONGEST_NAME = 6
_MOST_PASSAGES = 3
"""A name in more passages is not specific to any of them."""
_LONGEST_ANSWER = 8
_SHORTEST_QUESTION = 5
_REFERS_TO_TEXT = re.compile(
    r"\b(?:the|this|that|first|second|given|above) (?:passages?|texts?|paragraphs?|excerpts?|documents?|authors?)\b|"
    r"\bpassage [12]\b|\baccording to\b",
    re.IGNORECASE,
)
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class QuestionSeed:
    """What a question is to be made from."""

    kind: QuestionKind
    passages: tuple[Passage, ...]
    """One passage; for two hops the one that names the bridge, then the one that holds the answer."""
    bridge: str = ""


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question that passed all checks."""

    question: str
    answer: str
    kind: QuestionKind
    supporting: tuple[str, ...]

    @property
    def id(self) -> str:
        """An id that depends on its words alone."""
        return "made_" + hashlib.sha256(" ".join(self.question.split()).encode()).hexdigest()[:14]

    def record(self) -> str:
        """Return it as a line of a file of questions."""
        fields = {"id": self.id, "question": self.question, "answers": [self.answer], "kind": self.kind}
        return json.dumps(fields | {"supporting": self.supporting}, ensure_ascii=False)


def draw_seeds(passages: Sequence[Passage], n: int, *, seed: int = 0) -> list[QuestionSeed]:
    """Draw what `n` questions are made from: several for each, because some will be rejected."""
    usable = [each for each in passages if count_words(each.text) >= _FEWEST_WORDS]
    usable.sort(key=lambda each: hash_position("made questions", str(seed), each.id))
    if not usable:
        raise DataError(
            f"None of the {len(passages):,} passages has {_FEWEST_WORDS} words to ask about.",
            remedy="Give documents with more text.",
        )
    # Passages that are taken out must support no other question, so each kind has passages of its own.
    apart = round(len(usable) * _SHARES["unanswerable"])
    removed, kept = usable[:apart], usable[apart:]
    wanted = {kind: count * _SPARE for kind, count in _count_by_kind(n).items()}
    seeds = [QuestionSeed("unanswerable", (each,)) for each in removed[: wanted["unanswerable"]]]
    seeds += [QuestionSeed("single", (each,)) for each in kept[: wanted["single"]]]
    # Two hops begin at the other end: few passages are asked about twice.
    seeds += itertools.islice(_find_pairs(kept[::-1]), wanted["two_hop"])
    return seeds


def _count_by_kind(n: int) -> dict[QuestionKind, int]:
    """Divide a number of questions among the kinds."""
    counts: dict[QuestionKind, int] = {kind: round(n * share) for kind, share in _SHARES.items()}
    counts["unanswerable"] = n - counts["single"] - counts["two_hop"]
    return counts


def _find_pairs(passages: Sequence[Passage]) -> Iterator[QuestionSeed]:
    """Yield pairs of passages of which the first names what the second is about, each first passage once."""
    named = _find_named(passages)
    for passage in passages:
        words = lower_words(passage.text)
        own = " ".join(lower_words(passage.title))
        runs = (
            " ".join(words[start : start + size])
            for size in range(_LONGEST_NAME, 0, -1)
            for start in range(len(words) - size + 1)
        )
        found = (named[name] for name in runs if name in named and name not in own)
        bridge, other = next((each for each in found if each[1].id != passage.id), ("", None))
        if other is not None:
            yield QuestionSeed("two_hop", (passage, other), bridge)


def _find_named(passages: Sequence[Passage]) -> dict[str, tuple[str, Passage]]:
    """Return the names that few passages have, each with its spelling and its first passage."""
    # Arrays are imported by those who need them only.
    from beliefrag.retrieval.linked.names import names_of  # noqa: PLC0415

    found: dict[str, tuple[str, Passage]] = {}
    counts: Counter[str] = Counter()
    for passage in passages:
        for spelling in dict.fromkeys(name for name, _ in names_of(passage.title, passage.text)):
            words = lower_words(spelling)
            name = " ".join(words)
            # A single common word is not a name; one with a capital, a digit or an underscore may be.
            telling = len(words) > 1 or any(c.isupper() or c.isdigit() or c == "_" for c in spelling)
            if telling and len(name) > 3 and len(words) <= _LONGEST_NAME:
                counts[name] += 1
                found.setdefault(name, (spelling, passage))
    return {name: passage for name, passage in found.items() if counts[name] <= _MOST_PASSAGES}


def find_fault(question: str, answer: str, seed: QuestionSeed) -> str | None:
    """Return what is wrong with a question, without asking a model; None if nothing is."""
    words, asked = lower_words(answer), f" {' '.join(lower_words(question))} "
    phrase = f" {' '.join(words)} "
    texts = [f" {' '.join(lower_words(passage.text))} " for passage in seed.passages]
    bridge = f" {' '.join(lower_words(seed.bridge))} "
    faults = (
        (not 0 < len(words) <= _LONGEST_ANSWER, f"The answer must have 1 to {_LONGEST_ANSWER} words."),
        (len(asked.split()) < _SHORTEST_QUESTION, "That is not a whole question."),
        (not question.rstrip().endswith(("?", "\uff1f")), "The question must end with a question mark."),
        (phrase not in texts[-1], "The answer is not in the passage word for word."),
        (phrase in asked, "The question holds the answer."),
        (bool(_REFERS_TO_TEXT.search(question)), "The question speaks of the passage, which its reader does not see."),
        (bool(seed.bridge) and bridge in asked, "The question names what it should describe."),
        (len(texts) > 1 and phrase in texts[0], "The answer is in the first passage already."),
    )
    return next((reason for is_wrong, reason in faults if is_wrong), None)


def read_made_question(reply: ChatReply, repairs: Repairs) -> tuple[str, str]:
    """Read the question and the answer that a model wrote."""
    record = read_json_object(reply.text, repairs)
    pair = [record.get(name) for name in ("question", "answer")]
    if not all(isinstance(each, str) for each in pair):
        raise ReplyError("The reply needs a question and an answer.")
    question, answer = (" ".join(unescape(str(each)).split()) for each in pair)
    return question, answer


async def make_questions(
    model: ChatModel,
    prompts: Prompts,
    seeds: Sequence[QuestionSeed],
    n: int,
    *,
    at_once: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[tuple[MadeQuestion, ...], Mapping[str, int]]:
    """Let the model write questions until there are `n`, with enough of each kind, or no seed is left.

    Returns the questions, and how many others were rejected for each reason. `progress` is called with how many there
    are and how many are wanted.
    """
    meter = Meter(model)
    rejected: Counter[str] = Counter()
    made: dict[str, MadeQuestion] = {}
    for kind, wanted in _count_by_kind(n).items():
        own = [each for each in seeds if each.kind == kind]
        have = 0
        while own and have < wanted:
            # About half of what a model writes is rejected.
            size = max(1, min(at_once, 2 * (wanted - have)))
            batch, own = own[:size], own[size:]
            for found in await asyncio.gather(*(_make_question(meter, prompts, each, rejected) for each in batch)):
                if found is not None and have < wanted and found.id not in made:
                    made[found.id] = found
                    have += 1
            if progress is not None:
                progress(len(made), n)
    return tuple(made.values()), rejected


async def _make_question(
    meter: Meter, prompts: Prompts, seed: QuestionSeed, rejected: Counter[str]
) -> MadeQuestion | None:
    recorder = CallRecorder(lambda _: None, lambda *_: None)
    calls = ModelCalls(meter, prompts, build_verifier("structured"), recorder, token_budget=None)
    faults: list[str] = []

    def read(reply: ChatReply, repairs: Repairs) -> tuple[str, str]:
        question, answer = read_made_question(reply, repairs)
        if fault := find_fault(question, answer, seed):
            faults.append(fault)
            raise ReplyError(fault)
        return question, answer

    fields = {"evidence": evidence_block(seed.passages)}
    prompt = "question_maker"
    if seed.bridge:
        prompt, fields["bridge"] = "two_hop_question_maker", escape(seed.bridge)
    try:
        question, answer = await calls.ask("question_maker", prompt, fields, read, schema=_SCHEMA)
        again = await calls.answer(Question(question), seed.passages)
    except UnreadableReply:
        rejected[faults[-1] if faults else "The reply could not be read."] += 1
        return None
    if not (covers(again, Gold((answer,))) or token_f1(again, (answer,)) >= 0.5):
        rejected["The model did not find its own answer again."] += 1
        return None
    supporting = tuple(dict.fromkeys(passage.id for passage in seed.passages))
    return MadeQuestion(question, answer, seed.kind, supporting)


def make_dataset(name: str, made: Sequence[MadeQuestion], passages: Sequence[Passage]) -> Dataset:
    """Make a dataset of the questions on the passages, without those of the questions that must have no answer."""
    if not made:
        raise DataError(
            "The model made no question that passed the checks.",
            remedy="Use a larger model, or make questions by hand and use 'beliefrag calibrate collect'.",
        )
    removed = {each.supporting[0] for each in made if each.kind == "unanswerable"}
    # The same words elsewhere would answer the question all the same.
    texts = {normalise(passage.text) for passage in passages if passage.id in removed}
    kept = tuple(each for each in passages if normalise(each.text) not in texts)
    questions = []
    for each in made:
        supporting = None if each.kind == "unanswerable" else each.supporting
        gold = Gold((each.answer,), supporting, labels={"kind": each.kind})
        questions.append(LabelledQuestion(Question(each.question, each.id), gold))
    card = Card(name=name, title="Questions made from documents", questions=len(questions), passages=len(kept))
    return Dataset(name, tuple(questions), kept, card)
