"""Whether the server lives, and whether it can answer: for whatever starts, watches and balances servers."""

from __future__ import annotations

import time
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from beliefrag.web.http.problems import Json
from beliefrag.web.http.service import Service

__all__ = ["health_routes"]

_FRESH = 1.0
"""Seconds for which a look at the index holds: anybody may ask, and asking must cost nothing."""


class Alive(BaseModel):
    """It lives."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Which parts can be used."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ready", "model": True, "index": True}]})

    status: Literal["ready", "not ready", "shutting down"]
    model: bool
    index: bool


def health_routes(service: Service) -> APIRouter:
    """The routes, each under both of its names."""
    router = APIRouter()
    looked: list[tuple[float, bool]] = []

    async def healthz() -> Response:
        return Json({"status": "ok"})

    async def readyz() -> Response:
        if not looked or time.monotonic() - looked[0][0] > _FRESH:
            looked[:] = [(time.monotonic(), await service.index_is_ready())]
        parts = {"model": service.model_is_ready(), "index": looked[0][1]}
        ready = all(parts.values()) and not service.draining
        status = "shutting down" if service.draining else "ready" if ready else "not ready"
        return Json({"status": status, **parts}, 200 if ready else 503)

    not_ready: dict[int | str, dict[str, Any]] = {503: {"model": Ready, "description": "It cannot answer now."}}
    for prefix in ("/v1", ""):
        label = "" if prefix else "_unversioned"
        router.get(
            f"{prefix}/healthz",
            operation_id=f"healthz{label}",
            summary="Whether the server lives",
            response_model=Alive,
        )(healthz)
        router.get(
            f"{prefix}/readyz",
            operation_id=f"readyz{label}",
            summary="Whether model and index can be used",
            response_model=Ready,
            responses=not_ready,
        )(readyz)
    return router
