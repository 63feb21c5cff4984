"""The model calls of one episode: one function per prompt; each call is counted and recorded."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from beliefrag.answering.conversation import keeps_words
from beliefrag.answering.counting import read_items
from beliefrag.answering.packing import PackedPassage, pack_passages
from beliefrag.answering.sentences import split_written
from beliefrag.errors import ReplyError, TokensSpent, UnreadableReply
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatReply, ChatRequest, Message
from beliefrag.policy.belief import NOTHING_OBSERVED
from beliefrag.prompts import (
    Prompts,
    Repairs,
    escape,
    evidence_block,
    read_answer,
    read_line,
    read_partial_answer,
    sentences_block,
    unescape,
)
from beliefrag.retrieval.languages import name_language
from beliefrag.types import Observation, Passage, Question, Rules, Usage
from beliefrag.verifiers import DRAFT_FORMS, Look, VerifierForm, judge_alike

SUFFICIENT = "SUFFICIENT"
"""The query writer's word for: nothing is missing."""

_SAYS_SUFFICIENT = re.compile(rf"\W*{SUFFICIENT}\b", re.IGNORECASE)

_TOKENS_PER_CHARACTER = 1 / 3
"""What a prompt is expected to cost before the first reply. English has four characters or more to a token."""
_LEAST_REPLY = 64
"""The tokens that a reply is expected to have at least, if the request sets no limit."""

_LENGTHS = {"sentence": ("one or two full sentences", 160), "paragraph": ("a paragraph of three to six sentences", 400)}
"""What each style asks for, and the tokens that it may take."""
_ANSWERS = frozenset(("answer", "stated_answer", "write"))
"""The prompts whose reply is in the language of the question; a small model must be told which one that is."""
_MOST_ADDED = 40
"""The words that rewriting may add to a follow-up."""

_GATHERED = 600
"""The most words of passages in a prompt that gathers items."""
_MOST_ITEMS = 300
"""The tokens that their list may take."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CallRecorder:
    """Functions that are called when a model call starts, when it has finished, and when evidence was packed."""

    on_start: Callable[[str], None]
    on_finish: Callable[[ChatRequest, ChatReply, Mapping[str, int]], None]
    on_packing: Callable[[Sequence[PackedPassage]], None] = lambda _: None
    on_text: Callable[[str], None] | None = None
    """Gets the answer so far while it is written; None without an observer."""


@dataclass(frozen=True, slots=True)
class EvidencePacking:
    """How much of the evidence prompts show, where they do not show whole passages."""

    words: int
    """The most words of evidence in one prompt."""
    score_of: Callable[[str], float]
    """The score at which the search returned the passage with this id."""
    text_of: Callable[[str], str | None] = lambda _: None
    """The whole text of the retained passage with this id: a method may show a shortened one."""


class ModelCalls:
    """Asks the model on behalf of one episode.

    A call that is not for the final answer begins only if its expected cost still fits into the token budget. After the
    first one that does not fit, the tokens count as spent. What a call really costs is known only afterwards, so a long
    reply can still end above the budget; a report counts the episodes in which that happened.

    Args:
        model: Counts what the calls cost.
        prompts: The templates.
        verifier: The form in which the evidence is judged.
        recorder: Gets every call.
        token_budget: Tokens that all calls but the final answer may take together; None sets no limit.
        packing: How evidence is packed into prompts; None shows whole passages.
        rules: Where the paper's harness is followed in place of ours.
    """

    def __init__(
        self,
        model: Meter,
        prompts: Prompts,
        verifier: VerifierForm,
        recorder: CallRecorder,
        token_budget: int | None = None,
        *,
        packing: EvidencePacking | None = None,
        rules: Rules = Rules(),
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._verifier = verifier
        self._recorder = recorder
        self._token_budget = token_budget
        self._packing = packing
        self.rules = rules
        self._packed: tuple[PackedPassage, ...] | None = None
        self._replies: dict[str, tuple[ChatRequest, ChatReply]] = {}
        self._tokens_per_character = 0.0
        self._longest_reply = _LEAST_REPLY
        self._was_refused = False
        """Whether a call was not begun because it did not fit into the token budget."""

    @property
    def usage(self) -> Usage:
        """What the episode has cost so far."""
        return self._model.usage

    @property
    def tokens_are_spent(self) -> bool:
        """Whether no call begins any more but the one for the final answer."""
        return self._was_refused or (self._token_budget is not None and self.usage.tokens >= self._token_budget)

    @property
    def packed(self) -> tuple[PackedPassage, ...] | None:
        """What the latest prompt with evidence showed of it; None where prompts show whole passages."""
        return self._packed

    @property
    def verifier(self) -> str:
        """The name of the verifier form."""
        return self._verifier.name

    def off_budget(self) -> ModelCalls:
        """Return calls that are not part of the method, such as one that asks what an answer would be now.

        They know the replies so far, but their cost is not counted, and their replies are not remembered here.
        """
        calls = ModelCalls(
            self._model.new_meter(),
            self._prompts,
            self._verifier,
            replace(self._recorder, on_text=None),
            packing=self._packing,
            rules=self.rules,
        )
        calls._replies = dict(self._replies)
        return calls

    def show_evidence(self, question: Question, passages: Sequence[Passage]) -> str:
        """Return the evidence block of a prompt: the passages, or the best of their sentences where packing is on."""
        return self._block(self._pack(question, passages))

    def _describe(self, question: Question, passages: Sequence[Passage], evidence: str = "") -> dict[str, str]:
        """Return the fields that prompts have in common, and what ends those for an answer that is not English."""
        language = name_language(question.text, passages)
        evidence = evidence or self.show_evidence(question, passages)
        ending = f" Answer in {language}." if language else ""
        return {"question": escape(question.text), "evidence": evidence, "language": ending}

    def _block(self, shown: Sequence[Passage], *, names_passages: bool = False) -> str:
        return evidence_block(shown) if names_passages or self._packing is None else sentences_block(shown)

    def _pack(self, question: Question, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages with the text that prompts show; those of which nothing fits are left out."""
        if self._packing is None:
            return passages
        scores = [self._packing.score_of(passage.id) for passage in passages]
        packed = pack_passages(question.text, passages, self._packing.words, scores=scores)
        located = tuple(each.locate_in(self._packing.text_of(each.passage.id) or each.passage.text) for each in packed)
        # Several calls of one step often see the same sentences: the trace says it once.
        if located and located != self._packed:
            self._packed = located
            self._recorder.on_packing(located)
        return [each.shown for each in packed] or passages

    async def verify(
        self,
        question: Question,
        passages: Sequence[Passage],
        draft: str | None = None,
        *,
        search: Look | None = None,
    ) -> Observation | None:
        """Ask the verifier about these passages; None if the token budget ran out on the way.

        `search` has what the search says of the retained passages; without it all are equally relevant.

        A reply that cannot be read even the second time becomes the cautious observation; the trace counts it.
        """
        shown = self._pack(question, passages)
        evidence = self._block(shown, names_passages=self.verifier not in DRAFT_FORMS)
        fields = self._describe(question, passages, evidence) | {"draft": escape(draft) if draft else "none"}
        try:
            return await self._verifier.observe(self, fields, replace(search or judge_alike(passages), passages=shown))
        except UnreadableReply:
            return NOTHING_OBSERVED
        except TokensSpent:
            return None

    async def write_query(
        self, question: Question, passages: Sequence[Passage], queries: Sequence[str], *, instead: str | None = None
    ) -> str | None:
        """Write a query for what is still missing; None when nothing is, or nothing is left to search for.

        Args:
            question: The question.
            passages: The evidence that the query is written in view of.
            queries: The searches that were made.
            instead: The query to take where the model has only a search to offer that was made already.
        """
        fields = self._describe_search(question, passages, queries)
        made = () if self.rules.repeat_queries else queries
        query = await self.ask("query_writer", "query_writer", fields, _make_query_reader(made))
        return _replace_repeated(query, question, passages, queries, instead)

    async def correct_query(
        self, question: Question, passages: Sequence[Passage], queries: Sequence[str], reason: str
    ) -> str | None:
        """Write a different query in view of the evidence and of what is wrong with it; None as in `write_query`.

        It does the work of `rewrite` and `write_query` in one call.
        """
        fields = self._describe_search(question, passages, queries) | {"reason": escape(reason)}
        query = None
        with contextlib.suppress(UnreadableReply):
            made = () if self.rules.repeat_queries else queries
            query = await self.ask("rewriter", "query_corrector", fields, _make_query_reader(made))
        return _replace_repeated(query, question, passages, queries)

    def _describe_search(
        self, question: Question, passages: Sequence[Passage], queries: Sequence[str]
    ) -> dict[str, str]:
        made = "; ".join(escape(query) for query in queries) or "none"
        return self._describe(question, passages) | {"prior_queries": made}

    async def rewrite(self, question: Question, query: str, reason: str, queries: Sequence[str] = ()) -> str:
        """Write a different query, given why the current one fails.

        A model that twice gives the same one, one of the searches that were made (`queries`), or none, has nothing
        better to offer: the query stays, and the trace counts it.
        """
        fields = {"question": escape(question.text), "query": escape(query), "reason": escape(reason)}

        def read(reply: ChatReply, repairs: Repairs) -> str:
            written = read_line(reply.text)
            if not self.rules.repeat_queries and is_repeated(written, [query, *queries]):
                raise ReplyError("That is the same query as before.")
            return written

        try:
            return await self.ask("rewriter", "rewriter", fields, read)
        except UnreadableReply:
            return query

    async def answer(self, question: Question, passages: Sequence[Passage], *, is_final: bool = True) -> str:
        """Ask for the short answer. The token budget does not bound the final one."""
        fields = self._describe(question, passages)
        shown = read_partial_answer if is_final else None
        return await self.ask(
            "answer", "answer", fields, lambda reply, _: read_answer(reply.text), is_final=is_final, show=shown
        )

    async def write(
        self,
        question: Question,
        passages: Sequence[Passage],
        draft: str,
        style: str,
        *,
        show: Callable[[Sequence[str]], str],
    ) -> list[str]:
        """Ask for the answer in sentences, from the evidence that the short one was drafted from.

        The prompt begins like that of the short answer so that a local runtime reads the evidence once. `show` turns
        the sentences so far into what people may see of them while the answer is written.
        """
        length, most = _LENGTHS[style]
        fields = self._describe(question, passages) | {"draft": escape(draft), "length": length}
        return await self.ask(
            "write",
            "write",
            fields,
            _read_sentences,
            max_tokens=most,
            is_final=True,
            show=lambda text: show(split_written(read_partial_answer(text))[:-1]),
        )

    async def gather(self, question: Question, passages: Sequence[Passage]) -> list[str]:
        """Ask which things in these passages a question lists or counts."""
        shown = [each.shown for each in pack_passages(question.text, passages, _GATHERED)]
        fields = {"question": escape(question.text), "evidence": evidence_block(shown)}

        def read(reply: ChatReply, repairs: Repairs) -> list[str]:
            # A reply that reached its limit ends within an item.
            return read_items(reply.text.rpartition("\n")[0] if reply.truncated else reply.text)

        return await self.ask("gather", "gather", fields, read, max_tokens=_MOST_ITEMS)

    async def stand_alone(self, question: Question, history: str) -> str:
        """Rewrite a follow-up into a question that stands alone; without a usable reply it stays as it is."""
        fields = {"question": escape(question.text), "history": history}

        def read(reply: ChatReply, repairs: Repairs) -> str:
            written = unescape(read_line(reply.text))
            if len(written.split()) > len(question.text.split()) + _MOST_ADDED:
                raise ReplyError("That is not one question.")
            if not keeps_words(question.text, written):
                raise ReplyError("That does not ask for what the follow-up asks.")
            return written

        try:
            return await self.ask("standalone", "standalone", fields, read)
        except (UnreadableReply, TokensSpent):
            return question.text

    async def ask(
        self,
        purpose: str,
        prompt: str,
        fields: Mapping[str, str],
        read: Callable[[ChatReply, Repairs], _T],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        top_logprobs: int = 0,
        stop: tuple[str, ...] = (),
        turns: Sequence[Message] = (),
        is_final: bool = False,
        show: Callable[[str], str] | None = None,
    ) -> _T:
        """Fill in a prompt, ask the model and read the reply; ask once more if it cannot be read.

        Args:
            purpose: What the call is metered as.
            prompt: The template.
            fields: What to fill in, already made safe with `escape` or `evidence_block`.
            read: Turns the reply into a value, counting what it had to repair; raises ReplyError when it cannot.
            schema: What the reply must look like, for providers that can enforce it.
            max_tokens: The longest reply that makes sense; None sets no limit.
            top_logprobs: How many token alternatives are needed.
            stop: Texts that end the reply before they are written.
            turns: The dialogue so far, its untrusted parts made safe likewise.
            is_final: Whether the reply is the final answer, which the token budget does not bound.
            show: Turns the reply so far into what people may see of it while it is written. Only for an answer that
                will be given: one that may still be declined is not shown.
        """
        on_text = self._recorder.on_text
        asked = self._prompts.fill(prompt, **fields) + (fields.get("language", "") if prompt in _ANSWERS else "")
        request = ChatRequest(
            purpose,
            (Message("system", self._prompts.fill("system")), Message("user", asked), *turns),
            schema=schema,
            max_tokens=max_tokens,
            top_logprobs=top_logprobs,
            stop=stop,
            on_text=(lambda text: on_text(show(text))) if show and on_text else None,
        )
        try:
            return await self._ask_and_read(request, read, "asked_again", is_final=is_final)
        except _Unreadable as first:
            again = replace(request, messages=(*request.messages, *_messages_to_ask_again(first)))
        try:
            return await self._ask_and_read(again, read, "unusable", is_final=is_final)
        except _Unreadable as second:
            raise UnreadableReply(
                f"The {purpose.replace('_', ' ')} reply could not be used, twice: {second.problem}",
                remedy="Try another model, or other wording with --prompts.",
            ) from second

    async def _ask_and_read(
        self, request: ChatRequest, read: Callable[[ChatReply, Repairs], _T], otherwise: str, *, is_final: bool
    ) -> _T:
        repairs = Repairs()
        reply, paid = await self._send(request, is_final=is_final)
        try:
            # Who asks for one token expects the reply to stop there; anywhere else a cut reply is half a thought.
            if reply.truncated and request.max_tokens is None:
                raise ReplyError("The reply was cut off.")
            return read(reply, repairs)
        except ReplyError as error:
            repairs[otherwise] += 1
            raise _Unreadable(reply.text, error.message) from error
        finally:
            if paid:
                self._recorder.on_finish(request, reply, dict(repairs))

    async def _send(self, request: ChatRequest, *, is_final: bool) -> tuple[ChatReply, bool]:
        """Send a request; return the reply, and whether it was paid for now.

        An episode does not ask the same thing twice: at temperature 0 the same words bring the same reply. So a
        passage is judged once, and an answer that the verifier drafted from the same evidence is the answer.
        """
        shape = [request.schema, request.max_tokens, request.stop]
        key = json.dumps([[m.role, m.content] for m in request.messages] + shape)
        asked, reply = self._replies.get(key, (None, None))
        # Under the paper's rule each observation is paid for, also of evidence that has not changed.
        is_shared = not (self.rules.observe_each_step and request.purpose == "verifier")
        if is_shared and asked and reply and asked.top_logprobs >= request.top_logprobs:
            return reply, False
        if not is_final:
            self._check_budget(request)
        self._recorder.on_start(request.purpose)
        reply = await self._model.chat(request)
        self._replies[key] = (request, reply)
        self._learn_cost(request, reply)
        return reply, True

    def _check_budget(self, request: ChatRequest) -> None:
        if self._token_budget is None:
            return
        spent, expected = self.usage.tokens, self._expect_cost(request)
        # A smaller call might still fit after one that did not; but then a method would go on without what it asked.
        if self.tokens_are_spent or spent + expected > self._token_budget:
            self._was_refused = True
            raise TokensSpent(
                f"The {request.purpose} was not asked: {spent:,} of {self._token_budget:,} tokens are spent, and it is "
                f"expected to take {expected:,}.",
                remedy="Raise the token budget.",
            )

    def _learn_cost(self, request: ChatRequest, reply: ChatReply) -> None:
        """Learn how the server counts: the densest prompt and the longest reply so far are what the next may cost."""
        self._tokens_per_character = max(
            self._tokens_per_character, reply.tokens_in / max(1, _count_characters(request))
        )
        self._longest_reply = max(self._longest_reply, reply.tokens_out)

    def _expect_cost(self, request: ChatRequest) -> int:
        rate = self._tokens_per_character or _TOKENS_PER_CHARACTER
        reply = self._longest_reply if request.max_tokens is None else request.max_tokens
        return math.ceil(_count_characters(request) * rate) + reply


def _read_sentences(reply: ChatReply, _: Repairs) -> list[str]:
    sentences = split_written(read_answer(reply.text))
    # A reply that reached its limit ends within a sentence.
    return sentences[:-1] if reply.truncated else sentences


def _count_characters(request: ChatRequest) -> int:
    return sum(len(message.content) for message in request.messages)


def is_repeated(query: str, made: Sequence[str]) -> bool:
    """Return whether a query has the words of one that was made before."""
    return query.casefold().split() in [earlier.casefold().split() for earlier in made]


def _make_query_reader(made: Sequence[str]) -> Callable[[ChatReply, Repairs], str | None]:
    def read(reply: ChatReply, repairs: Repairs) -> str | None:
        """Return the query of a reply; None where it has only a search to offer that was made already."""
        written = read_line(reply.text)
        if is_repeated(written, made):
            repairs["repeated_queries"] += 1
            return None
        return written

    return read


def _replace_repeated(
    query: str | None,
    question: Question,
    passages: Sequence[Passage],
    made: Sequence[str],
    instead: str | None = None,
) -> str | None:
    """Return the query to search for; None where nothing is missing, or nothing is left to search for.

    A search that was made already would only return the same passages. So where the model has no other to offer, which
    is None here, `instead` is taken, or the question together with the title of a passage that it does not name.
    """
    if query is not None:
        return None if _SAYS_SUFFICIENT.match(query) else query
    if instead is not None and not is_repeated(instead, made):
        return instead
    return _add_title(question, passages, made)


def _add_title(question: Question, passages: Sequence[Passage], made: Sequence[str]) -> str | None:
    """Return the question with the first title that it does not name; None where all such searches were made."""
    named = _find_words(question.text)
    queries = (f"{question.text} {each.title}" for each in passages if not _find_words(each.title) <= named)
    return next((query for query in queries if not is_repeated(query, made)), None)


def _find_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


class _Unreadable(Exception):
    def __init__(self, reply: str, problem: str) -> None:
        super().__init__(problem)
        self.reply = reply
        self.problem = problem


def _messages_to_ask_again(unreadable: _Unreadable) -> tuple[Message, Message]:
    # The model is shown its own reply: at temperature 0 the bare prompt would give the same words again.
    return (
        Message("assistant", escape(unreadable.reply)[:2000]),
        Message("user", f"{unreadable.problem} Reply again, in exactly the form that was asked for."),
    )
