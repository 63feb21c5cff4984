"""Reads the body of a chat completion into a `ChatReply`, whatever the server leaves out or adds."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import accumulate
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from beliefrag.errors import ModelError, ReplyError, TransportError
from beliefrag.models.cost import LOCAL_COUNT, count_prompt, count_tokens
from beliefrag.models.failures import EmptyReplyError, one_line, status_error
from beliefrag.models.protocol import ChatReply, ChatRequest, Thinking, TokenProbability, count_pieces, cut_at_stop

_THINK, _END_OF_THOUGHT = "<think>", "</think>"
_LEAST_LOGPROB = -9999.0
"""What servers write for 'next to impossible'; minus infinity would not survive JSON."""


class StoppedThinkingError(EmptyReplyError):
    """A stop text ended the model's thinking, so the answer is missing. Without stop texts there may be one."""


class CutOffError(EmptyReplyError):
    """The reply reached its token limit before there was any text: the model was still thinking."""


class _Part(BaseModel):
    type: str = ""
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(BaseModel):
    message: _Message = Field(validation_alias=AliasChoices("message", "delta"))
    finish_reason: str | None = None
    logprobs: Any = None


_MOST_TOKENS = 100_000_000
"""No model reads or writes more in one call: a server that says so has not counted."""


class _Usage(BaseModel):
    prompt_tokens: Annotated[int, Field(gt=0, le=_MOST_TOKENS)]
    completion_tokens: Annotated[int, Field(ge=0, le=_MOST_TOKENS)]


class Completion(BaseModel):
    """The body of a reply, or an event of a stream."""

    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


class _Alternative(BaseModel):
    token: str
    # In this order so that "not a number" also becomes the least.
    logprob: Annotated[float, AfterValidator(lambda logprob: max(_LEAST_LOGPROB, logprob))]


class _Token(_Alternative):
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None
    top_logprobs: list[_Alternative] = []


_TOKENS = TypeAdapter(list[_Token])


def read_reply(
    body: bytes | Completion, request: ChatRequest, *, server: str, seconds: float, secrets: tuple[str, ...]
) -> ChatReply:
    """Read the reply in a body that came with status 200; it ends at the first stop text of the request."""
    completion = body if isinstance(body, Completion) else _parse(body, server, secrets)
    if not completion.choices:
        raise _no_choices_error(completion.error, server, secrets)
    choice = completion.choices[0]
    said, thinking = _split_thinking(choice)
    text = cut_at_stop(said, request.stop)
    try:
        usage = _Usage.model_validate(completion.usage)
        tokens_in, tokens_out, counted_by = usage.prompt_tokens, usage.completion_tokens, "server"
    except ValidationError:
        message = choice.message
        written = message.content if isinstance(message.content, str) else said
        thinking = message.reasoning_content or message.reasoning or ""
        tokens_in, tokens_out = count_prompt(request.messages), count_tokens(f"{thinking} {written}")
        counted_by = LOCAL_COUNT
    if not text.strip():
        is_stopped = bool(request.stop and thinking) and choice.finish_reason == "stop"
        raise _no_text_error(choice, server, tokens_in + tokens_out, secrets, is_stopped)
    return ChatReply(
        text=text,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        seconds=seconds,
        counted_by=counted_by,
        tokens=_read_probabilities(choice, said, request, aligned=not thinking) if request.top_logprobs else None,
        # A reply that was cut at its stop text is complete, even if the server reached its limit.
        truncated=choice.finish_reason == "length" and text == said,
        thinking=thinking or ("apart" if _counts_thoughts(completion.usage) else ""),
    )


def _counts_thoughts(usage: Any) -> bool:
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    return isinstance(details, dict) and bool(details.get("reasoning_tokens"))


def read_completion(data: bytes) -> Completion:
    """Return the completion in JSON. Half of a surrogate pair, which is no character, becomes a ?."""
    try:
        return Completion.model_validate_json(data)
    except ValidationError:
        with suppress(ValueError, RecursionError):
            data = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
        return Completion.model_validate_json(data)


def _parse(body: bytes, server: str, secrets: tuple[str, ...]) -> Completion:
    try:
        return read_completion(body)
    except ValidationError as error:
        start = body[:200].lstrip()
        shown = one_line(body[:2000].decode("utf-8", "replace"), secrets=secrets)[:80]
        if any(problem["type"] != "json_invalid" for problem in error.errors(include_url=False)):
            remedy = "Check that the base URL is that of an OpenAI-compatible server (it often ends in /v1)."
            raise ReplyError(f"{server} sent JSON that is not a chat completion: {shown}", remedy=remedy) from None
        # A body that begins as JSON is incomplete and may be complete the next time. A web page stays one.
        raise TransportError(
            f"{server} sent {'a web page' if start.startswith(b'<') else 'a body that is not JSON'}: {shown!r}",
            remedy="Check the base URL (it often ends in /v1) and any proxy in between.",
            status=200,
            retryable=start.startswith(b"{"),
        ) from None


def _no_choices_error(error: Any, server: str, secrets: tuple[str, ...]) -> ModelError:
    if error is None:
        return ReplyError(f"{server} sent a reply without choices.", remedy="Look at the server's log.")
    fields = error if isinstance(error, dict) else {"message": error}
    detail = one_line(str(fields.get("message", fields)), secrets=secrets)
    code = fields.get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        return status_error(code, server=server, detail=detail)
    return ReplyError(f"{server} sent an error instead of a reply: {detail}", remedy="Look at the server's log.")


def _no_text_error(choice: _Choice, server: str, wasted: int, secrets: tuple[str, ...], is_stopped: bool) -> ReplyError:
    if choice.message.refusal or choice.finish_reason == "content_filter":
        said = one_line(choice.message.refusal or f"{server} filtered the reply away.", secrets=secrets)
        return ReplyError(f"The model refused: {said}", remedy="Look at the question and the passages.")
    kind: type[EmptyReplyError] = EmptyReplyError
    what, remedy = "sent an empty message.", "Look at the server's log."
    if is_stopped:
        kind = StoppedThinkingError
        what = "ended the reply at a stop text within the model's thinking."
        remedy = "Ask again: stop texts are not sent to this server any more."
    elif choice.finish_reason == "length":
        kind = CutOffError
        what = "reached its token limit before any answer."
        remedy = "Let the model think less, such as with --set models.openai.reasoning_effort=low."
    return kind(f"{server} {what}", remedy=remedy, wasted_tokens=wasted)


def _split_thinking(choice: _Choice) -> tuple[str, Thinking]:
    """Return the text without the thinking, and how that is marked."""
    content, text = choice.message.content, _plain_text(choice.message)
    if isinstance(content, list):
        return text, "apart" if any(part.type != "text" for part in content) else ""
    begun = text.lstrip()
    start = len(_THINK) if begun.startswith(_THINK) else 0
    end = begun.find(_END_OF_THOUGHT, start)
    # Some servers leave the opening tag out. A second one before the end means that this is not a thought.
    if end >= 0 and begun.find(_THINK, start, end) < 0:
        return begun[end + len(_END_OF_THOUGHT) :].lstrip(), "tags" if start else "end tag"
    if choice.finish_reason == "length" and start and end < 0:
        return "", "tags"
    return text, "apart" if choice.message.reasoning_content or choice.message.reasoning else ""


def join_event(joined: Completion, event: Completion) -> None:
    """Add an event of a stream to what came before it."""
    joined.usage, joined.error = event.usage or joined.usage, event.error or joined.error
    for each in event.choices or ():
        if not joined.choices:
            joined.choices = [each]
            continue
        choice, message = joined.choices[0], joined.choices[0].message
        message.content = _plain_text(message) + _plain_text(each.message)
        for name in ("refusal", "reasoning_content", "reasoning"):
            if isinstance(text := getattr(each.message, name), str):
                setattr(message, name, (getattr(message, name) or "") + text)
        choice.finish_reason = each.finish_reason or choice.finish_reason
        if isinstance(each.logprobs, dict) and isinstance(tokens := each.logprobs.get("content"), list):
            before = choice.logprobs if isinstance(choice.logprobs, dict) else {}
            choice.logprobs = {"content": [*(before.get("content") or ()), *tokens]}


def _plain_text(message: _Message) -> str:
    parts = message.content if isinstance(message.content, list) else [_Part(type="text", text=message.content or "")]
    return "".join(part.text for part in parts if part.type == "text")


def visible_text(completion: Completion, stop: tuple[str, ...], *, hides_start: bool) -> str:
    """Return what can be shown of a completion that is still being written: nothing of its thinking."""
    if not completion.choices:
        return ""
    begun = _plain_text(completion.choices[0].message).lstrip()
    if (hides_start or _THINK.startswith(begun[: len(_THINK)])) and _END_OF_THOUGHT not in begun:
        return ""
    return cut_at_stop(_split_thinking(completion.choices[0])[0], stop)


def _read_probabilities(
    choice: _Choice, said: str, request: ChatRequest, *, aligned: bool
) -> tuple[TokenProbability, ...] | None:
    """Return the tokens of the text; None if they are missing, or cannot be separated from the thinking."""
    try:
        tokens = _TOKENS.validate_python(choice.logprobs["content"])
    except (ValidationError, TypeError, KeyError):
        return None
    written = [bytes(token.bytes) if token.bytes else token.token.encode() for token in tokens]
    start = first = 0
    if not aligned:
        # Reversed, because `rfind` can take the product of both lengths.
        text, part = b"".join(written)[::-1], said.encode()[::-1]
        if (found := text.find(part)) < 0:
            return None
        start = len(text) - found - len(part)
        first = sum(end <= start for end in accumulate(len(piece) for piece in written))
    # Some servers report the tokens of the stop text, though its text is not in the reply.
    last = count_pieces(written, start + len(cut_at_stop(said, request.stop).encode())) if request.stop else None
    return tuple(
        TokenProbability(each.token, each.logprob, tuple((other.token, other.logprob) for other in each.top_logprobs))
        for each in tokens[first:last]
    )
