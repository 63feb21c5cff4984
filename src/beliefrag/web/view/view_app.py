"""Serves the pages and their data over HTTP, on loopback. They can only be read."""

from __future__ import annotations

import logging
import threading
import time
from importlib.resources import files
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import AfterValidator

from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.record import to_json_line
from beliefrag.registry import explain_mistake
from beliefrag.web.auth import AllowedHosts, BrowserKey, ServerAuth
from beliefrag.web.limits import ServerLimits
from beliefrag.web.server import ConnectionGuard, listen
from beliefrag.web.view.index import (
    LARGEST,
    EpisodeFilter,
    Row,
    find_neighbours,
    list_episodes,
    list_same_question,
)
from beliefrag.web.view.schema import NotAvailable, ViewError
from beliefrag.web.view.sources import EpisodeSource, RunSource

_log = logging.getLogger(__name__)

_JS, _CSS = "text/javascript", "text/css"
_ASSETS = {"app.js": _JS, "app.css": _CSS, "ask.js": _JS, "ask.css": _CSS, "icon.svg": "image/svg+xml"}
_HOST = "127.0.0.1"
_START_SECONDS = 20.0


def read_asset(name: str) -> str:
    """Read one of the built files that come with the package."""
    return (files("beliefrag.web.view") / "assets" / name).read_text(encoding="utf-8")


def create_view_app(source: EpisodeSource) -> FastAPI:
    """Create the application for one source."""
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
    def episode(number: _Number) -> Response:
        return Response(to_json_line(source.episode(number)), media_type="application/json")

    @app.get("/episode/{number:int}")
    def episode_page(number: _Number) -> Response:
        source.episode(number)
        return _page()

    app.get("/api/state")(lambda: {"state": source.state})
    if isinstance(source, RunSource):
        _add_run_pages(app, source)
    else:
        app.get("/")(lambda: RedirectResponse("/episode/0", 303))
    return app


def _add_run_pages(app: FastAPI, source: RunSource) -> None:
    @app.get("/")
    @app.get("/episodes")
    def page() -> Response:
        return _page()

    @app.get("/compare/{first:int}/{second:int}")
    def compare_page(first: _Number, second: _Number) -> Response:
        for number in (first, second):
            source.episode(number)
        return _page()

    app.get("/api/run")(source.overview)

    @app.get("/api/episodes")
    def episodes(wanted: Annotated[EpisodeFilter, Query()]) -> dict[str, Any]:
        source.index.refresh()
        total, rows = list_episodes(source.index, wanted)
        return {"total": total, "offset": wanted.offset, "episodes": rows}

    @app.get("/api/choices")
    def choices() -> dict[str, Any]:
        run = source.record
        return {"datasets": list(run.datasets), "methods": list(run.methods)}

    @app.get("/api/episode/{number:int}/neighbours")
    def neighbours(number: _Number, wanted: Annotated[EpisodeFilter, Query()]) -> Row:
        return find_neighbours(source.index, wanted, number)

    @app.get("/api/episode/{number:int}/others")
    def others(number: _Number) -> list[Row]:
        return list_same_question(source.index, number)


def _check_number(number: int) -> int:
    if number > LARGEST:
        raise NotAvailable("No episode has such a number.")
    return number


_Number = Annotated[int, AfterValidator(_check_number)]


def _page() -> Response:
    return Response(read_asset("index.html"), media_type="text/html")


class ViewServer:
    """A local web server for one source, which it closes, in a thread of its own while it is entered."""

    def __init__(self, source: EpisodeSource, port: int = 0) -> None:
        self._source = source
        try:
            self._socket = listen(_HOST, port)
        except SettingsError as error:
            raise ViewError(error.message, remedy="Name another with --port, or leave --port out.") from None
        self.port: int = self._socket.getsockname()[1]
        self.key = BrowserKey(self.port, "beliefrag view")
        app = ServerAuth(
            create_view_app(source),
            browser=self.key,
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
                raise ViewError(f"The server at port {self.port} did not start.")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)
        self._socket.close()
        self._source.close()
