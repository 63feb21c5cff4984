"""Joins the events of a streamed chat completion into the body that the server would have sent without streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from beliefrag.errors import TransportError
from beliefrag.models.openai_reply import visible_text


class _Delta(BaseModel):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(BaseModel):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None
    logprobs: Any = None


class _Chunk(BaseModel):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


class CompletionStream:
    """Takes the bytes of a body as they come, and calls `on_text` with the visible text so far.

    Args:
        on_text: Gets the text without thinking and without stop texts, whenever it has changed.
        stop: The stop texts of the request.
        hides_start: Whether the model is known to think before an end tag without a start tag.
    """

    def __init__(
        self, on_text: Callable[[str], None], stop: tuple[str, ...] = (), *, hides_start: bool = False
    ) -> None:
        self._on_text = on_text
        self._stop = stop
        self._hides_start = hides_start
        self._rest = b""
        self._shown = ""
        self._message: dict[str, str] = {}
        self._tokens: list[Any] = []
        self._finish: str | None = None
        self._more: dict[str, Any] = {}
        self._is_stream = self._is_ended = False
        self._unreadable = b""

    def feed(self, piece: bytes) -> None:
        """Take more of the body."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name.strip() == b"data":
                self._is_stream = True
                self._take(value.strip())

    def join(self, body: bytes, *, server: str) -> bytes:
        """Return the completion as one JSON object; a body that is no stream as it is."""
        self.feed(b"\n")
        if self._unreadable or not self._is_stream:
            return self._unreadable or body
        if not (self._is_ended or self._finish or self._more.get("error")):
            remedy = "Look at the server's log, or try again later."
            raise TransportError(f"{server} broke off its reply.", remedy=remedy, status=200, retryable=True)
        choice: dict[str, Any] = {"message": self._message, "finish_reason": self._finish}
        if self._tokens:
            choice["logprobs"] = {"content": self._tokens}
        return json.dumps({"choices": [] if self._more.get("error") else [choice], **self._more}).encode()

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]" or not data or self._unreadable:
            self._is_ended = self._is_ended or bool(data)
            return
        try:
            chunk = _Chunk.model_validate_json(data)
        except ValidationError:
            self._unreadable = data
            return
        self._more |= {name: value for name in ("usage", "error") if (value := getattr(chunk, name)) is not None}
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._add(choice)

    def _add(self, choice: _Choice) -> None:
        for name, text in choice.delta or ():
            if isinstance(text, list):
                text = "".join(str(part.get("text", "")) for part in text if part.get("type") == "text")  # noqa: PLW2901
            if text is not None:
                self._message[name] = self._message.get(name, "") + text
        self._finish = choice.finish_reason or self._finish
        if isinstance(choice.logprobs, dict) and isinstance(tokens := choice.logprobs.get("content"), list):
            self._tokens += tokens
        text = visible_text(self._message.get("content", ""), self._stop, hides_start=self._hides_start)
        if text != self._shown:
            self._shown = text
            self._on_text(text)
