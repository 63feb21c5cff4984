"""Replays the policy over recorded states: where an episode would end with other fitted functions or thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from beliefrag.policy import Answerability, Calibration, RetrievalValue, Situation, Thresholds, decide
from beliefrag.runs.states import State, Trajectory
from beliefrag.types import TERMINAL, Action, Decision

__all__ = [
    "CachedReplay",
    "ReplayedEnding",
    "UnrecordedStep",
    "consults_retrieval_value",
    "has_corrections",
    "replay_policy",
]


_REASON_MATTERS = frozenset({Action.VERIFY, Action.REWRITE})
"""Actions whose reason is told to the rewriter, so that another reason could have brought another query."""


@dataclass(frozen=True, slots=True)
class ReplayedEnding:
    """The state at which the policy ends the episode."""

    state: State
    action: Action
    answerability: float

    @property
    def tokens(self) -> int:
        """What the episode would have cost."""
        return self.state.tokens + (0 if self.action is Action.ABSTAIN else self.state.answer_tokens)


@dataclass(frozen=True, slots=True)
class UnrecordedStep:
    """Where the policy takes a step that nobody recorded."""

    state: State
    action: Action


def replay_policy(
    recordings: Sequence[Trajectory],
    answerability: Answerability,
    retrieval_value: RetrievalValue,
    thresholds: Thresholds = Thresholds(),
) -> ReplayedEnding | UnrecordedStep:
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
        decision = decide(_read_situation(state, probability, value), thresholds)
        if decision.action in TERMINAL:
            answered = next((r.states[place] for r in following if r.states[place].answer is not None), None)
            if decision.action is Action.ABSTAIN or answered is not None:
                return ReplayedEnding(answered or state, decision.action, probability)
            return UnrecordedStep(state, decision.action)
        following = [r for r in following if _took_decision(r.states[place], decision) and len(r.states) > place + 1]
        if not following:
            return UnrecordedStep(state, decision.action)
        place += 1


def consults_retrieval_value(state: State, answerability: Answerability, thresholds: Thresholds = Thresholds()) -> bool:
    """Says whether the policy asks at this state what a search is worth: where it neither answers nor corrects."""
    probability = answerability.probability(state.diagnostics, state.belief.sufficiency)
    worthless, worthy = (decide(_read_situation(state, probability, value), thresholds) for value in (0.0, 1.0))
    return worthless.branch != worthy.branch


def has_corrections(thresholds: Thresholds) -> bool:
    """Says whether anything can start a correction."""
    return thresholds.correct_conflict or thresholds.correct_unreliable or thresholds.correct_flagged


def _took_decision(state: State, decision: Decision) -> bool:
    if state.action is not decision.action:
        return False
    return decision.action not in _REASON_MATTERS or state.reason == decision.reason


def _read_situation(state: State, answerability: float, retrieval_value: float) -> Situation:
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


class _Fitted(Protocol):
    def probability(self, *args: Any, **kwargs: Any) -> float: ...


class _LoggedFunction:
    """A fitted function that keeps a list of the values that it gave."""

    def __init__(self, fitted: Any) -> None:
        self._fitted: _Fitted = fitted
        self.given: list[float] = []

    def probability(self, *args: Any, **kwargs: Any) -> float:
        self.given.append(self._fitted.probability(*args, **kwargs))
        return self.given[-1]


@dataclass(frozen=True, slots=True)
class _ThresholdRange:
    """Thresholds with the same ending: above the first number of each pair, up to the second."""

    answer: tuple[float, float]
    retrieval_value: tuple[float, float]
    novelty: tuple[float, float]

    def contains(self, t: Thresholds) -> bool:
        return (
            self.answer[0] < t.answer <= self.answer[1]
            and self.retrieval_value[0] < t.retrieval_value <= self.retrieval_value[1]
            and self.novelty[0] < t.novelty <= self.novelty[1]
        )


class CachedReplay:
    """Replays one question for many thresholds, and replays only once where the ending cannot differ.

    Args:
        recordings: The recordings of the question.
        calibration: What to decide with.
    """

    def __init__(self, recordings: Sequence[Trajectory], calibration: Calibration) -> None:
        self.recordings = recordings
        self._answerability = _LoggedFunction(calibration.answerability)
        self._retrieval_value = _LoggedFunction(calibration.retrieval_value)
        self._known: dict[bool, list[tuple[_ThresholdRange, ReplayedEnding | UnrecordedStep]]] = {True: [], False: []}

    def end(self, thresholds: Thresholds) -> ReplayedEnding | UnrecordedStep:
        """Gives the ending with these thresholds."""
        known = self._known[has_corrections(thresholds)]
        for box, end in known:
            if box.contains(thresholds):
                return end
        self._answerability.given.clear()
        self._retrieval_value.given.clear()
        end = replay_policy(
            self.recordings,
            cast("Answerability", self._answerability),
            cast("RetrievalValue", self._retrieval_value),
            thresholds,
        )
        novelties = [state.diagnostics.novelty for each in self.recordings for state in each.states]
        box = _ThresholdRange(
            answer=_unchanged_range(thresholds.answer, self._answerability.given),
            retrieval_value=_unchanged_range(thresholds.retrieval_value, self._retrieval_value.given),
            novelty=_unchanged_range(thresholds.novelty, novelties),
        )
        known.append((box, end))
        return end


def _unchanged_range(threshold: float, met: Sequence[float]) -> tuple[float, float]:
    """Gives the range in which a threshold can move without passing one of the numbers."""
    below = [number for number in met if number < threshold]
    return max(below, default=float("-inf")), min((n for n in met if n >= threshold), default=float("inf"))
