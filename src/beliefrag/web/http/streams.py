"""Server-sent events: responses that are written while an episode runs. An episode that nobody reads is cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beliefrag.events import Event, Finished
from beliefrag.result import Result
from beliefrag.web.admission import Waiting
from beliefrag.web.answers import AnswerBody, answer_body
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import ClientDisconnected, request_record
from beliefrag.web.service import AnswerService, EpisodeTask

__all__ = [
    "EVENT_STREAM",
    "HEARTBEAT",
    "EpisodeStream",
    "document_stream",
    "encode_event",
    "events_with_heartbeats",
    "stream_answer",
    "wait_for_admission",
    "wait_for_result",
]

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": still here\n\n"
"""A comment: clients ignore it, and proxies see that the connection is alive."""


def encode_event(data: dict[str, Any] | str, *, name: str | None = None, number: int | None = None) -> bytes:
    """Return one event as bytes."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = [f"id: {number}"] if number is not None else []
    head += [f"event: {name}"] if name else []
    return "\n".join([*head, f"data: {text}", "", ""]).encode("ascii")


def document_stream(example: str, *names: str) -> dict[str, Any]:
    """Return the OpenAPI entry of a response that is a stream of events.

    Args:
        example: What it looks like.
        names: The names of the events; none where they have no names.
    """
    event: dict[str, Any] = {"type": "string", "enum": list(names)} if names else {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "data": {"type": "string", "contentMediaType": "application/json"},
            "event": event,
            "id": {"type": "string"},
        },
        "required": ["data"],
    }
    return {EVENT_STREAM: {"itemSchema": schema, "example": example}}


async def wait_for_result(task: EpisodeTask) -> Result:
    """Wait for the end of an episode."""
    async with task:
        return Result.from_events(await task.wait_to_end())


async def wait_for_admission(task: EpisodeTask) -> Event | Waiting:
    """Wait until the question has a place in the queue. Until then a refusal can still be a status."""
    try:
        return await task.next_event()
    except BaseException:
        await task.cancel()
        raise


async def events_with_heartbeats(
    task: EpisodeTask, first: Event | Waiting, heartbeat: float
) -> AsyncIterator[Event | Waiting | None]:
    """Return the events of an episode and news of its place in the queue, and None after so many seconds of silence.

    Raises:
        ClientDisconnected: The client left.
        HttpProblem: The episode was interrupted.
    """
    event: Event | Waiting | None = first
    while True:
        yield event
        if isinstance(event, Finished):
            return
        try:
            event = await task.next_event(heartbeat)
        except TimeoutError:
            event = None


async def stream_answer(
    task: EpisodeTask,
    first: Event | Waiting,
    service: AnswerService,
    request_id: str,
    *,
    closing: Callable[[AnswerBody], Iterable[bytes]],
    failed: Callable[[HttpProblem], bytes],
) -> AsyncIterator[bytes]:
    """Return heartbeats while the episode runs, and then what is made of its answer.

    Args:
        task: The episode.
        first: The first news of it.
        service: What runs it.
        request_id: Identifies the request.
        closing: Gives the last pieces of the stream, from the answer.
        failed: Gives the last piece in their place, if the episode fails: the status was sent already.
    """
    seen: list[Event] = []
    try:
        async for event in events_with_heartbeats(task, first, service.limits.heartbeat):
            if event is None:
                yield HEARTBEAT
            elif isinstance(event, Waiting):
                if event.place:
                    yield f": {event}\n\n".encode("ascii")
            else:
                seen.append(event)
        pieces = closing(answer_body(Result.from_events(seen), service, request_id))
    except HttpProblem as problem:
        pieces = [failed(problem)]
    for piece in pieces:
        yield piece


class EpisodeStream(Response):
    """Sends what an iterator yields, each piece at once and cancel the episode when it stops sending.

    Args:
        task: The episode.
        pieces: What to send, made from its events.
        opening: What to send before that.
    """

    media_type = EVENT_STREAM

    def __init__(self, task: EpisodeTask, pieces: AsyncIterator[bytes], opening: Iterable[bytes] = ()) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._task = task
        self._pieces = pieces
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with self._task:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                for piece in self._opening:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                async for piece in self._pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except ClientDisconnected:
                request_record(scope).client_left = True
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
