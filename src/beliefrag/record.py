"""The record of an episode: the one type that the loop yields, files keep, and servers, pages and studies read.

An `Episode` begins with its question and no outcome. The loop then yields a `Step` for each action, and at last the
whole episode. A trace file holds the same: the episode as it began, its steps, the episode as it ended. A run keeps
episodes `without_texts`: no text of a benchmark is in its files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, model_validator
from pydantic_core import PydanticSerializationError

from beliefrag.types import (
    Action,
    Attempt,
    Belief,
    Budget,
    Citation,
    Comparison,
    Diagnostics,
    Hit,
    Passage,
    Provenance,
    Question,
    Usage,
)

QUESTION = "[question]"
"""What replaces the text of a benchmark's question in the files of a run."""

UNCALIBRATED = "uncalibrated estimate"
"""What a probability is called that was not fitted for the model and the search in use."""

Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]
_NOT_SHARES = frozenset({"rounds", "actions", "rows_needed", "rows_read", "false_read"})


class Outcome(StrEnum):
    """The ways in which an episode can end."""

    ANSWERED = "answered"
    """The controller judged the question answerable."""
    STOPPED = "stopped"
    """More searching was not worth it or not possible; the answer is the best that the evidence allows."""
    ABSTAINED = "abstained"
    """The evidence is inadequate and no answer is given."""
    FAILED = "failed"
    """An error ended it. It is never scored and never an abstention; what was paid for is in `usage`."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class CallStarted(_Record):
    """A model call began: a display can say what it waits for. It is not part of the record."""

    purpose: str


class AnswerText(_Record):
    """More of the answer while the model writes it: `shown[:at] + text`. It is not part of the record.

    Only an answer that will be given is shown; the episode has its final form. Nothing comes from a cached reply, nor
    from a model that does not stream.
    """

    at: NonNegativeInt
    """How many characters of what was shown before stay; 0 where the model begins again."""
    text: str


class ModelCall(_Record):
    """One model call with its reply."""

    purpose: str
    reply: str
    tokens_in: NonNegativeInt
    tokens_out: NonNegativeInt
    counted_by: str
    """Who counted the tokens: the server, or an estimate."""
    retries: NonNegativeInt = 0
    repairs: Mapping[str, NonNegativeInt] = {}
    """How often each kind of repair was needed to read the reply."""
    least_token: Share | None = None
    """The probability of the least likely token, where the model was asked for token probabilities."""
    messages: tuple[Mapping[str, str], ...] = ()
    """The prompt; empty in the files of a run."""
    seconds: NonNegativeFloat = 0.0
    """How long the model took when the reply was made."""
    at: NonNegativeFloat = 0.0
    """When the reply came, in seconds since the episode began."""
    cached: bool = False


class Search(_Record):
    """What RETRIEVE searched for and found."""

    query: str | None
    """None if no search was made: nothing was missing, or writing a query would have exceeded the budget."""
    hits: tuple[tuple[str, float], ...] = ()
    """The id and the score of each passage found, best first."""
    found_by: Mapping[str, Provenance] = {}
    """How each passage was found, by id, if the retriever has more ways than one."""
    candidates: tuple[float, ...] = ()
    """The scores of all candidates, if more were scored than hits were kept."""
    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Passages that were dropped before."""
    novelty: Share = 1.0

    @property
    def was_made(self) -> bool:
        """Whether the retriever was asked."""
        return self.query is not None


class ShownPassage(_Record):
    """Which parts of a passage a prompt showed."""

    passage_id: str
    spans: tuple[tuple[int, int], ...]
    """Where the shown sentences begin and end in the passage's text."""


class Step(_Record):
    """One decision: the numbers that it was made on, and what it changed."""

    number: NonNegativeInt
    """Counted from 0."""
    action: Action
    reason: str
    """The code of the rule that decided; `explanation` turns it into words."""
    comparisons: tuple[Comparison, ...] = ()
    legal: tuple[Action, ...] = ()
    diagnostics: Diagnostics | None = None
    """None for methods that measure nothing."""
    belief: Belief | None = None
    answerability: Share | None = None
    retrieval_value: Share | None = None
    tokens: NonNegativeInt = 0
    """Tokens used when the decision was made."""
    flagged: tuple[str, ...] = ()
    """The ids of the passages that the verifier would drop."""
    attempt: Attempt | None = None
    """The answer that the episode would have given if it had ended here."""
    search: Search | None = None
    """For RETRIEVE, unless it failed."""
    rewritten: str | None = None
    """For REWRITE: the new query."""
    dropped: tuple[str, ...] | None = None
    """For VERIFY: the ids of the passages that were removed."""
    evidence: tuple[str, ...] = ()
    """The ids of the passages that are retained after the step."""
    shown: tuple[ShownPassage, ...] = ()
    """What the prompts showed of each passage, if they show sentences and not whole passages."""
    calls: tuple[ModelCall, ...] = ()
    """The model calls made to measure, and to carry the action out."""
    passages: Mapping[str, Passage] = {}
    """The passages that its search found, by id; empty in the files of a run."""
    at: NonNegativeFloat = 0.0
    """When the decision was made, in seconds since the episode began."""

    @property
    def branch(self) -> str:
        """The branch of the policy that decided."""
        return self.reason.partition(":")[0]

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        for part in (self.diagnostics, self.belief):
            for field in fields(part) if part else ():
                if not 0.0 <= getattr(part, field.name) <= 1.0:
                    raise ValueError(f"{field.name} is not a number from 0 to 1")
        return self

    def without_texts(self, question: str) -> Step:
        """Return the step without prompts and passages, and with a mark in place of the question."""
        search = self.search
        if search is not None and search.query is not None:
            search = search.model_copy(update={"query": hide_question(search.query, question)})
        rewritten = None if self.rewritten is None else hide_question(self.rewritten, question)
        calls = tuple(call.model_copy(update={"messages": ()}) for call in self.calls)
        return self.model_copy(update={"search": search, "rewritten": rewritten, "calls": calls, "passages": {}})


class AnswerSentence(_Record):
    """A sentence of an answer in whole sentences, supported by the evidence."""

    text: str
    support: Share
    """The share of its content words that occur in the sentences that it cites."""
    probability: Share | None = None
    """That of the answer times the support: not fitted. Items of a list have none."""
    cites: tuple[NonNegativeInt, ...]
    """Their places among the citations of the episode, counted from 0."""


class Failure(_Record):
    """Why an episode failed, or why the judge failed on it."""

    cause: str
    """The name of the error's class, which does not change between versions."""
    message: str = ""
    remedy: str = ""


class Verdict(_Record):
    """What the judge said of an answer, and what asking it cost."""

    correct: bool | None
    """None if the judge failed; `error` then says why."""
    usage: Usage = Usage()
    """The judge's own cost, which is in no method's cost."""
    error: Failure | None = None


class Injected(_Record):
    """The ids of the passages that were injected into what searches found."""

    noise: tuple[str, ...]
    counterfactual: tuple[str, ...]


class EpisodeKey(NamedTuple):
    """Which episode of a run it is."""

    dataset: str
    method: str
    question_id: str
    seed: int


class EpisodeSummary(_Record):
    """The numbers of an episode without its steps: small enough to hold all episodes of a run in memory."""

    model_config = ConfigDict(extra="ignore")

    dataset: str = ""
    """Empty outside a run, as are the other parts of the key but the method."""
    method: str
    question: Question
    """Its text is empty in the files of a run."""
    seed: NonNegativeInt = 0
    outcome: Outcome | None = None
    """None while the episode runs."""
    metrics: Mapping[str, float | None] = {}
    """Empty for a failed episode; None where a metric has no meaning for the question."""
    verdict: Verdict | None = None
    usage: Usage = Usage()
    error: Failure | None = None
    """Only for a failed episode."""

    @property
    def key(self) -> EpisodeKey:
        """Which episode of a run it is."""
        return EpisodeKey(self.dataset, self.method, self.question.id, self.seed)

    @property
    def finished(self) -> bool:
        """Whether it ended with an answer or an abstention. A failed episode is tried again."""
        return self.outcome not in {None, Outcome.FAILED}

    @property
    def cause(self) -> str:
        """Why it failed, as a stable name; empty if it did not."""
        return self.error.cause if self.error else ""

    @property
    def message(self) -> str:
        """Why it failed, in words; empty if it did not."""
        return self.error.message if self.error else ""

    @property
    def judge_failure(self) -> str:
        """Why the judge failed on it, as a stable name; empty if it did not, or was not asked."""
        return self.verdict.error.cause if self.verdict and self.verdict.error else ""

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if (self.outcome is Outcome.FAILED) != (self.error is not None):
            raise ValueError("an episode has an error if and only if it failed")
        for usage in (self.usage, *((self.verdict.usage,) if self.verdict else ())):
            _check_usage(usage)
        for name, value in self.metrics.items():
            if value is not None and not 0 <= value <= (float("inf") if name in _NOT_SHARES else 1):
                raise ValueError(f"the metric {name} is {value}")
        # A question about a set of rows has another score than one about a fact; every question has one of the two.
        scores = self.metrics.get("f1"), self.metrics.get("answer_row_recall")
        if self.dataset and self.finished and scores == (None, None):
            raise ValueError("it finished without a score")
        return self


class Episode(EpisodeSummary):
    """One question from its beginning to its end."""

    model_config = ConfigDict(extra="forbid")

    model: str = ""
    """The identity of the model; this and the next six are empty in a run, whose record has them."""
    budget: Budget | None = None
    thresholds: Mapping[str, float | bool | None] = {}
    """Of the policy, for a method that has one."""
    prompts: Mapping[str, str] = {}
    """The hash of each prompt."""
    verifier: str = ""
    made_with: Mapping[str, str] = {}
    """Calibration, corpus and what else the harness names."""
    collection: NonNegativeInt | None = None
    """How many passages there were to search, where that is known."""
    standalone: str = ""
    """The question as it was understood: rewritten to stand alone, or without slips of typing; empty if unchanged."""
    carried: tuple[Hit, ...] = ()
    """The passages of earlier turns that the episode began with, and the scores at which they were found."""
    answer: str | None = None
    """None if the episode declined or failed."""
    short_answer: str | None = None
    """What was decided on, where the answer is written in sentences."""
    sentences: tuple[AnswerSentence, ...] = ()
    """The sentences of the answer; empty for a short one."""
    left_out: NonNegativeInt = 0
    """How many written sentences were removed, because the evidence does not support them."""
    best_guess: str | None = None
    """If it declined: what the answer would have been, where that is known."""
    answerability: Share | None = None
    """How likely the answer, or the best guess, is right; None for a method that does not say."""
    calibrated: bool | None = None
    """False where that is an uncalibrated estimate: it was not fitted for this model and search. None in a run, whose
    record has its calibrations."""
    citations: tuple[Citation, ...] = ()
    """The sentences that the answer rests on, in the order of the argument; of an abstention, the nearest ones."""
    sources: tuple[str, ...] = ()
    """The ids of the passages that were read for the ending."""
    steps: tuple[Step, ...] = ()
    calls_before_failure: tuple[ModelCall, ...] = ()
    """Calls that were paid for before an error, in a step that came to no decision."""
    seconds: NonNegativeFloat = 0.0
    """From its beginning to its end."""
    ended: str = ""
    """When it ended, in UTC; empty outside a run."""
    judge_seconds: NonNegativeFloat = 0.0
    injected: Injected | None = None
    """None if nothing is injected into what searches find."""

    @property
    def belief(self) -> Belief | None:
        """The beliefs at the last decision."""
        return self.steps[-1].belief if self.steps else None

    @property
    def reason(self) -> str:
        """The code of the last decision; `explanation` turns it into words."""
        return self.steps[-1].reason if self.steps else ""

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """All model calls in their order."""
        return (*(call for step in self.steps for call in step.calls), *self.calls_before_failure)

    @property
    def asked(self) -> str:
        """The question that was answered: the one that was typed, or what it was rewritten to."""
        return self.standalone or self.question.text

    @property
    def passages(self) -> dict[str, Passage]:
        """The passages that it began with and that its searches found, by id; empty in a run."""
        carried = {hit.passage.id: hit.passage for hit in self.carried}
        return carried | {name: passage for step in self.steps for name, passage in step.passages.items()}

    @property
    def read_passages(self) -> tuple[Passage, ...]:
        """The passages that were read for the ending."""
        found = self.passages
        return tuple(found[each] for each in self.sources if each in found)

    def add(self, step: Step) -> Episode:
        """Return the episode with one more step."""
        return self.model_copy(update={"steps": (*self.steps, step)})

    def without_texts(self) -> Episode:
        """Return the episode as a run keeps it: without the benchmark's text and what the run's record has."""
        text = self.asked
        error = self.error
        if error is not None:
            error = error.model_copy(update={"message": hide_question(error.message, text)})
        return self.model_copy(
            update={
                "question": Question("", self.question.id),
                "standalone": "",
                "model": "",
                "budget": None,
                "thresholds": {},
                "prompts": {},
                "verifier": "",
                "made_with": {},
                "calibrated": None,
                "error": error,
                "citations": tuple(Citation(each.passage_id, "", each.span, each.role) for each in self.citations),
                "steps": tuple(step.without_texts(text) for step in self.steps),
                "calls_before_failure": tuple(
                    call.model_copy(update={"messages": ()}) for call in self.calls_before_failure
                ),
            }
        )

    def without_timing(self) -> Episode:
        """Return the episode without what depends on the clock or the cache: equal for equal episodes."""

        def untimed(calls: Sequence[ModelCall]) -> tuple[ModelCall, ...]:
            return tuple(call.model_copy(update={"seconds": 0.0, "at": 0.0, "cached": False}) for call in calls)

        steps = (step.model_copy(update={"at": 0.0, "calls": untimed(step.calls)}) for step in self.steps)
        return self.model_copy(
            update={
                "usage": _untimed_usage(self.usage),
                "steps": tuple(steps),
                "calls_before_failure": untimed(self.calls_before_failure),
                "seconds": 0.0,
                "ended": "",
                "judge_seconds": 0.0,
            }
        )

    def summary(self) -> EpisodeSummary:
        """Return the numbers alone."""
        return EpisodeSummary.model_construct(**{name: getattr(self, name) for name in EpisodeSummary.model_fields})

    def __str__(self) -> str:
        sure = "" if self.answerability is None else f", answerability {self.answerability:.2f}"
        sure += f", {UNCALIBRATED}" if self.calibrated is False else ""
        return f"{self.answer or '(no answer)'} ({self.outcome}{sure})"


Progress: TypeAlias = Episode | Step | CallStarted | AnswerText
"""What the loop yields: the episode as it begins, calls that start and steps that end, the answer while it is written,
the episode as it ended."""


def to_json_line(record: BaseModel, **options: Any) -> str:
    """Return a record as JSON on one line, in ASCII, ended by a newline. Half of a surrogate pair becomes a ?."""
    try:
        return record.model_dump_json(ensure_ascii=True, **options) + "\n"
    except PydanticSerializationError:
        # A model, a question or a retriever may bring such text, and an episode that was paid for is kept all the same.
        return json.dumps(_replace_lone_surrogates(record.model_dump(mode="json", **options))) + "\n"


def _replace_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_replace_lone_surrogates(key): _replace_lone_surrogates(each) for key, each in value.items()}
    return [_replace_lone_surrogates(each) for each in value] if isinstance(value, list) else value


def hide_question(text: str, question: str) -> str:
    """Return a text with a mark in place of the question."""
    return text.replace(question, QUESTION).replace(question[:80], QUESTION) if question else text


def _untimed_usage(usage: Usage) -> Usage:
    parts = {purpose: _untimed_usage(part) for purpose, part in usage.by_purpose.items()}
    return replace(usage, seconds=0.0, cached_calls=0, by_purpose=parts)


def _check_usage(usage: Usage) -> None:
    for field in fields(usage):
        value = getattr(usage, field.name)
        if field.name != "by_purpose" and not 0 <= value < float("inf"):
            raise ValueError(f"usage.{field.name} is {value}")
    for part in usage.by_purpose.values():
        _check_usage(part)
