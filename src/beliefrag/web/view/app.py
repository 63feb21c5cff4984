"""The pages and their data over HTTP. Everything is read; nothing can be changed from a browser."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from beliefrag.errors import BeliefRAGError
from beliefrag.web.view import listing
from beliefrag.web.view.errors import NotHere
from beliefrag.web.view.export import asset, export_name, export_page
from beliefrag.web.view.sources import LiveSource, RunSource, Source

__all__ = ["make_app"]

_log = logging.getLogger(__name__)

_ASSETS = {"app.js": "text/javascript", "app.css": "text/css", "icon.svg": "image/svg+xml"}
_GLANCE = 0.1
"""Seconds between two looks at an episode under way: sooner than an eye notices."""
_LARGEST = 2**63 - 1
"""Of the numbers that a database knows."""


def make_app(source: Source, closing: Callable[[], bool] = lambda: False) -> FastAPI:
    """The application for one source.

    Args:
        source: What to show.
        closing: Whether the server is ending, so that streams end too.
    """
    app = FastAPI(openapi_url=None)

    @app.exception_handler(BeliefRAGError)
    def failed(_: Request, error: BeliefRAGError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, NotHere) else 500)

    @app.exception_handler(Exception)
    def broke(request: Request, error: Exception) -> JSONResponse:
        _log.warning("The page %s failed: %s: %s", request.url.path, type(error).__name__, error)
        _log.debug("The error came from here:", exc_info=error)
        return JSONResponse({"error": f"Internal error, {type(error).__name__}: {error}."}, 500)

    @app.get("/assets/{name}")
    def give_asset(name: str) -> Response:
        if name not in _ASSETS:
            raise NotHere(f"There is no file {name!r}.")
        return Response(asset(name), media_type=_ASSETS[name])

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return {"kind": source.kind, "name": source.name}

    @app.get("/api/episode/{number:int}")
    def episode(number: int) -> Response:
        return _json(source.episode(_known(number)).model_dump_json())

    @app.get("/api/episode/{number:int}/prompts")
    def prompts(number: int) -> Response:
        return _json(source.prompts(_known(number)).model_dump_json())

    @app.get("/episode/{number:int}/export")
    def export(number: int) -> Response:
        found = source.episode(_known(number))
        page = export_page(found, source.prompts(number))
        disposition = f'attachment; filename="{export_name(found)}"'
        return Response(page, media_type="text/html", headers={"Content-Disposition": disposition})

    @app.get("/episode/{number:int}")
    def episode_page(number: int) -> Response:
        source.episode(_known(number))
        return _page()

    if isinstance(source, RunSource):
        _add_run(app, source)
    else:
        app.get("/")(lambda: RedirectResponse("/episode/0", 303))
    if isinstance(source, LiveSource):
        _add_live(app, source, closing)
    return app


def _add_run(app: FastAPI, source: RunSource) -> None:
    @app.get("/")
    @app.get("/episodes")
    def page() -> Response:
        return _page()

    @app.get("/compare/{first:int}/{second:int}")
    def compare_page(first: int, second: int) -> Response:
        for number in (first, second):
            source.episode(_known(number))
        return _page()

    @app.get("/api/run")
    def overview() -> dict[str, Any]:
        return source.overview()

    @app.get("/api/episodes")
    def episodes(asked: Annotated[_Listing, Query()]) -> dict[str, Any]:
        source.index.refresh()
        return listing.list_episodes(source.index, asked.wanted(), offset=asked.offset, limit=asked.limit)

    @app.get("/api/choices")
    def choices() -> dict[str, Any]:
        run = source.record
        return {
            "datasets": list(run.datasets),
            "methods": list(run.methods),
            "patterns": listing.patterns(source.index),
        }

    @app.get("/api/episode/{number:int}/neighbours")
    def neighbours(number: int, asked: Annotated[_Listing, Query()]) -> dict[str, Any]:
        return listing.neighbours(source.index, asked.wanted(), _known(number))

    @app.get("/api/episode/{number:int}/others")
    def others(number: int) -> list[dict[str, Any]]:
        return listing.others(source.index, _known(number))


def _add_live(app: FastAPI, source: LiveSource, closing: Callable[[], bool]) -> None:
    async def frames() -> AsyncIterator[str]:
        shown = -1
        while not closing():
            if (version := source.version) != shown:
                shown, ended = version, source.ended
                yield f"data: {source.episode(0).model_dump_json()}\n\n"
                if ended:
                    yield "event: end\ndata: {}\n\n"
                    return
            await asyncio.sleep(_GLANCE)

    @app.get("/api/live")
    async def live() -> StreamingResponse:
        return StreamingResponse(frames(), media_type="text/event-stream")


class _Listing(BaseModel):
    """What a listing can be asked for in an address."""

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
    offset: int = Field(0, ge=0, le=_LARGEST)
    limit: int = Field(100, ge=1, le=listing.MOST)

    def wanted(self) -> listing.EpisodeFilter:
        filters = self.model_dump(exclude={"direction", "offset", "limit"})
        return listing.EpisodeFilter(**filters, descending=self.direction == "down")


def _known(number: int) -> int:
    if number > _LARGEST:
        raise NotHere("There is no episode with such a number.")
    return number


def _page() -> Response:
    return Response(asset("index.html"), media_type="text/html")


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
