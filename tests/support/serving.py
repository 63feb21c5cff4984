"""A real server on loopback, in a thread of this process, with a scripted model that can be made slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.opening import Assembly, assemble
from beliefrag.settings import Settings
from beliefrag.types import Passage
from beliefrag.web.auth import BrowserKey
from beliefrag.web.http import HttpContext, create_app
from beliefrag.web.limits import ServerLimits
from beliefrag.web.server import AnswerServer, listen
from beliefrag.web.service import AnswerService
from tests.support.episodes import verdict

PASSAGES = [
    Passage(
        "travel",
        "Travel",
        "Travel above the limit is approved by the head of finance.",
        "/srv/secret/travel.md",
        "lines 12-14",
    ),
    Passage("leave", "Leave", "Leave is approved by the team lead.", "https://example.org/wiki/leave"),
]
QUESTION = "Who approves travel above the limit?"
ANSWER = "the head of finance"
SURE = verdict(0.95, 0.0, 0.0) | {"repeat": True}
UNSURE = verdict(0.0, 1.0, 1.0) | {"repeat": True}
REPLY = {"purpose": "answer", "reply": ANSWER, "repeat": True}
QUERY = {"purpose": "query_writer", "reply": "SUFFICIENT", "repeat": True}


class Slow:
    """A model that takes its time, and counts who waits for it."""

    def __init__(self, model: ChatModel, seconds: float) -> None:
        self._model = model
        self.seconds = seconds
        self.asked = 0
        self.inside = 0
        self.most_inside = 0

    @property
    def identity(self) -> str:
        return self._model.identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(self.seconds)
            return await self._model.chat(request)
        finally:
            self.inside -= 1

    async def aclose(self) -> None:
        await self._model.aclose()


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    service: AnswerService
    server: AnswerServer
    model: Slow
    loop: asyncio.AbstractEventLoop

    def client(self, **how: Any) -> httpx2.Client:
        # No certificates are needed on loopback, and reading them takes longer than a request.
        return httpx2.Client(base_url=self.url, timeout=30, verify=False, **how)

    def ask(self, question: str = QUESTION, headers: Mapping[str, str] | None = None, **settings: Any) -> Any:
        body = {"question": question, **({"settings": settings} if settings else {})}
        with self.client() as client:
            return client.post("/v1/ask", json=body, headers=headers)

    def tasks(self) -> int:
        """Return how many tasks the server's event loop holds."""

        async def count() -> int:
            return len(asyncio.all_tasks())

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result(10)


def opened(
    folder: Path,
    *lines: Mapping[str, Any],
    seconds: float = 0.0,
    passages: Sequence[Passage] = PASSAGES,
    docs: Sequence[Path] | None = None,
    index: Path | None = None,
    **settings: Any,
) -> tuple[Assembly, Settings]:
    """Return an assembly of documents, or else of passages, with a scripted model."""
    script = folder / "served.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in lines or (SURE, REPLY)), encoding="utf-8")
    usual: dict[str, Any] = {"borrow": "published", "verifier": "structured", "cache": False, "retry_seconds": 0}
    usual["answer_style"] = "short"
    chosen = Settings(model=f"scripted:{script}", **(usual | settings))
    assembly = assemble(chosen, passages=None if docs or index else passages, docs=docs, index=index)
    model = Slow(assembly.model, seconds)
    return replace(
        assembly, engine=replace(assembly.engine, model=model), harness=replace(assembly.harness, model=model)
    ), chosen


@contextlib.contextmanager
def served(
    assembly: Assembly,
    settings: Settings,
    *,
    limits: ServerLimits | None = None,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: tuple[str, ...] = (),
    make_key: Callable[[socket.socket], BrowserKey] | None = None,
    **site: Any,
) -> Iterator[Served]:
    """Serve an assembly until the context is left."""
    service = AnswerService(assembly, settings, limits or ServerLimits(budget=settings.budget))
    bound = listen("127.0.0.1", 0)
    app = create_app(
        HttpContext(service, **site),
        token=token,
        host=host,
        allowed_hosts=allowed_hosts,
        browser=make_key(bound) if make_key is not None else None,
    )
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    server = AnswerServer(app, service)
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve(sockets=[bound])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    assert isinstance(assembly.model, Slow)
    try:
        yield Served(url, service, server, assembly.model, loops[0])
    finally:
        server.should_exit = True
        thread.join(timeout=200)
        bound.close()
        assert not thread.is_alive(), "the server did not end"


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.01)


def raw_post(path: str, body: Mapping[str, Any], *headers: str) -> bytes:
    """Return the bytes of a request."""
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the named events of a stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            found.append((lines.get("event", ""), json.loads(lines["data"])))
    return found
