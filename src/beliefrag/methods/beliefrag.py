"""BeliefRAG: measure the evidence, update the belief, follow the branch policy.

`beliefrag` and `lean` are the same controller, under the profiles `paper` and `default` (`beliefrag.profiles`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import ReplyError, TokensSpent, UnreadableReply
from beliefrag.methods import METHODS, CostWithVerifier, MethodInputs, TypicalCost
from beliefrag.models.protocol import ChatReply
from beliefrag.policy import (
    NOTHING_OBSERVED,
    PRIOR,
    Calibration,
    Situation,
    Thresholds,
    calibrate_scores,
    cost,
    decide,
    measure,
    relevance,
    update,
)
from beliefrag.policy.decide import UNSURE
from beliefrag.prompts import Repairs, escape, read_line
from beliefrag.registry import NoOptions
from beliefrag.types import Action, Attempt, Belief, Decision, Observation, Passage
from beliefrag.verifiers import DRAFT_FORMS, Look


@dataclass(frozen=True, slots=True)
class BeliefRAGMethod:
    """The paper's controller, with what was fitted for a model and the thresholds of its branches."""

    calibration: Calibration
    thresholds: Thresholds = Thresholds()
    name: str = "beliefrag"
    selects: bool = False
    """Whether the model chooses among the legal actions."""

    def begin(self) -> Controller:
        """Return a controller that starts from the prior belief."""
        return _Controller(self)


@dataclass(frozen=True, slots=True)
class BeliefRAGOptions:
    """The options of BeliefRAG."""

    select: bool = False
    """Ask the model which legal action to take, in place of the branch rules: the paper's optional action selector."""


@METHODS.register(
    "beliefrag",
    title="BeliefRAG",
    summary="Measures the evidence, updates a belief, and searches, corrects, answers or declines by it.",
    options=BeliefRAGOptions,
    needs_calibration=True,
    profile="paper",
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
def build_beliefrag(options: BeliefRAGOptions, inputs: MethodInputs) -> BeliefRAGMethod:
    """Build the method from what was fitted for the model and the thresholds in force."""
    assert inputs.calibration is not None
    return BeliefRAGMethod(inputs.calibration, inputs.thresholds, selects=options.select)


@METHODS.register(
    "lean",
    title="Lean",
    summary="BeliefRAG under the default profile: linked retrieval, packed sentences, one read that is also the draft.",
    needs_calibration=True,
    profile="default",
    thresholds_from="the paper's; corrections are off",
    cost=TypicalCost(1, 430, 6),
)
def build_lean(options: NoOptions, inputs: MethodInputs) -> BeliefRAGMethod:
    """Build the same controller under its name in comparisons."""
    return replace(build_beliefrag(BeliefRAGOptions(), inputs), name="lean")


class _Controller:
    def __init__(self, method: BeliefRAGMethod) -> None:
        self._calibration = method.calibration
        self._thresholds = method.thresholds
        self._belief: Belief = PRIOR
        self._seen: tuple[str, ...] = ()
        self._observation: Observation = NOTHING_OBSERVED
        self._drafted_from: tuple[Passage, ...] = ()
        self._is_current = True
        self._selects = method.selects
        self._selected: Action | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        self._is_current = await self._observe(view, calls)
        x = measure(
            self._observation,
            relevance=relevance(view.scores, self._calibration.score_scale, view.budget.top_k),
            novelty=view.novelty,
            cost=cost(calls.usage.tokens, view.budget.tokens),
        )
        # Without evidence, or without an observation of it, only the cost changes.
        looked = view.passages and self._is_current
        self._belief = update(self._belief, x) if looked else replace(self._belief, cost=x.cost)
        measured = Measurement(
            observation=self._observation,
            diagnostics=x,
            belief=self._belief,
            answerability=self._calibration.answerability.probability(x, self._belief.sufficiency),
            retrieval_value=self._calibration.retrieval_value.probability(
                rounds=view.spent.rounds, novelty=x.novelty, sufficiency=self._belief.sufficiency
            ),
            attempt=self._attempt(view),
        )
        if self._selects:
            self._selected = await _select_action(view, measured, calls)
        return measured

    def _attempt(self, view: View) -> Attempt | None:
        """Return the verifier's draft if the answer prompt would show the same passages: then it is the answer."""
        draft = self._observation.draft
        return Attempt(draft) if draft is not None and self._drafted_from == view.answer_window else None

    async def _observe(self, view: View, calls: ModelCalls) -> bool:
        """Ask the verifier, and return whether the observation is about the present evidence.

        Evidence that was observed before is not shown again, nor what remains of it after the flagged passages are
        dropped. An observation that exceeds the token budget is skipped.
        """
        ids = tuple(passage.id for passage in view.passages)
        kept = tuple(each for each in self._seen if each not in self._observation.unhelpful)
        if ids and ids in (self._seen, kept) and not calls.rules.observe_each_step:
            return True
        # A draft form reads what the answer prompt would show so that its draft can be the answer.
        window = view.answer_window if calls.verifier in DRAFT_FORMS else view.verifier_window
        relevant = calibrate_scores(view.scores, self._calibration.score_scale)
        search = Look(window, view.passages, relevant, view.beyond)
        observed = await calls.verify(view.question, window, search=search) if ids else NOTHING_OBSERVED
        if observed is None:
            return False
        self._seen, self._observation, self._drafted_from = ids, observed, window
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
        # What the guarantee or the user holds back is not for the model to give.
        if self._selected is None or self._selected not in view.legal or decision.reason == UNSURE:
            return decision
        reads_evidence = self._selected is Action.REWRITE and self._thresholds.merge_rewriter
        return Decision(self._selected, "selected", legal=view.legal, reads_evidence=reads_evidence)


async def _select_action(view: View, measured: Measurement, calls: ModelCalls) -> Action | None:
    """Ask the model for one of the legal actions; None where it names none, twice, or no tokens are left to ask."""
    assert measured.belief and measured.answerability is not None and measured.retrieval_value is not None
    values = {**asdict(measured.belief), "answerability": measured.answerability}
    values |= {"retrieval value": measured.retrieval_value, "novelty": view.novelty}
    left = view.budget.rounds - view.spent.rounds, view.budget.actions - view.spent.actions
    state = [
        *(f"{name}: {value:.2f}" for name, value in values.items()),
        f"passages retained: {len(view.passages)}",
        f"searches left: {left[0]}, actions left: {left[1]}",
        f"actions so far: {', '.join(view.actions) or 'none'}",
    ]
    fields = {"question": escape(view.question.text), "state": "\n".join(state), "actions": ", ".join(view.legal)}

    def read(reply: ChatReply, repairs: Repairs) -> Action:
        word = read_line(reply.text).strip(" .*'\"").upper()
        if word not in view.legal:
            raise ReplyError(f"That is not one of {', '.join(view.legal)}.")
        return Action(word)

    try:
        return await calls.ask("policy", "selector", fields, read)
    except (UnreadableReply, TokensSpent):
        return None
