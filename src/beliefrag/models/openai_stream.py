"""Joins the events of a streamed chat completion into the completion that the server would have sent without them."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from beliefrag.errors import TransportError
from beliefrag.models.openai_reply import Completion, join_event, read_completion, visible_text


class CompletionStream:
    """Takes the bytes of a body as they come, and calls `on_text` with the visible text whenever it has changed.

    `hides_start` says that the model is known to think before an end tag without a start tag.
    """

    def __init__(self, on_text: Callable[[str], object], stop: tuple[str, ...], *, hides_start: bool) -> None:
        self._on_text = on_text
        self._stop = stop
        self._hides_start = hides_start
        self._rest = b""
        self._shown = ""
        self._joined = Completion()
        self._is_stream = self._is_ended = False
        self._unreadable = b""

    def feed(self, piece: bytes) -> None:
        """Take more of the body."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name.strip() == b"data" and value.strip() and not self._unreadable:
                self._take(value.strip())

    def join(self, body: bytes, *, server: str) -> bytes | Completion:
        """Return the completion, or the body itself if the server did not stream."""
        self.feed(b"\n")
        if self._unreadable or not self._is_stream:
            return self._unreadable or body
        choices = self._joined.choices
        if not (self._is_ended or self._joined.error or (choices and choices[0].finish_reason)):
            remedy = "Look at the server's log, or try again later."
            raise TransportError(f"{server} ended its reply early.", remedy=remedy, status=200, retryable=True)
        if self._joined.error:
            self._joined.choices = []
        return self._joined

    def _take(self, data: bytes) -> None:
        self._is_stream = True
        if data == b"[DONE]":
            self._is_ended = True
            return
        try:
            join_event(self._joined, read_completion(data))
        except ValidationError:
            self._unreadable = data
            return
        text = visible_text(self._joined, self._stop, hides_start=self._hides_start)
        if text != self._shown:
            self._shown = text
            self._on_text(text)
