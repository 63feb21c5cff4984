"""Runs one question with any method, one action at a time, and yields everything that happens as events.

The loop alone carries out actions and enforces budgets; the evidence workspace alone changes the evidence. A method
only ever proposes. Whatever goes wrong ends in `Failed`, with what was paid so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from beliefrag import events
from beliefrag.answering.citing import Spans, choose_citations, find_nearest
from beliefrag.answering.packing import PackedPassage
from beliefrag.engine.controller import Measurement, Method, View, hide_question_id
from beliefrag.engine.model_calls import SUFFICIENT, CallRecorder, EvidencePacking, ModelCalls
from beliefrag.errors import BeliefRAGError, RetrievalError, TokensSpent
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.outcome import Abstained, Answered, Failed, Outcome, Stopped
from beliefrag.policy import Evidence, EvidenceChange, Spent, correction_fits, legal_actions, novelty
from beliefrag.prompts import Prompts
from beliefrag.registry import explain_mistake
from beliefrag.retrieval.protocol import Retriever
from beliefrag.types import Action, Belief, Budget, Decision, Hit, Passage, Question, Usage
from beliefrag.verifiers import VerifierForm

__all__ = ["Harness", "run"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Harness:
    """What all episodes share: model, retriever, prompts, verifier form and budget."""

    model: ChatModel
    retriever: Retriever
    prompts: Prompts
    verifier: VerifierForm
    budget: Budget = Budget()
    made_with: Mapping[str, str] = field(default_factory=dict)
    """What else shaped the episodes and must be known to judge them: calibration, corpus."""
    pack: int | None = None
    """The most words of evidence that a prompt shows; None shows whole passages."""
    guesses: bool = False
    """Whether a declined question without a draft is asked for its best guess, in one more call."""


async def run(question: Question, method: Method, harness: Harness) -> AsyncGenerator[events.Event, None]:
    """Yields the events of one episode as they happen; the last one is `Finished`.

    Closing the iterator cancels the episode, and with it the model call that it is waiting for.
    """
    queue: asyncio.Queue[events.Event | None] = asyncio.Queue()
    task = asyncio.create_task(_Episode(question, method, harness, queue.put_nowait).play())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class _Stamp(TypedDict):
    step: int
    at: float


class _Clock:
    """Where an episode stands: its step, and how long ago it began."""

    def __init__(self) -> None:
        self.step = 0
        self._began = time.perf_counter()

    def stamp(self) -> _Stamp:
        return _Stamp(step=self.step, at=round(time.perf_counter() - self._began, 4))


class _OutcomeFields(TypedDict):
    reason: str
    answerability: float | None
    belief: Belief | None
    sources: tuple[Passage, ...]
    usage: Usage


class _Episode:
    def __init__(
        self, question: Question, method: Method, harness: Harness, emit: Callable[[events.Event], None]
    ) -> None:
        self._question = question
        self._visible_question = hide_question_id(question)
        self._method = method
        self._harness = harness
        self._emit = emit
        self._clock = _Clock()
        self._meter = Meter(harness.model)
        self._evidence = Evidence()
        self._calls = ModelCalls(
            self._meter,
            harness.prompts,
            harness.verifier,
            _build_recorder(self._clock, emit),
            harness.budget.tokens,
            packing=None if harness.pack is None else _build_packing(harness.pack, self._evidence),
        )
        self._queries: list[str] = []
        self._rewritten: str | None = None
        self._query_is_final = False
        """Whether the latest REWRITE saw the evidence, so that the next search takes its query as it stands."""
        self._novelty = 1.0
        self._nothing_missing = False
        self._decisions: list[Decision] = []
        self._latest = Measurement()

    async def play(self) -> None:
        self._emit(
            events.Started(
                **self._clock.stamp(),
                question=self._question,
                method=self._method.name,
                model=self._harness.model.identity,
                budget=self._harness.budget,
                prompts=self._harness.prompts.hashes(),
                verifier=self._harness.verifier.name,
                made_with=self._harness.made_with,
            )
        )
        try:
            outcome = await self._run_steps()
        except BeliefRAGError as error:
            _log.debug("An episode failed.", exc_info=True)
            outcome = self._build_failure(type(error).__name__, error.message, error.remedy)
        except Exception as error:
            _log.debug("An episode broke off.", exc_info=True)
            outcome = self._build_failure(type(error).__name__, *explain_mistake(error))
        self._emit(events.Finished(**self._clock.stamp(), outcome=outcome))

    async def _run_steps(self) -> Outcome:
        controller = self._method.begin()
        while True:
            try:
                self._latest = await controller.measure(self._build_view(), self._calls)
            except TokensSpent:
                # What was not asked is not known; without tokens only an end is legal, which needs no measurement.
                self._latest = Measurement()
            measurement = self._latest
            # Measuring may have spent tokens, so what is legal is worked out again before the decision.
            view = self._build_view()
            decision = controller.decide(view, measurement)
            if decision.action not in view.legal:
                raise BeliefRAGError(
                    f"The method {self._method.name} chose {decision.action}, which is not legal here.",
                    remedy="This is a fault of the method: it must choose from view.legal.",
                )
            self._record_decision(decision, measurement)
            match decision.action:
                case Action.RETRIEVE:
                    await self._retrieve(decision)
                case Action.REWRITE:
                    await self._rewrite(decision)
                case Action.VERIFY:
                    self._prune(decision, measurement)
                case _:
                    return await self._finish(decision, view)
            self._clock.step += 1

    def _record_decision(self, decision: Decision, measurement: Measurement) -> None:
        self._decisions.append(decision)
        self._emit(
            events.Decided(
                **self._clock.stamp(),
                decision=decision,
                observation=measurement.observation,
                diagnostics=measurement.diagnostics,
                belief=measurement.belief,
                answerability=measurement.answerability,
                retrieval_value=measurement.retrieval_value,
                evidence=self._evidence.ids,
                tokens=self._meter.usage.tokens,
                attempt=measurement.attempt,
            )
        )

    async def _retrieve(self, decision: Decision) -> None:
        query = decision.query or await self._choose_query()
        self._query_is_final = False
        hits: tuple[Hit, ...] = ()
        candidates: tuple[float, ...] = ()
        change = EvidenceChange()
        logged = len(self._evidence.log)
        if query is None:
            self._nothing_missing = not self._calls.tokens_are_spent
        else:
            hits = await self._search(query, decision.cut.depth if decision.cut else self._harness.budget.top_k)
            if decision.cut:
                candidates = tuple(hit.score for hit in hits)
                # What no answer prompt could show is not retained: it would count as evidence that nobody read.
                hits = hits[: max(0, min(decision.cut.keep(candidates), self._harness.budget.answer_passages))]
            self._queries.append(query)
            self._rewritten = None
            before = self._evidence.passages
            change = self._evidence.add(hits, step=self._clock.step, reason=decision.reason)
            repeated = len(change.known) + len(change.refused)
            self._novelty = novelty(change.added, before, repeated=repeated)
        self._emit(
            events.Retrieved(
                **self._clock.stamp(),
                query=query,
                hits=hits,
                candidates=candidates,
                added=tuple(passage.id for passage in change.added),
                known=change.known,
                refused=change.refused,
                novelty=self._novelty,
                mutations=self._evidence.log[logged:],
                evidence=self._evidence.ids,
            )
        )

    async def _choose_query(self) -> str | None:
        """The first query is the question itself; later ones are written in view of the evidence."""
        if not self._queries:
            return self._question.text
        if self._query_is_final:
            return self._rewritten
        # With nothing retained there is no evidence to be aware of: the rewritten query is all there is.
        if self._rewritten is not None and not len(self._evidence):
            return self._rewritten
        window = self._evidence.window(self._harness.budget.answer_passages)
        try:
            # A rewritten query is no search that was made: named as one, the writer would keep away from it.
            return await self._calls.write_query(self._question, window, self._queries, instead=self._rewritten)
        except TokensSpent:
            return self._rewritten

    async def _search(self, query: str, depth: int) -> tuple[Hit, ...]:
        try:
            hits = await asyncio.to_thread(self._harness.retriever.search, query, depth)
        except BeliefRAGError:
            raise
        except Exception as error:
            raise RetrievalError(
                f"The search for {query[:80]!r} failed: {error}.", remedy="Check the retriever or the index."
            ) from error
        self._meter.count_search()
        return tuple(hits[:depth])

    async def _rewrite(self, decision: Decision) -> None:
        before = self._rewritten or self._queries[-1]
        earlier = self._decisions[-2] if len(self._decisions) > 1 else decision
        # In a correction the query failed for what started the correction, not for being the next link of the chain.
        reason = earlier.reason if earlier.action is Action.VERIFY else decision.reason
        after: str | None = before
        # A query that was not asked for leaves none to search for but one that an earlier REWRITE paid for.
        with contextlib.suppress(TokensSpent):
            after = self._rewritten = await self._write_other_query(decision, before, reason)
            self._query_is_final = decision.reads_evidence
        self._emit(
            events.Rewritten(
                **self._clock.stamp(),
                before=before,
                after=SUFFICIENT if after is None else after,
                reason=reason,
                evidence=self._evidence.ids,
            )
        )

    async def _write_other_query(self, decision: Decision, before: str, reason: str) -> str | None:
        if not decision.reads_evidence:
            return await self._calls.rewrite(self._question, before, reason, self._queries)
        window = self._evidence.window(self._harness.budget.answer_passages)
        return await self._calls.correct_query(self._question, window, self._queries, reason)

    def _prune(self, decision: Decision, measurement: Measurement) -> None:
        flagged = decision.drop
        if flagged is None:
            flagged = measurement.observation.unhelpful if measurement.observation else ()
        logged = len(self._evidence.log)
        self._evidence.drop(flagged, step=self._clock.step, reason=decision.reason)
        self._emit(
            events.Pruned(**self._clock.stamp(), mutations=self._evidence.log[logged:], evidence=self._evidence.ids)
        )

    async def _finish(self, decision: Decision, view: View) -> Outcome:
        compared = "; ".join(str(comparison) for comparison in decision.comparisons)
        reason = f"{decision.reason} ({compared})" if compared else decision.reason
        sources, shown = view.answer_window, self._shown_spans()
        if decision.action is Action.ABSTAIN:
            return self._decline(await self._find_guess(view), reason, sources, shown)
        attempt = self._latest.attempt
        answer = decision.answer or (attempt.answer if attempt and not attempt.tokens else None)
        if answer is None:
            answer = await self._calls.answer(self._question, sources if decision.shown is None else decision.shown)
        citations = choose_citations(self._question.text, answer, sources, shown=shown)
        kind = Answered if decision.action is Action.ANSWER else Stopped
        return kind(answer=answer, citations=citations, **self._outcome_fields(reason, sources))

    async def _find_guess(self, view: View) -> str | None:
        """Gives what the answer would be where a method declines: its draft, or else what the answer prompt says."""
        if self._latest.attempt:
            return self._latest.attempt.answer
        if not self._harness.guesses or not view.answer_window:
            return None
        try:
            return await self._calls.answer(self._question, view.answer_window, is_final=False)
        except BeliefRAGError:
            # The decision to decline stands, with or without a guess.
            _log.debug("There is no best guess.", exc_info=True)
            return None

    def _decline(self, guess: str | None, reason: str, sources: tuple[Passage, ...], shown: Spans | None) -> Abstained:
        asked = self._question.text
        nearest = choose_citations(asked, guess, sources, shown=shown) if guess else ()
        nearest = nearest or find_nearest(asked, sources, shown=shown)
        return Abstained(best_guess=guess, nearest=nearest, **self._outcome_fields(reason, sources))

    def _shown_spans(self) -> Spans | None:
        packed = self._calls.packed
        return None if packed is None else {each.passage.id: each.spans for each in packed}

    def _build_failure(self, cause: str, error: str, remedy: str) -> Failed:
        ending = self._outcome_fields(error, self._evidence.passages)
        # What was believed on the way to a failure is in the trace; the failure itself has no probability.
        ending["answerability"] = None
        return Failed(cause=cause, error=error, remedy=remedy, **ending)

    def _outcome_fields(self, reason: str, sources: tuple[Passage, ...]) -> _OutcomeFields:
        return _OutcomeFields(
            reason=reason,
            answerability=self._latest.answerability,
            belief=self._latest.belief,
            sources=sources,
            usage=self._meter.usage,
        )

    def _build_view(self) -> View:
        budget = self._harness.budget
        used = self._meter.usage.tokens
        tokens = max(used, budget.tokens) if self._calls.tokens_are_spent else used
        spent = Spent(len(self._queries), len(self._decisions), tokens)
        return View(
            question=self._visible_question,
            step=self._clock.step,
            passages=self._evidence.passages,
            scores=self._evidence.scores,
            verifier_window=self._evidence.window(budget.verifier_passages),
            answer_window=self._evidence.window(budget.answer_passages),
            queries=tuple(self._queries),
            rewritten=self._rewritten,
            novelty=self._novelty,
            actions=tuple(decision.action for decision in self._decisions),
            budget=budget,
            spent=spent,
            legal=legal_actions(
                budget,
                spent,
                has_evidence=len(self._evidence) > 0,
                has_query=bool(self._queries),
                nothing_missing=self._nothing_missing,
                has_rewritten=self._rewritten is not None,
            ),
            correction_fits=correction_fits(budget, spent) and not self._nothing_missing,
            nothing_missing=self._nothing_missing,
        )


def _build_recorder(clock: _Clock, emit: Callable[[events.Event], None]) -> CallRecorder:
    """Makes events of calls.

    It holds the clock and where events go, and nothing else. A controller is given the model calls, which hold this,
    and the rest of an episode leads to the retriever, which in a benchmark may have to know the gold answers.
    """

    def record_start(purpose: str) -> None:
        emit(events.CallStarted(**clock.stamp(), purpose=purpose))

    def record_finish(request: ChatRequest, reply: ChatReply, repairs: Mapping[str, int]) -> None:
        emit(
            events.CallFinished(
                **clock.stamp(),
                purpose=request.purpose,
                messages=tuple({"role": message.role, "content": message.content} for message in request.messages),
                reply=reply.text,
                tokens_in=reply.tokens_in,
                tokens_out=reply.tokens_out,
                counted_by=reply.counted_by,
                seconds=reply.seconds,
                cached=reply.cached,
                retries=reply.retries,
                repairs=repairs,
                least_token=reply.least_token,
            )
        )

    def record_packing(passages: Sequence[PackedPassage]) -> None:
        shown = tuple(events.ShownPassage(each.passage.id, each.spans) for each in passages)
        emit(events.Packed(**clock.stamp(), shown=shown))

    return CallRecorder(record_start, record_finish, record_packing)


def _build_packing(words: int, evidence: Evidence) -> EvidencePacking:
    """Packs evidence by the scores and texts of what is retained; a controller must not get the evidence itself."""
    return EvidencePacking(
        words,
        lambda passage_id: dict(zip(evidence.ids, evidence.scores, strict=True)).get(passage_id, 0.0),
        lambda passage_id: next((each.text for each in evidence.passages if each.id == passage_id), None),
    )
