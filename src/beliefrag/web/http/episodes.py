"""Episodes of requests: how they begin, and the replies that are written at their end or while they run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beliefrag.opening import Assembly
from beliefrag.record import Episode, Progress
from beliefrag.types import Turn
from beliefrag.web.answers import answer_record
from beliefrag.web.problems import AsciiJson, HttpProblem
from beliefrag.web.request_log import ClientDisconnected, request_record
from beliefrag.web.service import AnswerService, EpisodeObserver, EpisodeTask, Waiting, answer_key

if TYPE_CHECKING:
    from beliefrag.web.page import AskPage

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": still here\n\n"
"""A comment: clients ignore it, and proxies see that the connection is alive."""


class ReplyForm:
    """The form of an answer in one API: whole, or as server-sent events."""

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the reply that is sent at the end."""
        return answer

    def opening(self) -> Iterable[bytes]:
        """Return the events before the episode."""
        return ()

    def event(self, event: Progress | Waiting) -> bytes:
        """Return an event of the episode or of the queue; nothing if clients do not get it."""
        return f": {event}\n\n".encode("ascii") if isinstance(event, Waiting) else b""

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        """Return the events with the answer, which is known only at the end."""
        raise NotImplementedError

    def failed(self, problem: HttpProblem) -> bytes:
        """Return the last event of an episode that failed: the status was sent already."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class HttpContext:
    """The service, and the operator's choices."""

    service: AnswerService
    model_name: str = "beliefrag"
    """The model name that OpenAI's clients ask for."""
    make_observer: Callable[[Mapping[str, str]], EpisodeObserver] | None = None
    """Makes one more observer of an episode from the request's headers, for tracing."""
    docs: Sequence[Path] | None = None
    """The documents, and below the index, that a reload opens again."""
    index: Path | None = None
    page: AskPage | None = None
    """The page to ask in, if that is what is served."""

    async def respond(
        self,
        request: Request,
        question: str,
        assembly: Assembly,
        form: ReplyForm,
        *,
        stream: bool,
        history: Sequence[Turn] = (),
    ) -> Response:
        """Run an episode for a request whose body was read, and return the response with its answer."""
        record = request_record(request.scope)
        observers: list[EpisodeObserver] = [record]
        if self.make_observer is not None:
            observers.append(self.make_observer(request.headers))
        if self.page is not None:
            observers.append(self.page.episodes.begin(record.request_id))
        key = answer_key(request.scope, record.request_id)
        task = EpisodeTask(self.service, question, assembly, observers, request.receive, history=history, key=key)
        handed_over = False
        try:
            # Until there is a place in the queue, a refusal can still be a status.
            first = cast(Waiting, await task.next_event())
            if handed_over := stream:
                return _EpisodeStream(self.service, task, first, form)
            return AsciiJson(form.whole(answer_record(await task.wait(), self.service, record.request_id)))
        finally:
            if not handed_over:
                await task.cancel()


class _EpisodeStream(Response):
    """Sends each event at once, and cancels the episode when it stops sending."""

    media_type = EVENT_STREAM

    def __init__(self, service: AnswerService, task: EpisodeTask, first: Waiting, form: ReplyForm) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._service = service
        self._task = task
        self._first = first
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        record = request_record(scope)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self._pieces(record.request_id):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientDisconnected:
            record.client_left = True
        finally:
            await self._task.cancel()

    async def _pieces(self, request_id: str) -> AsyncIterator[bytes]:
        form = self._form
        event: Progress | Waiting | None = self._first
        for piece in form.opening():
            yield piece
        try:
            while not (isinstance(event, Episode) and event.outcome is not None):
                if event is None:
                    yield HEARTBEAT
                elif not isinstance(event, Waiting) or event.place:
                    yield form.event(event)
                event = await self._task.next_event(self._service.limits.heartbeat)
            closing = form.closing(answer_record(event, self._service, request_id))
        except HttpProblem as problem:
            closing = [form.failed(problem)]
        for piece in closing:
            yield piece


def encode_event(data: dict[str, Any] | str, *, name: str | None = None) -> bytes:
    """Return one server-sent event as bytes."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = [f"event: {name}"] if name else []
    return "\n".join([*head, f"data: {text}", "", ""]).encode("ascii")
