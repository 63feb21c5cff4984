"""CRAG: grade the evidence; when it is poor, prune it, rewrite the query and search again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods import METHODS, CostWithVerifier, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.policy import NOTHING_OBSERVED
from beliefrag.types import Action, Comparison, Decision, Observation

__all__ = ["Crag"]


@METHODS.register(
    "crag",
    title="CRAG",
    summary="Grades what it found; drops poor passages, rewrites the query and searches again.",
    cost=CostWithVerifier(2.7, 1_060, 41, looks=1.1, measured={"probability": TypicalCost(11.5, 5_100, 53)}),
)
@dataclass(frozen=True, slots=True)
class Crag:
    """Corrective retrieval with the shared verifier as the grader (Yan et al., 2024).

    The original grades each passage with an evaluator of its own, cuts passages into strips, and turns to a web search.
    Here the verifier's support grades the evidence as a whole and its flags grade the passages: correct evidence is
    answered from; incorrect evidence goes altogether; of ambiguous evidence what is flagged goes. Then the query is
    rewritten and the same collection is searched again. The thresholds are ours.
    """

    name: ClassVar[str] = "crag"
    correct: float = 0.7
    """Support from which on the evidence is correct."""
    incorrect: float = 0.3
    """Support below which it is incorrect."""

    def __post_init__(self) -> None:
        if not self.incorrect <= self.correct:
            raise ValueError(f"incorrect must not be above correct, not {self.incorrect} above {self.correct}")

    def begin(self) -> Controller:
        """A controller that remembers the latest grade."""
        return _Controller(self)


class _Controller:
    def __init__(self, method: Crag) -> None:
        self._method = method

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        # Graded after each search, and only where something can still follow from the grade.
        if view.actions[-1:] == (Action.RETRIEVE,) and view.passages and Action.REWRITE in view.legal:
            return Measurement(observation=await calls.verify(view.question, view.verifier_window))
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        match view.actions[-1:]:
            case () if can_search(view):
                return search(view, "the first search is for the question")
            case (Action.VERIFY,) if Action.REWRITE in view.legal:
                return _rewrite(view, "poor passages are gone; look for better ones")
            case (Action.REWRITE,) if can_search(view):
                return search(view, "search with the rewritten query", query=view.rewritten)
            case (Action.RETRIEVE,):
                return self._judge(view, measurement.observation)
        return stop(view)

    def _judge(self, view: View, observation: Observation | None) -> Decision:
        if observation is None:
            if not view.passages and Action.REWRITE in view.legal:
                return _rewrite(view, "the search found nothing")
            return stop(view)
        support, method = observation.support, self._method
        correct = Comparison("support", support, "at least", method.correct, support >= method.correct)
        if correct.holds:
            return answer(view, "the evidence is graded correct", correct)
        if Action.REWRITE not in view.legal:
            return stop(view)
        incorrect = Comparison("support", support, "below", method.incorrect, support < method.incorrect)
        # A grade that could not be read condemns nothing: what is dropped can never come back.
        if incorrect.holds and observation is not NOTHING_OBSERVED:
            grade, reason = incorrect, "the passages found do not bear on the question"
            poor = tuple(passage.id for passage in view.verifier_window)
        else:
            grade, reason = correct, "the passages found settle the question only in part"
            poor = observation.unhelpful
        if poor and view.correction_fits:
            return Decision(Action.VERIFY, "prune", reason, (grade,), view.legal, drop=poor)
        return _rewrite(view, reason, grade)


def _rewrite(view: View, reason: str, *compared: Comparison) -> Decision:
    return Decision(Action.REWRITE, "rewrite", reason, compared, view.legal)
