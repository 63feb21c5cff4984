"""Replay the policy over recorded states: where an episode would end with other fitted functions or thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.policy import Answerability, RetrievalValue, Situation, Thresholds, decide
from beliefrag.runs.states import State, Trajectory
from beliefrag.types import TERMINAL, Action

_REASON_MATTERS = frozenset({Action.VERIFY, Action.REWRITE})
"""Actions whose reason is passed to the rewriter: another reason could have brought another query."""


@dataclass(frozen=True, slots=True)
class ReplayedEnding:
    """The state at which the policy ends the episode."""

    state: State
    action: Action
    answerability: float

    @property
    def tokens(self) -> int:
        """What the episode would have cost."""
        attempt = self.state.step.attempt
        return self.state.step.tokens + (attempt.tokens if attempt and self.action is not Action.ABSTAIN else 0)


@dataclass(frozen=True, slots=True)
class UnrecordedStep:
    """Where the policy takes a step that was not recorded."""

    state: State
    action: Action


def replay_policy(
    recording: Trajectory,
    answerability: Answerability,
    retrieval_value: RetrievalValue,
    thresholds: Thresholds = Thresholds(),
) -> ReplayedEnding | UnrecordedStep:
    """Follow the policy over the recording of one question."""
    for state in recording.states:
        probability = answerability.probability(state.diagnostics, state.belief.sufficiency)
        value = retrieval_value.probability(
            rounds=state.rounds, novelty=state.diagnostics.novelty, sufficiency=state.belief.sufficiency
        )
        decision = decide(_read_situation(state, probability, value), thresholds)
        if decision.action in TERMINAL and (decision.action is Action.ABSTAIN or state.answer is not None):
            return ReplayedEnding(state, decision.action, probability)
        other_reason = decision.action in _REASON_MATTERS and state.step.reason != decision.reason
        if decision.action in TERMINAL or state.action is not decision.action or other_reason:
            break
    return UnrecordedStep(state, decision.action)


def consults_retrieval_value(state: State, answerability: Answerability, thresholds: Thresholds = Thresholds()) -> bool:
    """Return whether the policy reads the retrieval value at this state: where it neither answers nor corrects."""
    probability = answerability.probability(state.diagnostics, state.belief.sufficiency)
    worthless, worthy = (decide(_read_situation(state, probability, value), thresholds) for value in (0.0, 1.0))
    return worthless.branch != worthy.branch


def _read_situation(state: State, answerability: float, retrieval_value: float) -> Situation:
    return Situation(
        belief=state.belief,
        answerability=answerability,
        retrieval_value=retrieval_value,
        novelty=state.diagnostics.novelty,
        rounds=state.rounds,
        flagged=state.flagged,
        actions=state.actions,
        legal=state.step.legal,
        correction_fits=state.correction_fits,
        nothing_missing=state.nothing_missing,
        retained=state.retained,
    )
