"""Scores read from token probabilities, by asking small questions one at a time.

A small model's verbal numbers carry little signal; the odds it gives to "yes" against "no" carry much. Asked several
questions in one reply it drifts towards its own first answer, so each is asked by itself. All questions about the
whole evidence begin with the same text, which a local runtime reads only once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.errors import ReplyError
from beliefrag.models.protocol import ChatReply, TokenProbability
from beliefrag.prompts import Repairs, escape, evidence_block, read_answer
from beliefrag.types import Observation
from beliefrag.verifiers import ALTERNATIVES, VERIFIERS, Asker, Look
from beliefrag.verifiers.draft import require_tokens


@VERIFIERS.register(
    "probability",
    title="Probability",
    summary="Asks small yes/no questions and reads the probability of yes; a call for each passage and four more.",
    needs_token_probabilities=True,
)
@dataclass(frozen=True, slots=True)
class Probability:
    """A drafted answer, three questions about the whole evidence and one about each passage."""

    name: ClassVar[str] = "probability"
    prompts: ClassVar[tuple[str, ...]] = (
        *("answer", "verifier_support", "verifier_complete"),
        *("verifier_agree", "verifier_helps"),
    )
    helps: ClassVar[float] = 0.5
    margin: ClassVar[float] = 0.1
    """A passage is unhelpful when it helps with less than this probability and clearly less than the best one.

    The model's yes is not calibrated: on some questions every passage stays below one half, the needed one too.
    """

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Ask whether each passage helps, then for an answer, then whether the passages bear it out.

        There is conflict only as far as "no, they do not agree" is likelier than yes: undecided is not torn.
        """
        helps = [
            await ask_yes_or_no(asker, "verifier_helps", {**fields, "evidence": evidence_block([passage])})
            for passage in look.passages
        ]
        least = min(self.helps, max(helps) - self.margin)
        helpful = [passage for passage, p in zip(look.passages, helps, strict=True) if p >= least]
        draft, confidence = await asker.ask("verifier", "answer", fields, read_draft, top_logprobs=1)
        whole = {**fields, "draft": escape(draft)}
        support = await ask_yes_or_no(asker, "verifier_support", whole)
        complete = await ask_yes_or_no(asker, "verifier_complete", whole)
        # One passage alone cannot contradict itself.
        apart = {**fields, "evidence": evidence_block(helpful)}
        agree = await ask_yes_or_no(asker, "verifier_agree", apart) if len(helpful) > 1 else 1.0
        return Observation(
            support=support,
            conflict=max(0.0, 1.0 - 2.0 * agree),
            uncertainty=1.0 - confidence,
            gap=1.0 - complete,
            unhelpful=tuple(passage.id for passage in look.passages if passage not in helpful),
            draft=draft,
        )


async def ask_yes_or_no(asker: Asker, prompt: str, fields: Mapping[str, str], *, purpose: str = "verifier") -> float:
    """Ask one short question, and return the probability of yes against no in the reply."""
    return await asker.ask(
        purpose,
        prompt,
        fields,
        lambda reply, _: read_probability_of_yes(require_tokens(reply)),
        max_tokens=1,
        top_logprobs=ALTERNATIVES,
    )


def read_draft(reply: ChatReply, repairs: Repairs) -> tuple[str, float]:
    """Read the drafted answer and the probability of its least likely token."""
    return read_answer(reply.text), min(math.exp(min(0.0, token.logprob)) for token in require_tokens(reply))


def read_probability_of_yes(tokens: Sequence[TokenProbability]) -> float:
    """Return the share of "yes" in the odds of yes against no for the first token of a reply."""
    weights = {"yes": 0.0, "no": 0.0}
    for word, logprob in tokens[0].top if tokens else ():
        plain = word.strip(" \"'.*").lower()
        if plain in weights:
            weights[plain] += math.exp(min(0.0, logprob))
    total = sum(weights.values())
    if total <= 0.0:
        raise ReplyError("The reply is neither yes nor no.")
    return weights["yes"] / total
