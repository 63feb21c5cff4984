"""Verifier forms: ways to ask one model call about support, conflict, gap, uncertainty and unhelpful passages.

`structured` is the paper's: floats in JSON. `graded` asks for whole numbers after worked examples, and `probability`
reads the scores from the probabilities of yes/no tokens; both were made for small models. `slots` reads them from one
form in place of a call for each. `draft` and `stated` work the scores out from one drafted answer, for `lean`.

A new form is one file with a frozen dataclass, registered with `VERIFIERS.register`; see `beliefrag.registry`. Its
typical cost is that of one look at five passages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from beliefrag.errors import ReplyError
from beliefrag.models.protocol import ChatReply
from beliefrag.policy import NEUTRAL_RELEVANCE
from beliefrag.prompts import Repairs
from beliefrag.registry import Registry
from beliefrag.types import Observation, Passage

__all__ = [
    "ALTERNATIVES",
    "DRAFT_FORMS",
    "VERIFIERS",
    "Asker",
    "Look",
    "VerifierForm",
    "build_verifier",
    "judge_alike",
    "read_ids",
    "read_score",
]

_T = TypeVar("_T")

ALTERNATIVES = 10
"""How many alternatives of a token are asked for: yes and no are among them where the model means either."""


class Asker(Protocol):
    """How a form puts a question to the model: the part of `ModelCalls` that forms use."""

    async def ask(
        self,
        purpose: str,
        prompt: str,
        fields: Mapping[str, str],
        read: Callable[[ChatReply, Repairs], _T],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        top_logprobs: int = 0,
    ) -> _T:
        """Fill in a prompt, ask, and read the reply; ask once more when the reply cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What a form looks at: the passages as a prompt shows them, and what the search says of them."""

    passages: Sequence[Passage]
    """In the order of the evidence block, with the text that it shows."""
    retained: Sequence[Passage]
    """All passages that are retained, whole."""
    scores: Sequence[float]
    """How relevant the search finds each of the retained ones, from 0 to 1."""
    beyond: float = 0.0
    """The share of the latest search's scores that went to candidates which are not retained."""


def judge_alike(passages: Sequence[Passage]) -> Look:
    """Return a look at passages that no search has judged."""
    return Look(passages, passages, [NEUTRAL_RELEVANCE] * len(passages))


class VerifierForm(Protocol):
    """One way to find out support, conflict, gap, uncertainty and the unhelpful passages."""

    @property
    def name(self) -> str:
        """How settings call it."""
        ...

    @property
    def prompts(self) -> tuple[str, ...]:
        """The templates it uses: a calibration holds for these words only."""
        ...

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Look at the passages; the fields are safe to put into a prompt."""
        ...


VERIFIERS: Registry[VerifierForm, None] = Registry(
    "verifier form",
    "beliefrag.verifiers",
    {
        "structured": "beliefrag.verifiers.structured",
        "graded": "beliefrag.verifiers.structured",
        "probability": "beliefrag.verifiers.probability",
        "slots": "beliefrag.verifiers.slots",
        "draft": "beliefrag.verifiers.draft",
        "stated": "beliefrag.verifiers.draft",
    },
)


DRAFT_FORMS = ("draft", "stated")
"""The forms that read a drafted answer: with token probabilities, and for models that report none."""


def build_verifier(text: str) -> VerifierForm:
    """Build the form that `NAME` or `NAME:key=value,...` names."""
    return VERIFIERS.choose(text).build(None)


def read_ids(value: object, passages: Sequence[Passage], repairs: Repairs) -> tuple[str, ...]:
    """Turn the numbers of a reply back into passage ids; numbers of no passage are ignored and counted."""
    if not isinstance(value, list):
        raise ReplyError("unhelpful_doc_ids is not a list.")
    chosen: dict[str, None] = {}
    for item in value:
        text = str(item)
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
        if 1 <= number <= len(passages):
            chosen[passages[number - 1].id] = None
        else:
            repairs["unknown_ids"] += 1
    return tuple(chosen)


def read_score(fields: Mapping[str, Any], name: str, repairs: Repairs, *, out_of: float = 1.0) -> float:
    """Read a score in [0, 1]; one outside is moved to the nearest end and counted."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ReplyError(f"{name} is not a number.")
    try:
        score = float(value) / out_of
    except OverflowError:
        raise ReplyError(f"{name} is not a number that means anything.") from None
    if not math.isfinite(score):
        raise ReplyError(f"{name} is not a number.")
    if not 0.0 <= score <= 1.0:
        repairs["clamped"] += 1
    return min(1.0, max(0.0, score))
