"""The values that travel through an episode.

All of them are frozen: a passage, a belief or a decision can be printed, compared and written down, and nothing changes
it later. What changes during an episode is kept in one place, the evidence workspace.

A `Question` carries no gold answer on purpose. What a controller or a prompt is given is built from this module
alone, so gold answers and labels cannot be reached from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Protocol

NO_ANSWER = "no-answer-in-the-documents"
"""The right answer of a question that the documents do not answer: declining is right, and any answer is wrong.

The metrics remove hyphens, so this is one word, which no model writes.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and nothing about the right answer."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, about a hundred words, the unit of retrieval."""

    id: str
    title: str
    text: str
    source: str = ""
    """Where it came from, for people: a file name or an address. Never opened."""
    place: str = ""
    """Where in its source it stands, for people: `page 3`, `row 12` or `lines 40-52`; empty if it is unknown."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Names with values that a search can be limited to, such as `("year", "2024")`; a name may have more values."""


class CitationRole(StrEnum):
    """What a cited sentence does for the answer."""

    LINK = "link"
    """It leads from the question to the sentence that holds the answer."""
    ANSWER = "answer"
    """It holds the answer."""
    COMPARISON = "comparison"
    """It is about one of the things that the question compares."""
    RELATED = "related"
    """It is what comes nearest: no sentence that was read holds the answer itself."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence that an answer rests on, and where a person finds it."""

    passage_id: str
    quote: str
    """The words of the passage, letter for letter."""
    span: tuple[int, int]
    """Where the quote begins and ends in the passage's text."""
    role: CitationRole
    title: str = ""
    source: str = ""
    place: str = ""
    """Page, row or lines of the passage in its source."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a retriever came to a passage, where it has more ways than one."""

    way: str
    """`search`, `named` (the question has its name), `link` (another passage has), `backlink` or `shared`."""
    passage: str = ""
    """The id of the passage that it was reached from."""
    name: str = ""
    """The name that led to it, as it is written there."""

    def __str__(self) -> str:
        name = f"\u201c{self.name}\u201d"
        match self.way:
            case "named":
                return f"the question names {name}"
            case "link":
                return f"{self.passage} names {name}"
            case "backlink":
                return f"names {name}, which {self.passage} is about"
            case "shared":
                return f"names {name}, as {self.passage} does"
            case _:
                return self.way


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a search returned, with the retriever's raw score."""

    passage: Passage
    score: float
    provenance: Provenance | None = None
    """How it was found, where the retriever says so."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation that was answered before, and what is kept of it."""

    question: str
    """As it was typed, or as it was rewritten to stand alone."""
    answer: str = ""
    """Empty where it was declined; what was asked back, where that was the reply."""
    found: tuple[Hit, ...] = ()
    """The passages that were read for it; a client that sends its history as text has none."""
    searched: str = ""
    """Where and with which filter they were found, which must hold again for them to be read again; empty for any."""


class Action(StrEnum):
    """The six things a controller can ask the harness to do."""

    RETRIEVE = "RETRIEVE"
    REWRITE = "REWRITE"
    VERIFY = "VERIFY"
    ANSWER = "ANSWER"
    STOP = "STOP"
    ABSTAIN = "ABSTAIN"


TERMINAL = frozenset({Action.ANSWER, Action.STOP, Action.ABSTAIN})
"""Actions that end an episode."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the verifier said about the evidence: four scores and the passages it would drop."""

    support: float
    conflict: float
    uncertainty: float
    gap: float
    unhelpful: tuple[str, ...] = ()
    """Passage ids, always a subset of the ids that were shown."""
    draft: str | None = None
    """The answer that the scores speak of, where the verifier form drafts one."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The answer that a state would give if the episode ended there, and what giving it would add to the cost."""

    answer: str
    tokens: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    """`exact_match`, `f1`, `cover`, and `judge` where it was judged. The benchmark adds them after the episode."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The seven measurements x = [R, S, C, U, G, N, K], each in [0, 1]."""

    relevance: float
    support: float
    conflict: float
    uncertainty: float
    gap: float
    novelty: float
    cost: float

    def vector(self) -> tuple[float, ...]:
        """Return the values in the order R, S, C, U, G, N, K."""
        return tuple(getattr(self, f.name) for f in fields(self))


@dataclass(frozen=True, slots=True)
class Belief:
    """The six quantities that persist over an episode."""

    sufficiency: float
    reliability: float
    conflict: float
    uncertainty: float
    gap: float
    cost: float


@dataclass(frozen=True, slots=True)
class Rules:
    """Where the paper's harness differs from ours; all are off but under the profile `paper`."""

    observe_each_step: bool = False
    """Whether the verifier observes the evidence in each step of every method that searches, and is charged to it."""
    literal_novelty: bool = False
    """Whether novelty is over new passages alone, where ours counts known and dropped ones as repetitions."""
    repeat_queries: bool = False
    """Whether a query that was searched for already is searched for again, where ours takes another one."""

    def __str__(self) -> str:
        named = (each.name.replace("_", " ") for each in fields(self) if getattr(self, each.name))
        return f"rules: {', '.join(named)}" if self else ""

    def __bool__(self) -> bool:
        return self != Rules()


@dataclass(frozen=True, slots=True)
class Budget:
    """What an episode may spend. Each limit stands by itself."""

    rounds: int = 3
    """The most searches."""
    top_k: int = 5
    """Passages that one search returns."""
    actions: int = 6
    """The most actions; the last one counts too."""
    tokens: int = 12_000
    """Tokens that all model calls but the one for the final answer may take, as far as that is known beforehand."""
    verifier_passages: int = 8
    """The most passages that the verifier sees."""
    answer_passages: int = 10
    """The most passages that the answer prompt shows."""

    def __post_init__(self) -> None:
        for f in fields(self):
            least = 0 if f.name == "rounds" else 1
            if getattr(self, f.name) < least:
                raise ValueError(f"budget {f.name} must be at least {least}, not {getattr(self, f.name)}")


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading one file may take. A file that exceeds a limit is left out and reported."""

    memory_mb: int = 2048
    """Megabytes of memory of the process that reads a file, where the system can limit it."""
    seconds: float = 120.0
    """Seconds for a file, and again for every full 100 MB of it."""
    output_mb: int = 512
    """Megabytes of text from a file, and again for every full 100 MB of it."""
    follow_links: bool = False
    """Whether links to files outside the given folders are read."""

    def __post_init__(self) -> None:
        for name, least in (("memory_mb", 256), ("seconds", 0.1), ("output_mb", 1)):
            if not getattr(self, name) >= least:
                raise ValueError(f"reading {name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number that a decision compared with a threshold, and how it came out."""

    name: str
    value: float
    relation: str
    threshold: float
    holds: bool

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} {'is' if self.holds else 'is not'} {self.relation} {self.threshold:.2f}"


class Cut(Protocol):
    """How many of its hits a search keeps, where that is known only from their scores.

    A method implements it as a frozen dataclass so that the decision that carries it can still be written down.
    """

    @property
    def depth(self) -> int:
        """How many candidates to fetch, in place of the budget's top-k."""
        ...

    def keep(self, scores: Sequence[float]) -> int:
        """Return how many of the candidates to keep, given their scores, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """One action, and all that a person needs to see why it was taken."""

    action: Action
    reason: str
    """A code: the branch that decided, with a detail after a colon if it has more than one reason. `explanation` turns
    it into words."""
    comparisons: tuple[Comparison, ...] = ()
    """The numbers behind it."""
    legal: tuple[Action, ...] = ()
    query: str | None = None
    """For RETRIEVE: search for exactly this. None leaves the query to the harness."""
    cut: Cut | None = None
    """For RETRIEVE: lets the scores say how many passages are kept. None keeps the budget's top-k."""
    drop: tuple[str, ...] | None = None
    """For VERIFY: drop exactly these ids. None drops what the latest observation flagged."""
    answer: str | None = None
    """For ANSWER and STOP: the answer, where the method already has it. None asks the answer prompt."""
    reads_evidence: bool = False
    """For REWRITE: the query is written in view of the evidence, and the next search takes it as it stands.

    Otherwise the rewriter sees the last query alone, and the query writer has the last word before the search.
    """
    shown: tuple[Passage, ...] | None = None
    """For ANSWER and STOP: what the answer prompt shows of the retained passages. None shows the answer window."""

    @property
    def branch(self) -> str:
        """The branch that decided."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Usage:
    """What an episode, or one purpose within it, has cost. The judge is never in here."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cached_calls: int = 0
    retries: int = 0
    """Attempts that gave nothing usable and were made again. Their tokens are in `wasted_tokens`, not above."""
    wasted_tokens: int = 0
    searches: int = 0
    by_purpose: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.tokens_in + self.tokens_out
