"""Serves the pages and their data over HTTP, on loopback. They can only be read."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Annotated, Literal

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.record import to_json_line
from beliefrag.registry import explain_mistake
from beliefrag.web.auth import AllowedHosts, BrowserKey, ServerAuth
from beliefrag.web.limits import ServerLimits
from beliefrag.web.server import ConnectionGuard, listen
from beliefrag.web.view import listing
from beliefrag.web.view.export import export_name, export_page, read_asset
from beliefrag.web.view.run_page import RunAnalysis, RunOverview
from beliefrag.web.view.schema import NotAvailable, ViewError
from beliefrag.web.view.sources import EpisodeSource, LiveSource, RunSource, TraceSource

_log = logging.getLogger(__name__)

_ASSETS = {
    "app.js": "text/javascript",
    "app.css": "text/css",
    "ask.js": "text/javascript",
    "ask.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_HOST = "127.0.0.1"
_START_SECONDS = 20.0
"""Seconds within which a server must have begun."""
_LIVE_INTERVAL = 0.1
"""Seconds between two looks at a running episode: sooner than an eye notices."""
_LARGEST = 2**63 - 1
"""The largest number that a database can hold."""


def create_view_app(source: EpisodeSource, is_closing: Callable[[], bool] = lambda: False) -> FastAPI:
    """Create the application for one source.

    Args:
        source: What to show.
        is_closing: Whether the server is ending so that streams end too.
    """
    app = FastAPI(openapi_url=None)

    @app.exception_handler(BeliefRAGError)
    def on_error(_: Request, error: BeliefRAGError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, NotAvailable) else 500)

    @app.exception_handler(Exception)
    def on_unforeseen_error(request: Request, error: Exception) -> JSONResponse:
        _log.warning("The page %s failed: %s: %s", request.url.path, type(error).__name__, error)
        _log.debug("The error came from here:", exc_info=error)
        return JSONResponse({"error": " ".join(explain_mistake(error))}, 500)

    @app.get("/assets/{name}")
    def asset(name: str) -> Response:
        if name not in _ASSETS:
            raise NotAvailable(f"No file is called {name!r}.")
        return Response(read_asset(name), media_type=_ASSETS[name])

    @app.get("/api/about")
    def about() -> dict[str, str]:
        return {"kind": source.kind, "name": source.name}

    @app.get("/api/episode/{number:int}")
    def episode(number: int) -> Response:
        return _json(source.episode(_check_number(number)))

    @app.get("/api/episode/{number:int}/prompts")
    def prompts(number: int) -> Response:
        return _json(source.prompts(_check_number(number)))

    @app.get("/episode/{number:int}/export")
    def export(number: int) -> Response:
        found = source.episode(_check_number(number))
        page = export_page(found, source.prompts(number))
        disposition = f'attachment; filename="{export_name(found)}"'
        return Response(page, media_type="text/html", headers={"Content-Disposition": disposition})

    @app.get("/episode/{number:int}")
    def episode_page(number: int) -> Response:
        source.episode(_check_number(number))
        return _page()

    if isinstance(source, RunSource | TraceSource):
        app.get("/api/state")(lambda: {"state": source.state})
    if isinstance(source, RunSource):
        _add_run_pages(app, source)
    else:
        app.get("/")(lambda: RedirectResponse("/episode/0", 303))
    if isinstance(source, LiveSource):
        _add_live_stream(app, source, is_closing)
    return app


def _add_run_pages(app: FastAPI, source: RunSource) -> None:
    @app.get("/")
    @app.get("/episodes")
    def page() -> Response:
        return _page()

    @app.get("/compare/{first:int}/{second:int}")
    def compare_page(first: int, second: int) -> Response:
        for number in (first, second):
            source.episode(_check_number(number))
        return _page()

    @app.get("/api/run")
    def overview() -> RunOverview:
        return source.overview()

    @app.get("/api/run/analysis")
    def analysis() -> RunAnalysis:
        return source.analysis()

    @app.get("/api/episodes")
    def episodes(query: Annotated[_ListingQuery, Query()]) -> listing.EpisodePage:
        source.index.refresh()
        return listing.list_episodes(source.index, query.to_filter(), offset=query.offset, limit=query.limit)

    @app.get("/api/choices")
    def choices() -> _Choices:
        run = source.record
        return _Choices(
            datasets=list(run.datasets), methods=list(run.methods), patterns=listing.action_patterns(source.index)
        )

    @app.get("/api/episode/{number:int}/neighbours")
    def neighbours(number: int, query: Annotated[_ListingQuery, Query()]) -> listing.Neighbours:
        return listing.find_neighbours(source.index, query.to_filter(), _check_number(number))

    @app.get("/api/episode/{number:int}/others")
    def others(number: int) -> list[listing.EpisodeRow]:
        return listing.list_same_question(source.index, _check_number(number))


def _add_live_stream(app: FastAPI, source: LiveSource, is_closing: Callable[[], bool]) -> None:
    async def frames() -> AsyncIterator[str]:
        shown = -1
        while not is_closing():
            if (version := source.version) != shown:
                shown, ended = version, source.ended
                yield f"data: {to_json_line(source.episode(0))}\n"
                if ended:
                    yield "event: end\ndata: {}\n\n"
                    return
            await asyncio.sleep(_LIVE_INTERVAL)

    @app.get("/api/live")
    async def live() -> StreamingResponse:
        return StreamingResponse(frames(), media_type="text/event-stream")


class _Choices(BaseModel):
    """What the filters of a list offer."""

    datasets: list[str]
    methods: list[str]
    patterns: list[listing.ActionPattern]


class _ListingQuery(BaseModel):
    """What an address can ask of a list."""

    text: str = Field("", max_length=1000)
    dataset: str = ""
    method: str = ""
    outcome: str = ""
    correctness: str = ""
    actions: str = ""
    least_tokens: int | None = Field(None, ge=0, le=_LARGEST)
    most_tokens: int | None = Field(None, ge=0, le=_LARGEST)
    order: str = Field("file", pattern=f"^({'|'.join(listing.ORDERS)})$")
    direction: Literal["up", "down"] = "up"
    by: Literal["question", "episode"] = "episode"
    offset: int = Field(0, ge=0, le=_LARGEST)
    limit: int = Field(100, ge=1, le=listing.MAX_ROWS)

    def to_filter(self) -> listing.EpisodeFilter:
        fields = self.model_dump(exclude={"direction", "offset", "limit", "by"})
        return listing.EpisodeFilter(**fields, descending=self.direction == "down", grouped=self.by == "question")


def _check_number(number: int) -> int:
    if number > _LARGEST:
        raise NotAvailable("There is not an episode with such a number.")
    return number


def _page() -> Response:
    return Response(read_asset("index.html"), media_type="text/html")


def _json(value: BaseModel) -> Response:
    return Response(to_json_line(value), media_type="application/json")


class ViewServer:
    """A local web server for one source, in a thread of its own while it is entered.

    Args:
        source: What to show. It is closed with the server.
        port: Where to listen; 0 takes any free port.

    Raises:
        ViewError: The port cannot be used.
    """

    def __init__(self, source: EpisodeSource, port: int = 0) -> None:
        self._source = source
        try:
            self._socket = listen(_HOST, port)
        except SettingsError as error:
            raise ViewError(error.message, remedy="Name another with --port, or leave --port out.") from None
        self.port: int = self._socket.getsockname()[1]
        token, once = (secrets.token_urlsafe(24) for _ in range(2))
        self.address, self.address_once = (f"http://{_HOST}:{self.port}/?token={each}" for each in (token, once))
        """The address with the key; and with a key that works once, for a command line that other users can read."""
        self._closing = False
        key = BrowserKey(token, once, self.port)
        app = ServerAuth(
            create_view_app(source, lambda: self._closing),
            browser=key,
            programs=False,
            hosts=AllowedHosts([_HOST, "localhost"], port=self.port, remedy=f"Use {_HOST}."),
        )
        # The application reports errors itself; the server's own lines would only repeat them.
        guard = ConnectionGuard(app, ServerLimits())
        config = guard.config(log_level="critical", lifespan="off", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> ViewServer:
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ViewError(f"The server at port {self.port} did not begin.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)
        self._socket.close()
        self._source.close()
