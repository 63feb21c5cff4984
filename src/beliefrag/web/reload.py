"""`POST /v1/reload`: opens the documents or the index again, with the settings that the server was started with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from beliefrag.engine.assembly import reopen_passages
from beliefrag.errors import BeliefRAGError
from beliefrag.web.problems import HttpProblem, document_problems, problem_of_failure
from beliefrag.web.request_log import mask_credentials
from beliefrag.web.service import AnswerService

__all__ = ["ReloadBody", "reload_passages", "reload_routes"]

_log = logging.getLogger(__name__)


class ReloadBody(BaseModel):
    """The result of a reload."""

    changed: bool = Field(description="whether the passages differ from those before")
    corpus: str | None = Field(description="the fingerprint of the passages that are searched now")


async def reload_passages(service: AnswerService, docs: Sequence[Path] | None, index: Path | None) -> ReloadBody:
    """Open the passages again and use them for the next questions; running episodes keep the ones they began with.

    Raises:
        BeliefRAGError: They cannot be opened. The service keeps the old ones.
    """
    before = service.assembly.harness.made_with.get("corpus")
    service.replace_passages(await asyncio.to_thread(reopen_passages, service.assembly, docs=docs, index=index))
    corpus = service.assembly.harness.made_with.get("corpus")
    return ReloadBody(changed=corpus != before, corpus=corpus)


def reload_routes(service: AnswerService, docs: Sequence[Path] | None, index: Path | None) -> APIRouter:
    """Return the route that reloads the passages."""
    router = APIRouter()

    @router.post("/v1/reload", operation_id="reload", responses=document_problems(401, 403, 421, 503))
    async def reload(request: Request) -> ReloadBody:
        if "origin" in request.headers:
            # Without a token a web page could make a browser send this.
            raise HttpProblem(403, "from_a_browser", "A web page cannot request a reload.")
        try:
            return await reload_passages(service, docs, index)
        except BeliefRAGError as error:
            fields = {"cause": type(error).__name__, "error": mask_credentials(error.message)}
            _log.warning("reload failed; the old passages stay in use", extra={"fields": fields})
            raise problem_of_failure(type(error).__name__) from None

    return router
