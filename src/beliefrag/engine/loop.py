"""Run one question with any method, one action at a time, and yield each step as it ends.

Only the loop carries out actions and enforces budgets, and only the evidence workspace changes the evidence; a method
proposes. An error ends an episode as failed, with what was paid until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from beliefrag.answering.citing import Spans, choose_citations, find_nearest
from beliefrag.answering.conversation import (
    bound_history,
    carry_passages,
    describe_history,
    describe_searched,
    find_unclear,
    stands_alone,
)
from beliefrag.answering.counting import asks_for_list, find_new, is_own_count
from beliefrag.answering.packing import PackedPassage, lower_words
from beliefrag.answering.sentences import AnswerWriter
from beliefrag.engine.calls import SUFFICIENT, CallRecorder, EvidencePacking, ModelCalls
from beliefrag.engine.controller import Measurement, Method, View
from beliefrag.errors import BeliefRAGError, RetrievalError, TokensSpent
from beliefrag.explanation import UNCLEAR, describe_reason
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.policy import Evidence, EvidenceChange, Spent, Thresholds, correction_fits, legal_actions, novelty
from beliefrag.prompts import Prompts
from beliefrag.record import (
    AnswerText,
    CallStarted,
    Episode,
    Failure,
    ModelCall,
    Outcome,
    Progress,
    Search,
    ShownPassage,
    Step,
)
from beliefrag.registry import explain_mistake
from beliefrag.retrieval.languages import detect_language, language_of
from beliefrag.retrieval.protocol import Retriever, correct_words
from beliefrag.settings import AnswerStyle
from beliefrag.types import Action, Budget, Decision, Diagnostics, Hit, Passage, Question, Rules, Turn
from beliefrag.verifiers import VerifierForm
from beliefrag.verifiers.reading import CLOSED, NO_ANSWER_WORDS

_log = logging.getLogger(__name__)
_OUTCOMES = {Action.ANSWER: Outcome.ANSWERED, Action.STOP: Outcome.STOPPED, Action.ABSTAIN: Outcome.ABSTAINED}
_MOST_GATHERED = 50
"""The passages that are read for a question about the whole collection."""


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
    rules: Rules = Rules()
    """Where the paper's harness is followed in place of ours."""
    calibrated: bool | None = None
    """Whether probabilities were fitted for this model and search; None for a method that gives none."""
    guesses: bool = False
    """Whether a declined question without a draft is asked for its best guess, in one more call."""
    watch: Callable[[Diagnostics], Mapping[str, str]] | None = None
    """Is told how each question was measured, and returns what that changes in `made_with`."""
    candidates: int = 0
    """How many candidates of a search are scored, to tell how much of what is relevant was not retained."""
    style: AnswerStyle = "short"
    """How an answer is written once it is decided that there is one."""
    collection: int | None = None
    """How many passages there are to search; None where that is not known."""
    asks_back: bool = False
    """Whether a question that cannot be understood by itself is declined before anything is searched, and, by a method
    with a probability, an answer in sentences after it was written, if the evidence supports none of them."""


async def run(
    question: Question, method: Method, harness: Harness, history: Sequence[Turn] = ()
) -> AsyncGenerator[Progress, None]:
    """Yield the episode as it begins, calls that start, steps that end, the answer while it is written, and the end.

    Closing the iterator cancels the episode, and with it the model call that it is waiting for.

    Args:
        question: What is asked; a follow-up may refer to the history.
        method: What controls the episode.
        harness: What all episodes share.
        history: The turns of the conversation so far, the latest last.
    """
    queue: asyncio.Queue[Progress | None] = asyncio.Queue()
    task = asyncio.create_task(_Player(question, method, harness, queue.put_nowait, history).play())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (progress := await queue.get()) is not None:
            yield progress
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def play(question: Question, method: Method, harness: Harness, history: Sequence[Turn] = ()) -> Episode:
    """Run an episode to its end."""
    return await _Player(question, method, harness, history=history).play()


def hide_question_id(question: Question) -> Question:
    """Return the question as a controller sees it: a benchmark's id can tell the number of hops or the split.

    The id that it gets instead is the same everywhere so that a method can seed its draws by it.
    """
    if not question.id:
        return question
    return Question(question.text, hashlib.sha256(question.id.encode("utf-8", "replace")).hexdigest()[:16])


class _CallLog:
    """Turns model calls into records.

    It knows nothing else of the episode. A controller is given the model calls, which hold this, and the rest of an
    episode leads to the retriever, which in a benchmark may have to know the gold answers.
    """

    def __init__(self, emit: Callable[[Progress], None] | None) -> None:
        self._began = time.perf_counter()
        self.emit = emit or (lambda _: None)
        self._on_text = self._record_text if emit else None
        self.calls: list[ModelCall] = []
        self.shown: tuple[ShownPassage, ...] = ()
        self._answer = ""

    @property
    def seconds(self) -> float:
        """The time since the episode began."""
        return round(time.perf_counter() - self._began, 4)

    def take_calls(self) -> tuple[ModelCall, ...]:
        """Return the calls since this was last asked."""
        calls, self.calls = tuple(self.calls), []
        return calls

    def recorder(self) -> CallRecorder:
        """Return the functions that model calls are reported to."""
        return CallRecorder(self._record_start, self._record_reply, self._record_packing, self._on_text)

    def _record_start(self, purpose: str) -> None:
        self.emit(CallStarted(purpose=purpose))

    def _record_text(self, text: str) -> None:
        if text != self._answer:
            at = len(self._answer) if text.startswith(self._answer) else 0
            self._answer = text
            self.emit(AnswerText(at=at, text=text[at:]))

    def _record_reply(self, request: ChatRequest, reply: ChatReply, repairs: Mapping[str, int]) -> None:
        messages = tuple({"role": message.role, "content": message.content} for message in request.messages)
        self.calls.append(
            ModelCall(
                purpose=request.purpose,
                reply=reply.text,
                tokens_in=reply.tokens_in,
                tokens_out=reply.tokens_out,
                counted_by=reply.counted_by,
                retries=reply.retries,
                repairs=repairs,
                least_token=reply.least_token,
                messages=messages,
                seconds=round(reply.seconds, 4),
                at=self.seconds,
                cached=reply.cached,
            )
        )

    def _record_packing(self, passages: Sequence[PackedPassage]) -> None:
        self.shown = tuple(ShownPassage(passage_id=each.passage.id, spans=each.spans) for each in passages)


class _Player:
    def __init__(
        self,
        question: Question,
        method: Method,
        harness: Harness,
        emit: Callable[[Progress], None] | None = None,
        history: Sequence[Turn] = (),
    ) -> None:
        self._question = question
        """What is answered: the question as it was typed until it is rewritten to stand alone."""
        self._history = bound_history(history)
        self._method = method
        self._harness = harness
        self._log = _CallLog(emit)
        self._emit = self._log.emit
        self._meter = Meter(harness.model)
        self._evidence = Evidence()
        self._calls = ModelCalls(
            self._meter,
            harness.prompts,
            harness.verifier,
            self._log.recorder(),
            harness.budget.tokens,
            packing=None if harness.pack is None else _build_packing(harness.pack, self._evidence),
            rules=harness.rules,
        )
        self._queries: list[str] = []
        self._rewritten: str | None = None
        self._query_is_final = False
        """Whether the latest REWRITE saw the evidence so that the next search takes its query as it is."""
        self._novelty = 1.0
        self._beyond = 0.0
        self._nothing_missing = False
        self._decisions: list[Decision] = []
        self._steps: list[Step] = []
        self._latest = Measurement()
        self._pending: Step | None = None
        """The step whose action is being carried out."""
        self._gathered: dict[str, Any] = {}
        """What reading on came to, for a question about the whole collection."""

    async def play(self) -> Episode:
        thresholds = getattr(self._method, "thresholds", None)
        episode = Episode(
            method=self._method.name,
            question=self._question,
            model=self._harness.model.identity,
            budget=self._harness.budget,
            thresholds=asdict(thresholds) if isinstance(thresholds, Thresholds) else {},
            prompts=self._harness.prompts.hashes(),
            verifier=self._harness.verifier.name,
            made_with=self._harness.made_with,
            collection=self._harness.collection,
            calibrated=self._harness.calibrated,
        )
        try:
            try:
                episode = episode.model_copy(update=await self._understand_question())
            finally:
                self._emit(episode)
            ending = await self._run_steps()
        except BeliefRAGError as error:
            _log.debug("An episode failed.", exc_info=True)
            ending = self._fail(type(error).__name__, error.message, error.remedy)
        except Exception as error:
            _log.debug("An episode failed with an unexpected error.", exc_info=True)
            ending = self._fail(type(error).__name__, *explain_mistake(error))
        ending |= {"steps": tuple(self._steps), "usage": self._meter.usage, "seconds": self._log.seconds}
        state = self._latest.diagnostics
        if self._harness.watch and state and ending["outcome"] is not Outcome.FAILED:
            ending["made_with"] = {**self._harness.made_with, **self._harness.watch(state)}
        episode = episode.model_copy(update=ending)
        self._emit(episode)
        return episode

    async def _understand_question(self) -> dict[str, Any]:
        """Correct the question, make it stand alone, take up earlier evidence, and return what that came to."""
        typed = text = self._question.text
        if self._history and not stands_alone(typed):
            text = await self._calls.stand_alone(self._question, describe_history(self._history))
        if not self._harness.rules:
            text = await asyncio.to_thread(correct_words, self._harness.retriever, text)
        self._question = replace(self._question, text=text)
        carried = carry_passages(text, self._history, describe_searched(self._harness.made_with))
        self._evidence.add(carried)
        rewritten = "" if self._question.text == typed else self._question.text
        return {"standalone": rewritten, "carried": carried}

    async def _run_steps(self) -> dict[str, Any]:
        """Take steps until one ends the episode, and return how it ended."""
        if self._harness.asks_back and (unclear := find_unclear(self._question.text)) is not None:
            view = self._build_view()
            decision = Decision(Action.ABSTAIN, f"{UNCLEAR}:{unclear}", legal=view.legal)
            self._begin_step(decision)
            self._end_step()
            return {"outcome": Outcome.ABSTAINED}
        controller = self._method.begin()
        while True:
            try:
                view = self._build_view()
                self._latest = await controller.measure(view, self._calls)
                if self._harness.rules.observe_each_step and view.passages and self._latest.observation is None:
                    # The method has no use for it, and is charged for it all the same.
                    await self._calls.verify(self._question, view.verifier_window)
            except TokensSpent:
                # What was not asked is not known; without tokens only an end is legal, which needs no measurement.
                self._latest = Measurement()
            # Measuring may have spent tokens, so what is legal is worked out again before the decision.
            view = self._build_view()
            decision = await self._read_on(controller.decide(view, self._latest), view)
            if decision.action not in view.legal:
                raise BeliefRAGError(
                    f"The method {self._method.name} chose {decision.action}, which is not legal here.",
                    remedy="This is a fault of the method: it must choose from view.legal.",
                )
            self._begin_step(decision)
            ending: dict[str, Any] | None = None
            match decision.action:
                case Action.RETRIEVE:
                    changes = await self._retrieve(decision)
                case Action.REWRITE:
                    changes = {"rewritten": await self._rewrite(decision)}
                case Action.VERIFY:
                    changes = {"dropped": self._prune(decision)}
                case _:
                    changes, ending = {}, await self._finish(decision, view)
                    if ending["outcome"] is Outcome.ABSTAINED and decision.action is not Action.ABSTAIN:
                        changes = {"action": Action.ABSTAIN, "reason": "abstain-unsupported"}
            self._end_step(**changes)
            if ending is not None:
                return ending

    async def _read_on(self, decision: Decision, view: View) -> Decision:
        """Read on before a question about the whole collection is answered, and decline a count over part of it."""
        draft = decision.answer or (self._latest.attempt.answer if self._latest.attempt else None)
        if not self._harness.asks_back or decision.action not in {Action.ANSWER, Action.STOP} or draft is None:
            return decision
        question, read, whole = self._question.text, view.answer_window, self._harness.collection
        counts = is_own_count(question, draft, read)
        if whole == len(read) or not (counts or asks_for_list(question)):
            return decision
        if Action.RETRIEVE in view.legal:
            read = await self._gather(draft, view, counts=counts)
        if not counts or (self._gathered and whole == len(read)):
            return decision
        return Decision(Action.ABSTAIN, "abstain-own-count", decision.comparisons, decision.legal)

    async def _gather(self, draft: str, view: View, *, counts: bool) -> tuple[Passage, ...]:
        """Collect what is listed or counted, some passages at a time, until some add nothing; return what was read."""
        self._begin_step(Decision(Action.RETRIEVE, "retrieve:collection", legal=view.legal))
        hits = await self._search(self._question.text, max(_MOST_GATHERED, self._harness.budget.top_k))
        found = {each.id: each for each in (*view.answer_window, *(hit.passage for hit in hits))}
        passages, size = tuple(found.values()), self._harness.budget.top_k
        items: list[str] = []
        read: tuple[Passage, ...] = ()
        with contextlib.suppress(TokensSpent):
            while more := passages[len(read) : len(read) + size]:
                new = find_new(await self._calls.gather(self._question, more), items)
                items, read = [*items, *new], (*read, *more)
                # A list ends where reading on brings nothing; a number needs the whole collection.
                if not new and not (counts and len(passages) == self._harness.collection):
                    break
        self._queries.append(self._question.text)
        search = Search(
            query=self._question.text,
            hits=tuple((hit.passage.id, hit.score) for hit in hits),
            added=tuple(each.id for each in read if each not in view.passages),
        )
        self._end_step(search=search, passages={each.id: each for each in read})
        writer = AnswerWriter(self._question.text, "", read, None, items)
        if writer.sentences:
            listed = "; ".join(each.text for each in writer.sentences)
            self._gathered = {
                "answer": f"{len(writer.sentences)}: {listed}" if counts else listed,
                "short_answer": draft,
                "sentences": () if counts else tuple(writer.sentences),
                "left_out": writer.left_out,
                "citations": tuple(writer.citations),
                "sources": tuple(each.id for each in read),
                # What was fitted is the probability of the draft.
                "calibrated": None if self._harness.calibrated is None else False,
            }
        return read

    def _begin_step(self, decision: Decision) -> None:
        self._decisions.append(decision)
        latest = self._latest
        self._pending = Step(
            number=len(self._steps),
            action=decision.action,
            reason=decision.reason,
            comparisons=decision.comparisons,
            legal=decision.legal,
            diagnostics=latest.diagnostics,
            belief=latest.belief,
            answerability=latest.answerability,
            retrieval_value=latest.retrieval_value,
            tokens=self._meter.usage.tokens,
            flagged=latest.observation.unhelpful if latest.observation else (),
            attempt=latest.attempt,
            at=self._log.seconds,
        )

    def _end_step(self, **changes: Any) -> None:
        assert self._pending is not None
        ended = {"evidence": self._evidence.ids, "shown": self._log.shown, "calls": self._log.take_calls()}
        step = self._pending.model_copy(update=changes | ended)
        self._pending = None
        self._steps.append(step)
        self._emit(step)

    async def _retrieve(self, decision: Decision) -> dict[str, Any]:
        query = decision.query or await self._choose_query()
        self._query_is_final = False
        hits: tuple[Hit, ...] = ()
        candidates: tuple[float, ...] = ()
        change = EvidenceChange()
        if query is None:
            self._nothing_missing = not self._calls.tokens_are_spent
        else:
            kept = self._harness.budget.top_k
            depth = decision.cut.depth if decision.cut else max(kept, self._harness.candidates)
            found = await self._search(query, depth)
            if decision.cut or depth > kept:
                candidates = tuple(hit.score for hit in found)
            if decision.cut:
                # What no answer prompt could show is not retained: it would count as evidence that was never read.
                kept = max(0, min(decision.cut.keep(candidates), self._harness.budget.answer_passages))
            hits = found[:kept]
            self._queries.append(query)
            self._rewritten = None
            before = self._evidence.passages
            change = self._evidence.add(hits)
            repeated = 0 if self._harness.rules.literal_novelty else len(change.known) + len(change.refused)
            self._novelty = novelty(change.added, before, repeated=repeated)
            self._beyond = _share_beyond(found, self._evidence.ids)
        search = Search(
            query=query,
            hits=tuple((hit.passage.id, hit.score) for hit in hits),
            found_by={hit.passage.id: hit.provenance for hit in hits if hit.provenance is not None},
            candidates=candidates,
            added=tuple(passage.id for passage in change.added),
            known=change.known,
            refused=change.refused,
            novelty=self._novelty,
        )
        return {"search": search, "passages": {hit.passage.id: hit.passage for hit in hits}}

    async def _choose_query(self) -> str | None:
        """Use the question as the first query; later ones are written in view of the evidence."""
        if not self._queries:
            return self._question.text
        if self._query_is_final:
            return self._rewritten
        # Without retained passages no evidence can be shown: the rewritten query is all there is.
        if self._rewritten is not None and not len(self._evidence):
            return self._rewritten
        window = self._evidence.window(self._harness.budget.answer_passages)
        try:
            # A rewritten query is not a search that was made: named as one, the writer would keep away from it.
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

    async def _rewrite(self, decision: Decision) -> str:
        before = self._rewritten or self._queries[-1]
        earlier = self._decisions[-2] if len(self._decisions) > 1 else decision
        # In a correction the query failed for what started the correction, not for being the next link of the chain.
        failed = earlier if earlier.action is Action.VERIFY else decision
        reason = describe_reason(failed.reason, failed.comparisons)
        after: str | None = before
        # A query that was not asked for leaves none to search for but one that an earlier REWRITE paid for.
        with contextlib.suppress(TokensSpent):
            after = self._rewritten = await self._write_other_query(decision, before, reason)
            self._query_is_final = decision.reads_evidence
        return SUFFICIENT if after is None else after

    async def _write_other_query(self, decision: Decision, before: str, reason: str) -> str | None:
        if not decision.reads_evidence:
            return await self._calls.rewrite(self._question, before, reason, self._queries)
        window = self._evidence.window(self._harness.budget.answer_passages)
        return await self._calls.correct_query(self._question, window, self._queries, reason)

    def _prune(self, decision: Decision) -> tuple[str, ...]:
        flagged = decision.drop
        if flagged is None:
            flagged = self._latest.observation.unhelpful if self._latest.observation else ()
        return self._evidence.drop(flagged)

    async def _finish(self, decision: Decision, view: View) -> dict[str, Any]:
        """Give the answer, or decline, and return how the episode ended."""
        sources, shown, asked = view.answer_window, self._shown_spans(), self._question.text
        ending: dict[str, Any] = {
            "answerability": self._latest.answerability,
            "sources": tuple(passage.id for passage in sources),
        }
        if self._gathered:
            ending |= self._gathered | {"outcome": _OUTCOMES[decision.action]}
            if decision.action is Action.ABSTAIN:
                ending |= {"best_guess": f"at least {ending.pop('answer')}", "short_answer": None}
            return ending
        if decision.action is Action.ABSTAIN:
            guess = await self._find_guess(view)
            nearest = choose_citations(asked, guess, sources, shown=shown) if guess else ()
            nearest = nearest or find_nearest(asked, sources, shown=shown)
            return ending | {"outcome": Outcome.ABSTAINED, "best_guess": guess, "citations": nearest}
        attempt = self._latest.attempt
        answer = decision.answer or (attempt.answer if attempt and not attempt.tokens else None)
        read = sources if decision.shown is None else decision.shown
        if answer is None:
            answer = await self._calls.answer(self._question, read)
        ending["outcome"] = _OUTCOMES[decision.action]
        if self._harness.style == "short" or not read:
            return ending | {"answer": answer, "citations": choose_citations(asked, answer, sources, shown=shown)}
        written = await self._write(answer, read)
        declines = self._harness.asks_back and self._harness.calibrated is not None
        if declines and written["left_out"] and not written["sentences"]:
            nearest = choose_citations(asked, answer, sources, shown=shown) or find_nearest(asked, sources, shown=shown)
            return ending | {"outcome": Outcome.ABSTAINED, "best_guess": answer, "citations": nearest}
        return ending | written

    async def _write(self, short: str, read: Sequence[Passage]) -> dict[str, Any]:
        """Write the answer in sentences, and keep those that the evidence supports."""
        self._calls.show_evidence(self._question, read)  # so that what is checked against is what will be shown
        shown = self._shown_spans()
        checked: dict[tuple[str, ...], AnswerWriter] = {}

        def check(sentences: Sequence[str]) -> AnswerWriter:
            if (key := tuple(sentences)) not in checked:
                checked[key] = AnswerWriter(self._question.text, short, read, shown, sentences)
            return checked[key]

        style = self._harness.style
        written = await self._calls.write(self._question, read, short, style, show=lambda own: check(own).text)
        writer = check(written)
        if (p := self._latest.answerability) is not None:
            writer.sentences = [s.model_copy(update={"probability": round(p * s.support, 3)}) for s in writer.sentences]
        # The check is lexical: of a sentence in another language than the evidence it knows nothing.
        is_foreign = detect_language(" ".join(written)) not in {None, *map(language_of, read)}
        return {
            "answer": writer.text or short,
            "short_answer": short,
            "sentences": tuple(writer.sentences),
            "left_out": 0 if is_foreign else writer.left_out,
            "citations": tuple(writer.citations),
        }

    def _fail(self, cause: str, message: str, remedy: str) -> dict[str, Any]:
        """Return the end of an episode that failed. It has no probability; what was believed is in its steps."""
        if self._pending is not None:
            self._end_step()
        return {
            "outcome": Outcome.FAILED,
            "error": Failure(cause=cause, message=message, remedy=remedy),
            "sources": self._evidence.ids,
            "calls_before_failure": self._log.take_calls(),
        }

    async def _find_guess(self, view: View) -> str | None:
        """Return what the answer would be when a method declines: its draft, or what the answer prompt gives."""
        if self._latest.attempt:
            guess = self._latest.attempt.answer
            return guess if set(lower_words(guess)) - (NO_ANSWER_WORDS - CLOSED) else None  # "unknown" guesses nothing
        if not self._harness.guesses or not view.answer_window:
            return None
        try:
            return await self._calls.answer(self._question, view.answer_window, is_final=False)
        except BeliefRAGError:
            # The decision to decline holds, with or without a guess.
            _log.debug("No best guess.", exc_info=True)
            return None

    def _shown_spans(self) -> Spans | None:
        packed = self._calls.packed
        return None if packed is None else {each.passage.id: each.spans for each in packed}

    def _build_view(self) -> View:
        budget = self._harness.budget
        used = self._meter.usage.tokens
        tokens = max(used, budget.tokens) if self._calls.tokens_are_spent else used
        spent = Spent(len(self._queries), len(self._decisions), tokens)
        return View(
            question=hide_question_id(self._question),
            step=len(self._steps),
            passages=self._evidence.passages,
            scores=self._evidence.scores,
            beyond=self._beyond,
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


def _share_beyond(found: Sequence[Hit], retained: Collection[str]) -> float:
    """Return the share of the scores that went to candidates which are not retained."""
    scores = [max(hit.score, 0.0) for hit in found]
    beyond = [score for hit, score in zip(found, scores, strict=True) if hit.passage.id not in retained]
    return sum(beyond) / sum(scores) if sum(scores) > 0.0 else 0.0


def _build_packing(words: int, evidence: Evidence) -> EvidencePacking:
    """Pack evidence by the scores and texts of what is retained; a controller must not get the evidence itself."""
    return EvidencePacking(
        words,
        lambda passage_id: dict(zip(evidence.ids, evidence.scores, strict=True)).get(passage_id, 0.0),
        lambda passage_id: next((each.text for each in evidence.passages if each.id == passage_id), None),
    )
