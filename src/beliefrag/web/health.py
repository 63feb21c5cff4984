"""Whether the server lives and whether it can answer, for programs that start, watch and balance servers."""

from __future__ import annotations

import time
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from beliefrag.web.problems import AsciiJson
from beliefrag.web.service import AnswerService

__all__ = ["health_routes"]

_CHECK_INTERVAL = 1.0
"""Seconds for which a check of the index holds: anybody may ask, so asking must cost nothing."""


class AliveBody(BaseModel):
    """The server lives."""

    status: Literal["ok"]


class ReadyBody(BaseModel):
    """Which parts of the server can be used."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ready", "model": True, "index": True}]})

    status: Literal["ready", "not ready", "shutting down"]
    model: bool
    index: bool


def health_routes(service: AnswerService) -> APIRouter:
    """Return the routes, each with and without the version in its path."""
    router = APIRouter()
    last_check: list[tuple[float, bool]] = []

    async def healthz() -> Response:
        return AsciiJson({"status": "ok"})

    async def readyz() -> Response:
        if not last_check or time.monotonic() - last_check[0][0] > _CHECK_INTERVAL:
            last_check[:] = [(time.monotonic(), await service.index_is_ready())]
        parts = {"model": service.model_is_ready(), "index": last_check[0][1]}
        ready = all(parts.values()) and not service.draining
        status = "shutting down" if service.draining else "ready" if ready else "not ready"
        return AsciiJson({"status": status, **parts}, 200 if ready else 503)

    not_ready: dict[int | str, dict[str, Any]] = {503: {"model": ReadyBody, "description": "It cannot answer now."}}
    for prefix in ("/v1", ""):
        label = "" if prefix else "_unversioned"
        router.get(
            f"{prefix}/healthz",
            operation_id=f"healthz{label}",
            summary="Whether the server lives",
            response_model=AliveBody,
        )(healthz)
        router.get(
            f"{prefix}/readyz",
            operation_id=f"readyz{label}",
            summary="Whether model and index can be used",
            response_model=ReadyBody,
            responses=not_ready,
        )(readyz)
    return router
