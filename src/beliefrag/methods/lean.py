"""Lean: read once, measure with the processor, and pay again only where that is likely to help.

Where the question asks for the earlier or later of two things and the passages give both dates, these are compared and
no model is asked (`retrieval.comparing`). Otherwise the first read is one call, whose draft is also the answer. All
diagnostics come from that draft, its token probabilities and local measurements (`verifiers.draft`). Where the answer
is not likely right, the move with the largest fitted value per token is made, if it is worth its tokens:

- reason: read the same sentences again, naming the facts first; only with a model that reports token probabilities;
- search: let the model write a query for what is missing.

The likeliest of all drafts is the answer, so a move that makes things worse does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods import METHODS, MethodInputs, TypicalCost
from beliefrag.methods.decisions import can_search, search, stop
from beliefrag.policy import (
    NOTHING_OBSERVED,
    PRIOR,
    UNSURE,
    Calibration,
    FittedValue,
    MoveValue,
    Situation,
    Thresholds,
    cost,
    decide_end,
    measure,
    relevance,
    update,
)
from beliefrag.retrieval.comparing import DateComparison, compare_dates
from beliefrag.types import Action, Attempt, Belief, Comparison, Decision, Diagnostics, Observation
from beliefrag.verifiers import VerifierForm
from beliefrag.verifiers.draft import Draft, reasoned_form

__all__ = ["LEAN_READS", "LEAN_SURVEY", "Lean", "LeanCollector", "LeanOptions", "Move", "build_lean"]

LEAN_SURVEY = "lean_survey"
"""The name of the state collector that makes the moves, where the first draft is unsure."""
LEAN_READS = "lean_reads"
"""The name of the state collector that only makes the first read."""


class Move(StrEnum):
    """What can be done about an answer that is not likely right, cheapest first."""

    REASON = "reason"
    SEARCH = "search"


_WORDS = {
    Move.REASON: "read the same sentences again, naming the facts first",
    Move.SEARCH: "search for what is missing, with a query that the model writes",
}
_NAMES = {Move.REASON: "a reasoned read", Move.SEARCH: "another search"}
_UNFITTED = {
    Move.REASON: MoveValue(FittedValue(-1.7, 0.0, 0.0, 0.0), 480.0),
    Move.SEARCH: MoveValue(FittedValue(-1.3, -0.5, 0.0, 0.0), 1_100.0),
}
"""What moves are taken to be worth where a calibration says nothing about them."""
_COMPARED = 0.96
"""How likely a comparison of dates is right, whatever the model: it was for 105 of the 105 train questions that it was
written with, whose 95 % interval ends at 0.965, and for 176 of 177 others,
whose few errors were looked at."""


@dataclass(frozen=True, slots=True)
class LeanOptions:
    """The options of lean.

    With the embedded model no move reaches `least`: on 300 train questions a reasoned read turned 9 of 121 wrong
    answers right, and a search 9 of 107.
    """

    sure: float = 0.5
    """Answer at once from this answerability on."""
    least: float = 0.25
    """Make a move only if it turns a wrong answer into a right one with at least this probability."""
    moves: int = 2
    """The most moves after the first read."""
    compare: bool = True
    """Whether a question for the earlier or later of two things is answered from the dates in their passages."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.sure <= 1.0 and 0.0 <= self.least <= 1.0):
            raise ValueError(f"sure and least lie between 0 and 1, not {self.sure} and {self.least}")
        if self.moves < 0:
            raise ValueError(f"moves is at least 0, not {self.moves}")


@dataclass(frozen=True, slots=True)
class Lean:
    """The lean controller, with what was fitted for a model and the form that reads its drafts."""

    name: ClassVar[str] = "lean"
    calibration: Calibration
    verifier: VerifierForm
    options: LeanOptions = LeanOptions()
    thresholds: Thresholds = Thresholds()
    promise: str = ""
    """The guarantee that the least answerability keeps to, in words, for the reason of an answer held back."""

    def begin(self) -> Controller:
        """A controller that starts from the prior belief."""
        return _Controller(self)


@METHODS.register(
    "lean",
    title="Lean",
    summary="Reads once, measures without further calls, and pays again only where that is likely to help.",
    options=LeanOptions,
    needs_calibration=True,
    reads_draft=True,
    searches_with="linked",
    packs=160,
    thresholds_from="ours; least lies above what moves were worth on 300 train questions",
    cost=TypicalCost(1, 430, 6),
)
def build_lean(options: LeanOptions, inputs: MethodInputs) -> Lean:
    """The method with what was fitted for the model."""
    assert inputs.calibration is not None
    return Lean(
        inputs.calibration,
        inputs.verifier or Draft(),
        options,
        replace(inputs.thresholds, answer=options.sure),
        inputs.promise,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """One draft, and how likely it is right."""

    observation: Observation
    diagnostics: Diagnostics
    belief: Belief
    answerability: float
    comparison: DateComparison | None = None
    """What was compared, where no model drafted the answer."""


class _Controller:
    def __init__(self, method: Lean) -> None:
        self._method = method
        self._calibration = method.calibration
        self._belief: Belief = PRIOR
        self._best: _Read | None = None
        self._seen: tuple[str, ...] = ()
        self._move: Move | None = None
        """The move that was chosen last, until it was carried out."""
        self._made: list[Move] = []

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        comparison = self._compare(view)
        observation = _observe_comparison(comparison) if comparison else await self._observe(view, calls)
        tokens = cost(calls.usage.tokens, view.budget.tokens)
        if observation is None:
            # Nothing new was read, or the tokens did not reach for it: what was known still holds.
            self._belief = replace(self._belief, cost=tokens)
            return self._measurement(view)
        scale = self._calibration.score_scale
        x = measure(
            observation,
            relevance=relevance(view.scores, scale, view.budget.top_k),
            novelty=view.novelty,
            cost=tokens,
        )
        self._belief = update(self._belief, x)
        fitted = self._calibration.answerability.probability(x, self._belief.sufficiency)
        read = _Read(observation, x, self._belief, _COMPARED if comparison else fitted, comparison)
        if self._best is None or read.answerability > self._best.answerability:
            self._best = read
        return self._measurement(view, read)

    def _compare(self, view: View) -> DateComparison | None:
        """Answers from dates; None where that cannot be, or was done for this evidence."""
        ids = tuple(passage.id for passage in view.passages)
        if not self._method.options.compare or not ids or ids == self._seen:
            return None
        comparison = compare_dates(view.question.text, view.answer_window)
        if comparison:
            self._seen = ids
        return comparison

    async def _observe(self, view: View, calls: ModelCalls) -> Observation | None:
        """Reads the evidence if it is new or is to be read again; None where there is nothing new to read."""
        ids = tuple(passage.id for passage in view.passages)
        move, self._move = self._move, None
        if not ids:
            return None
        if ids != self._seen:
            observed = await calls.verify(view.question, view.answer_window, form=self._method.verifier)
            self._seen = ids if observed is not None else self._seen
            return observed
        reasoned = reasoned_form(self._method.verifier)
        if move is Move.REASON and reasoned is not None:
            return await calls.verify(view.question, view.answer_window, form=reasoned)
        return None

    def _measurement(self, view: View, read: _Read | None = None) -> Measurement:
        """The latest read, or what holds where nothing was read, with the answer that ending here would give."""
        known = read or self._best
        x = known.diagnostics if known else measure(NOTHING_OBSERVED, relevance=0.0, novelty=view.novelty, cost=0.0)
        draft = self._best.observation.draft if self._best else None
        values = {move: worth for move, worth, _ in self._worths(view, x)}
        return Measurement(
            observation=known.observation if known else NOTHING_OBSERVED,
            diagnostics=x,
            belief=known.belief if known else self._belief,
            answerability=self._best.answerability
            if self._best
            else self._calibration.answerability.probability(x, self._belief.sufficiency),
            retrieval_value=max(values.values(), default=0.0),
            attempt=None if draft is None else Attempt(draft),
        )

    def _worths(self, view: View, x: Diagnostics) -> Iterator[tuple[Move, float, float]]:
        """Each move that could be made now, the chance that it turns the answer right, and what it costs."""
        if not view.passages or len(self._made) >= self._method.options.moves:
            return
        values = self._calibration.moves or _UNFITTED
        for move in Move:
            known = values.get(move)
            if known is None or not self._is_possible(move, view):
                continue
            sufficiency = (self._best.belief if self._best else self._belief).sufficiency
            worth = known.value.probability(rounds=view.spent.rounds, novelty=x.novelty, sufficiency=sufficiency)
            yield move, worth, known.tokens

    def _is_possible(self, move: Move, view: View) -> bool:
        if move is Move.REASON:
            # Only once for the same evidence: at temperature 0 the second time brings the same words.
            is_new = reasoned_form(self._method.verifier) is not None and Move.REASON not in self._made
            return is_new and Action.VERIFY in view.legal and view.spent.tokens < view.budget.tokens
        return can_search(view)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        assert measurement.belief and measurement.diagnostics and measurement.answerability is not None
        if not view.queries:
            return search(view, "the first search is for the question") if can_search(view) else stop(view)
        method = self._method
        unsure = Comparison(
            "answerability", measurement.answerability, "below", method.options.sure,
            measurement.answerability < method.options.sure,
        )  # fmt: skip
        possible: list[tuple[Move, float, float]] = []
        if unsure.holds and not view.nothing_missing:
            possible = list(self._worths(view, measurement.diagnostics))
            moves = [each for each in possible if each[1] >= method.options.least]
            if moves:
                return self._make(max(moves, key=lambda each: each[1] / each[2]), view, unsure)
        return self._end(view, measurement, possible)

    def _make(self, chosen: tuple[Move, float, float], view: View, unsure: Comparison) -> Decision:
        move, worth, tokens = chosen
        self._move = move
        self._made.append(move)
        compared = (unsure, self._compare_worth(move, worth))
        reason = f"{_WORDS[move]}: about {tokens:,.0f} tokens, and it helps with probability {worth:.2f}"
        if move is Move.REASON:
            return Decision(Action.VERIFY, move, reason, compared, view.legal, drop=())
        return Decision(Action.RETRIEVE, move, reason, compared, view.legal)

    def _compare_worth(self, move: Move, worth: float) -> Comparison:
        least = self._method.options.least
        return Comparison(f"value of the move {move}", worth, "at least", least, worth >= least)

    def _explain_no_move(
        self, view: View, measurement: Measurement, refused: Sequence[tuple[Move, float, float]]
    ) -> str:
        """Says why no further move is made, by the first rule that forbids one."""
        options = self._method.options
        if view.nothing_missing:
            return "the query writer finds nothing left to search for"
        if (measurement.answerability or 0.0) >= options.sure:
            return "the evidence still contradicts itself"
        if not view.passages:
            return "no move is made without a passage"
        if len(self._made) >= options.moves:
            return f"the limit of moves ({options.moves}) is reached"
        budget_ended = "" if can_search(view) else "no search is left within the budget"
        if not refused:
            return budget_ended or "no other move is possible"
        worths = " and ".join(
            f"{_NAMES[move]} helps with probability {worth:.2f} for about {tokens:,.0f} tokens"
            for move, worth, tokens in refused
        )
        return f"{budget_ended + ', and ' if budget_ended else ''}no move is likely enough to help: {worths}"

    def _end(self, view: View, measurement: Measurement, refused: Sequence[tuple[Move, float, float]]) -> Decision:
        assert measurement.belief and measurement.answerability is not None and measurement.diagnostics
        decision = decide_end(
            Situation(
                belief=measurement.belief,
                answerability=measurement.answerability,
                retrieval_value=measurement.retrieval_value or 0.0,
                novelty=measurement.diagnostics.novelty,
                rounds=view.spent.rounds,
                flagged=0,
                actions=view.actions,
                legal=view.legal,
                correction_fits=False,
                nothing_missing=view.nothing_missing,
                retained=len(view.passages),
            ),
            self._method.thresholds,
            why=self._explain_no_move(view, measurement, refused),
            refused=[self._compare_worth(move, worth) for move, worth, _ in refused],
        )
        if decision.branch == UNSURE and self._method.promise:
            decision = replace(decision, reason=f"not sure enough for {self._method.promise}")
        if self._best is not None and self._best.comparison and decision.action is not Action.ABSTAIN:
            decision = replace(decision, reason=f"dates were compared: {'; '.join(self._best.comparison.compared)}")
        if decision.action is not Action.ABSTAIN and self._best is not None:
            # A draft that could not be read leaves the answer to the answer prompt.
            decision = replace(decision, answer=self._best.observation.draft)
        return decision


def _observe_comparison(comparison: DateComparison) -> Observation:
    return Observation(support=1.0, conflict=0.0, uncertainty=1.0 - _COMPARED, gap=0.0, draft=comparison.answer)


@dataclass(frozen=True, slots=True)
class LeanCollector:
    """Makes the moves of lean one after the other, with the answer of each read on trial: states to fit on."""

    calibration: Calibration
    verifier: VerifierForm
    moves: tuple[Move, ...] = tuple(Move)
    unsure: float = 0.3
    """Moves are made where the first draft is at least this uncertain: elsewhere nobody asks what they are worth."""
    name: str = LEAN_SURVEY

    def begin(self) -> Controller:
        """A controller for one question."""
        return _Collector(self)


class _Collector:
    def __init__(self, method: LeanCollector) -> None:
        self._method = method
        self._left = list(method.moves)
        # What a comparison of dates gives says nothing about the model, which is what is fitted.
        self._controller = _Controller(Lean(method.calibration, method.verifier, LeanOptions(compare=False)))

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        # What each read gives by itself is wanted, not the best so far.
        self._controller._best = None
        return await self._controller.measure(view, calls)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        controller = self._controller
        if view.queries and not controller._made and measurement.diagnostics:
            is_sure = measurement.diagnostics.uncertainty < self._method.unsure
            self._left = [] if is_sure else self._left
        while view.queries and self._left:
            move = self._left.pop(0)
            if controller._is_possible(move, view):
                unsure = Comparison("answerability", 0.0, "below", 1.0, True)
                return controller._make((move, 1.0, 0.0), view, unsure)
        if not view.queries:
            return controller.decide(view, measurement)
        return replace(stop(view), answer=measurement.attempt.answer if measurement.attempt else None)
