"""For programs that watch a server: whether it lives, and whether it can answer."""

from __future__ import annotations

import time

from fastapi import APIRouter
from starlette.responses import Response

from beliefrag.web.problems import AsciiJson
from beliefrag.web.service import AnswerService

_CHECK_INTERVAL = 1.0
"""Seconds for which a check of the index holds: anybody may ask, so asking must cost nothing."""


def health_routes(service: AnswerService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()
    checked_at, index_is_ready = float("-inf"), False

    @router.get("/healthz", summary="Whether the server lives")
    async def healthz() -> Response:
        return AsciiJson({"status": "ok"})

    @router.get("/readyz", summary="Whether model and index can be used")
    async def readyz() -> Response:
        nonlocal checked_at, index_is_ready
        if time.monotonic() - checked_at > _CHECK_INTERVAL:
            checked_at, index_is_ready = time.monotonic(), await service.index_is_ready()
        parts = {"model": service.model_is_ready(), "index": index_is_ready}
        ready = all(parts.values()) and not service.draining
        status = "shutting down" if service.draining else "ready" if ready else "not ready"
        return AsciiJson({"status": status, **parts}, 200 if ready else 503)

    return router
