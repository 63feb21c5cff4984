"""An episode in plain words: its steps, what is believed, why it searched and stopped, what would change its mind.

The terminal and the page to ask in both use these, so that no reader has to know the names of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from beliefrag import events
from beliefrag.outcome import Abstained, Answered, Failed, Outcome
from beliefrag.types import Action, Belief, CitationRole

__all__ = ["ACTION_WORDS", "BELIEF_WORDS", "Explanation", "describe_belief", "describe_reason", "explain_episode"]

ACTION_WORDS = {
    Action.RETRIEVE: "search",
    Action.REWRITE: "rephrase",
    Action.VERIFY: "check",
    Action.ANSWER: "answer",
    Action.STOP: "stop",
    Action.ABSTAIN: "decline",
}
"""What each action is called in front of people."""
BELIEF_WORDS = {
    "sufficiency": "enough found",
    "reliability": "trustworthy",
    "conflict": "contradicts",
    "uncertainty": "unsure",
    "gap": "missing",
    "cost": "spent",
    "answerability": "likely right",
}
"""What each number is called in front of people."""

_COMPARED = re.compile(r" \((?:[a-z ]+ \d+\.\d\d is (?:not )?[^()]*)\)")
_PROBABILITY = re.compile(r"(?<=probability )\d\.\d\d")
_BUDGET_ENDED = "no search is left within the budget"
_MOST_WORDS = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """Three lines about an episode that has ended."""

    searched: str
    """Why it searched, and how often."""
    stopped: str
    """Why it stopped."""
    would_change: str
    """What would change its mind."""


def describe_belief(belief: Belief | None, answerability: float | None) -> str:
    """Says in words what the evidence is worth, and how likely an answer from it is right."""
    parts = []
    if belief is not None:
        found = "most" if belief.sufficiency >= 0.6 else "part" if belief.sufficiency >= 0.4 else "little"
        parts.append(f"{found} of what is needed is there")
        if belief.conflict >= 0.5:
            parts.append("it contradicts itself")
        if belief.reliability < 0.3:
            parts.append("it is not trustworthy")
        if belief.gap >= 0.6:
            parts.append("something is missing")
        if belief.uncertainty >= 0.6:
            parts.append("the model is unsure")
    if answerability is not None:
        parts.append(f"an answer now is {answerability:.0%} likely right")
    return ", ".join(parts)


def describe_reason(reason: str) -> str:
    """Gives the reason of a step or an end without the numbers that were compared; probabilities are percentages."""
    return _PROBABILITY.sub(lambda found: f"{float(found[0]):.0%}", _COMPARED.sub("", reason))


def explain_episode(
    outcome: Outcome, stream: Sequence[events.Event], uncovered: Sequence[str] = (), *, name_options: bool = False
) -> Explanation:
    """Explains why an episode searched and stopped, and what would change its mind.

    Args:
        outcome: How it ended.
        stream: Its events.
        uncovered: Words of the question that stand in no passage that was read.
        name_options: Whether to name the options of the command line that change the end: only a terminal has them.
    """
    would_change = _explain_change(outcome, uncovered, name_options=name_options)
    return Explanation(_explain_searches(stream), _explain_end(outcome), would_change)


def _explain_searches(stream: Sequence[events.Event]) -> str:
    reasons: list[str] = []
    reason = ""
    for event in stream:
        if isinstance(event, events.Decided):
            reason = describe_reason(event.decision.reason)
        elif isinstance(event, events.Retrieved) and event.query is not None:
            reasons.append(reason)
    if not reasons:
        return "not at all"
    times = {1: "once", 2: "twice"}.get(len(reasons), f"{len(reasons)} times")
    first = "for the question itself, because nothing had been read"
    if len(reasons) == 1:
        return f"{times}, {first}"
    return f"{times}: {first}; then because: {'; '.join(dict.fromkeys(reasons[1:]))}"


def _explain_end(outcome: Outcome) -> str:
    reason = describe_reason(outcome.reason)
    if isinstance(outcome, Failed) or outcome.answerability is None:
        return reason
    if isinstance(outcome, Abstained):
        # Where nothing is given as an answer, only a guess can be likely or not.
        guess = f"; the guess is {outcome.answerability:.0%} likely right"
        return reason if outcome.best_guess is None else f"{reason}{guess}"
    return f"{reason}; {outcome.answerability:.0%} likely right"


def _explain_change(outcome: Outcome, uncovered: Sequence[str], *, name_options: bool) -> str:
    if isinstance(outcome, Failed):
        return outcome.remedy
    missing = ", ".join(f"\u201c{word}\u201d" for word in uncovered[:_MOST_WORDS])
    about = f"a document that says something about {missing}, which nothing that was read mentions" if missing else ""
    if isinstance(outcome, Answered):
        compared = any(citation.role is CitationRole.COMPARISON for citation in outcome.citations)
        quoted = "the sentences quoted" if compared or len(outcome.citations) > 1 else "the sentence quoted"
        otherwise = f"a document that says otherwise than {quoted}"
        return otherwise if outcome.citations else about or "a document that says it in plain words"
    parts = [about or "a document that says it in plain words"]
    if _BUDGET_ENDED in outcome.reason:
        options = "or more searches (--set budget.rounds=N, --set budget.tokens=N)"
        parts.append(options if name_options else "or more searches than the budget allows")
    if name_options and isinstance(outcome, Abstained) and outcome.best_guess is not None:
        parts.append("or --best-guess, which gives the guess as the answer")
    return ", ".join(parts)
