"""One episode of a run as a value: how it ended, what it scored and cost, and each step on the way.

`Episode` is the whole of it, with the replies of the model. `EpisodeSummary` has the numbers alone, and is small enough
to hold all episodes of a run in memory. `episode_format` writes and reads them as lines of `episodes.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from beliefrag.outcome import Failed
from beliefrag.types import Action, Belief, CitationRole, Comparison, Diagnostics, Provenance, Usage

__all__ = [
    "CitedSpan",
    "Episode",
    "EpisodeError",
    "EpisodeKey",
    "EpisodeSummary",
    "Injected",
    "ModelCall",
    "Search",
    "Step",
    "Timing",
    "TrialAnswer",
    "Verdict",
]


class EpisodeKey(NamedTuple):
    """Which episode it is: one method on one question of a dataset, with a seed."""

    dataset: str
    method: str
    question_id: str
    seed: int


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """Why an episode failed, or why the judge failed on it."""

    cause: str
    """The name of the error's class, which stays the same over versions."""
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said of an answer, and what asking it cost."""

    correct: bool | None
    """None where the judge failed; `error` then says why."""
    usage: Usage
    """The judge's own cost, which is in no method's cost."""
    error: EpisodeError | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Everything about an episode that depends on the clock or on the state of the reply cache."""

    model_seconds: float
    """How long the model took for its replies when they were made."""
    finished: str = ""
    """When the episode ended, in UTC."""
    seconds: float | None = None
    """From its first event to its last one."""
    cached_calls: int | None = None
    calls: tuple[float, ...] | None = None
    """The seconds of each model call; None in a line from before they were kept."""
    ends: tuple[float, ...] | None = None
    """When each reply came, in seconds since the episode's first event; None in a line from before that was kept."""
    cached: tuple[bool, ...] | None = None
    """Whether each reply came from the cache; None in a line from before that was kept."""
    judge_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """The ids of the passages that were injected into what searches found."""

    noise: tuple[str, ...]
    counterfactual: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the model, with its reply. Prompts are not kept: they would repeat the benchmark's text."""

    step: int
    purpose: str
    reply: str
    tokens_in: int
    tokens_out: int
    counted_by: str
    """Who counted the tokens: the server, or an estimate."""
    retries: int
    repairs: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of repair was needed to read the reply."""
    least_token: float | None = None
    """The probability of the reply's least likely token, where the model was asked for token probabilities."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a RETRIEVE step searched for and found."""

    query: str | None
    """None where the query was the question itself, and where no search was made. Where the question is a part of it,
    `[question]` stands for that part."""
    is_question: bool
    """Whether the query was the question itself, whose text is not kept."""
    hits: tuple[tuple[str, float], ...]
    """The id and the score of each passage found, best first."""
    added: tuple[str, ...]
    known: tuple[str, ...]
    refused: tuple[str, ...]
    found_by: Mapping[str, Provenance] = field(default_factory=dict)
    """How each passage was found, by id, where the retriever has more ways than one."""

    @property
    def was_made(self) -> bool:
        """Whether the retriever was asked. It is not where nothing was missing or no query could be paid for."""
        return self.query is not None or self.is_question


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """A cited sentence by its place alone: the benchmark's text is not kept."""

    passage_id: str
    start: int
    end: int
    role: CitationRole


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """The answer that the episode would have given if it had ended at this step."""

    answer: str
    tokens: int
    """What giving it would have added to the cost."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """`exact_match`, `f1`, `cover`, and `judge` where it was judged; empty where the answer is a set of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One decision of an episode: on which numbers it was made, and what it changed."""

    number: int
    """Counted from 0."""
    action: Action
    branch: str = ""
    """Which rule decided."""
    reason: str
    comparisons: tuple[Comparison, ...] = ()
    legal: tuple[Action, ...]
    diagnostics: Diagnostics | None
    """None for methods that measure nothing."""
    belief: Belief | None
    answerability: float | None = None
    retrieval_value: float | None = None
    tokens: int
    """Spent so far in the episode."""
    flagged: tuple[str, ...] = ()
    """The ids of the passages that the verifier would drop."""
    attempt: TrialAnswer | None = None
    search: Search | None = None
    """For RETRIEVE, unless it failed."""
    rewritten: str | None = None
    """For REWRITE: the new query."""
    dropped: tuple[str, ...] | None = None
    """For VERIFY: the ids of the passages that were removed."""
    evidence: tuple[str, ...]
    """The ids of the passages that are retained after the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The numbers of one episode, without its steps and replies."""

    key: EpisodeKey
    outcome: str
    metrics: Mapping[str, float | None]
    """Empty for a failed episode; None where a metric has no meaning for the question."""
    usage: Usage
    """Without seconds and cached calls, which are in `Timing`."""
    verdict: Verdict | None = None
    """None where nobody judged."""
    error: EpisodeError | None = None
    """Only for a failed episode."""
    seconds: float = 0.0
    """How long the model took for its replies when they were made."""
    offset: int = 0
    """The byte at which its line begins in the file."""

    @property
    def finished(self) -> bool:
        """Whether it ended with an answer or an abstention. A failed episode is tried again."""
        return self.outcome != Failed.name

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
        """Why the judge failed on it, as a stable name; empty where it did not, or was not asked."""
        return self.verdict.error.cause if self.verdict and self.verdict.error else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode of a run. Passages are named by id, and no question text is in it."""

    key: EpisodeKey
    outcome: str
    """The name of an outcome: answered, stopped, abstained or failed."""
    answer: str | None
    """None where it declined or failed."""
    metrics: Mapping[str, float | None]
    """Empty for a failed episode; None where a metric has no meaning for the question."""
    verdict: Verdict | None = None
    """None where nobody judged."""
    usage: Usage
    """Without seconds and cached calls, which are in `timing`."""
    reason: str
    """Why it ended as it did."""
    answerability: float | None = None
    """At the end; None for methods that have none."""
    sources: tuple[str, ...]
    """The ids of the passages that were read for the ending."""
    citations: tuple[CitedSpan, ...] = ()
    """The sentences that the answer rests on; in a line from before they were kept, none."""
    best_guess: str | None = None
    """Where it declined: what the answer would have been, if that is known."""
    steps: tuple[Step, ...]
    calls: tuple[ModelCall, ...]
    error: EpisodeError | None = None
    """Only for a failed episode."""
    timing: Timing
    injected: Injected | None = None
    """None where nothing is injected into what searches find."""

    @property
    def finished(self) -> bool:
        """Whether it ended with an answer or an abstention. A failed episode is tried again."""
        return self.outcome != Failed.name

    def summary(self, offset: int = 0) -> EpisodeSummary:
        """Gives the numbers of the episode alone.

        Args:
            offset: The byte at which its line begins in the file.
        """
        return EpisodeSummary(
            key=self.key,
            outcome=self.outcome,
            metrics=self.metrics,
            usage=self.usage,
            verdict=self.verdict,
            error=self.error,
            seconds=self.timing.model_seconds,
            offset=offset,
        )
