"""Walks the branch policy over recorded states: how an episode would have ended with another fit or other thresholds.

Recorded data can tell that only as long as the policy does what some recording did. It may always end earlier, for the
answer of every state is on record. When it asks for a search, a rewriting or a correction that no recording of the
question made at that point, nobody knows what would have come of it: the walk has left the record, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beliefrag.policy import Answerability, RetrievalValue, Situation, Thresholds, decide
from beliefrag.runs.states import State, Trajectory
from beliefrag.types import TERMINAL, Action, Decision

__all__ = ["Ended", "LeftTheRecord", "walk"]

_REASON_MATTERS = frozenset({Action.VERIFY, Action.REWRITE})
"""Their reason is told to the rewriter, so another reason could have brought another query."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the policy ends the episode."""

    state: State
    action: Action
    answerability: float

    @property
    def tokens(self) -> int:
        """What the episode would have cost."""
        return self.state.tokens + (0 if self.action is Action.ABSTAIN else self.state.answer_tokens)


@dataclass(frozen=True, slots=True)
class LeftTheRecord:
    """Where the policy asks for something that nobody tried."""

    state: State
    action: Action


def walk(
    recordings: Sequence[Trajectory],
    answerability: Answerability,
    retrieval_value: RetrievalValue,
    thresholds: Thresholds = Thresholds(),
) -> Ended | LeftTheRecord:
    """Follows the policy over the recordings of one question, made with the same model, corpus and budget.

    Args:
        recordings: At least one; several where the question was recorded with and without corrections.
        answerability: The fit to decide with.
        retrieval_value: What a search is worth.
        thresholds: Where the branches switch.
    """
    following = list(recordings)
    place = 0
    while True:
        state = following[0].states[place]
        probability = answerability.probability(state.diagnostics, state.belief.sufficiency)
        value = retrieval_value.probability(
            rounds=state.rounds, novelty=state.diagnostics.novelty, sufficiency=state.belief.sufficiency
        )
        decision = decide(_situation(state, probability, value), thresholds)
        if decision.action in TERMINAL:
            answered = next((r.states[place] for r in following if r.states[place].answer is not None), None)
            if decision.action is Action.ABSTAIN or answered is not None:
                return Ended(answered or state, decision.action, probability)
            return LeftTheRecord(state, decision.action)
        following = [r for r in following if _did(r.states[place], decision) and len(r.states) > place + 1]
        if not following:
            return LeftTheRecord(state, decision.action)
        place += 1


def _did(state: State, decision: Decision) -> bool:
    if state.action is not decision.action:
        return False
    return decision.action not in _REASON_MATTERS or state.reason == decision.reason


def _situation(state: State, answerability: float, retrieval_value: float) -> Situation:
    return Situation(
        belief=state.belief,
        answerability=answerability,
        retrieval_value=retrieval_value,
        novelty=state.diagnostics.novelty,
        rounds=state.rounds,
        flagged=state.flagged,
        actions=state.actions,
        legal=state.legal,
        correction_fits=state.correction_fits,
        nothing_missing=state.nothing_missing,
        retained=state.retained,
    )
