"""BeliefRAG: measure the evidence, update the belief, follow the branch policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods import METHODS, CostWithVerifier, MethodInputs, TypicalCost
from beliefrag.policy import (
    NOTHING_OBSERVED,
    PRIOR,
    UNSURE,
    Calibration,
    Situation,
    Thresholds,
    cost,
    decide,
    measure,
    relevance,
    update,
)
from beliefrag.registry import NoOptions
from beliefrag.types import Attempt, Belief, Decision, Observation, Passage

__all__ = ["BeliefRAGMethod", "build_beliefrag"]


@dataclass(frozen=True, slots=True)
class BeliefRAGMethod:
    """The paper's controller, with what was fitted for a model and the thresholds of its branches."""

    name: ClassVar[str] = "beliefrag"
    calibration: Calibration
    thresholds: Thresholds = Thresholds()
    promise: str = ""
    """The guarantee that the least answerability keeps to, in words, for the reason of an answer held back."""

    def begin(self) -> Controller:
        """Gives a controller that starts from the prior belief."""
        return _Controller(self.calibration, self.thresholds, self.promise)


@METHODS.register(
    "beliefrag",
    title="BeliefRAG",
    summary="Measures the evidence, updates a belief, and searches, corrects, answers or declines by it.",
    needs_calibration=True,
    thresholds_from="the paper's; ours are those of abstaining, and of flags in the form slots (from train questions, "
    "and a look at dev ones)",
    cost=CostWithVerifier(
        2.5,
        1_310,
        36,
        looks=2.25,
        measured={"probability": TypicalCost(15, 8_620, 42), "slots": TypicalCost(4.5, 3_250, 46)},
    ),
)
def build_beliefrag(options: NoOptions, inputs: MethodInputs) -> BeliefRAGMethod:
    """Gives the method with what was fitted for the model and the thresholds in force.

    The measured costs are means of 32 and 90 episodes with the embedded 1.5B model on HotpotQA, 2WikiMultiHopQA and
    MuSiQue; the looks, the rewriter's and the query writer's calls are those of the first run.
    """
    assert inputs.calibration is not None
    return BeliefRAGMethod(inputs.calibration, inputs.thresholds, inputs.promise)


class _Controller:
    def __init__(self, calibration: Calibration, thresholds: Thresholds, promise: str) -> None:
        self._calibration = calibration
        self._promise = promise
        self._thresholds = thresholds
        self._belief: Belief = PRIOR
        self._seen: tuple[str, ...] = ()
        self._observation: Observation = NOTHING_OBSERVED
        self._drafted_from: tuple[Passage, ...] = ()
        self._is_current = True

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        self._is_current = await self._observe(view, calls)
        x = measure(
            self._observation,
            relevance=relevance(view.scores, self._calibration.score_scale, view.budget.top_k),
            novelty=view.novelty,
            cost=cost(calls.usage.tokens, view.budget.tokens),
        )
        # With no evidence, or none that could be looked at, there is nothing to update on: the belief stays, apart
        # from what was spent.
        looked = view.passages and self._is_current
        self._belief = update(self._belief, x) if looked else replace(self._belief, cost=x.cost)
        return Measurement(
            observation=self._observation,
            diagnostics=x,
            belief=self._belief,
            answerability=self._calibration.answerability.probability(x, self._belief.sufficiency),
            retrieval_value=self._calibration.retrieval_value.probability(
                rounds=view.spent.rounds, novelty=x.novelty, sufficiency=self._belief.sufficiency
            ),
            attempt=self._attempt(view),
        )

    def _attempt(self, view: View) -> Attempt | None:
        """Gives the verifier's draft, if the answer prompt would see the same passages: then it is the answer."""
        draft = self._observation.draft
        return Attempt(draft) if draft is not None and self._drafted_from == view.answer_window else None

    async def _observe(self, view: View, calls: ModelCalls) -> bool:
        """Asks the verifier, and says whether the observation is about the present evidence.

        What it saw last it is not shown again, nor what is left of that once the passages are gone that it flagged:
        those were judged already. An observation that the token budget does not reach for is not made.
        """
        ids = tuple(passage.id for passage in view.passages)
        kept = tuple(each for each in self._seen if each not in self._observation.unhelpful)
        if ids and ids in (self._seen, kept):
            return True
        observed = await calls.verify(view.question, view.verifier_window) if ids else NOTHING_OBSERVED
        if observed is None:
            return False
        self._seen, self._observation, self._drafted_from = ids, observed, view.verifier_window
        return True

    def decide(self, view: View, measurement: Measurement) -> Decision:
        assert measurement.belief and measurement.diagnostics
        assert measurement.answerability is not None and measurement.retrieval_value is not None
        retained = {passage.id for passage in view.passages}
        decision = decide(
            Situation(
                belief=measurement.belief,
                answerability=measurement.answerability,
                retrieval_value=measurement.retrieval_value,
                novelty=measurement.diagnostics.novelty,
                rounds=view.spent.rounds,
                flagged=len(retained.intersection(self._observation.unhelpful)),
                actions=view.actions,
                legal=view.legal,
                correction_fits=view.correction_fits,
                nothing_missing=view.nothing_missing,
                retained=len(retained),
            ),
            self._thresholds,
        )
        if decision.branch == UNSURE and self._promise:
            return replace(decision, reason=f"not sure enough for {self._promise}")
        return decision
