"""`/v1/reload`: opens the newest version of the index when it is asked for."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request
from starlette.responses import Response

from beliefrag.errors import BeliefRAGError
from beliefrag.web.problems import AsciiJson, HttpProblem, document_problems, problem_of_failure
from beliefrag.web.reload import IndexReloader, ReloadBody
from beliefrag.web.request_log import mask_credentials

__all__ = ["reload_routes"]

_log = logging.getLogger(__name__)


def reload_routes(reloader: IndexReloader) -> APIRouter:
    """Gives the route that reloads the index."""
    router = APIRouter()

    @router.post(
        "/v1/reload",
        operation_id="reload",
        summary="Open the newest version of the index, or read the documents again",
        response_model=ReloadBody,
        responses=document_problems(401, 403, 421, 503),
    )
    async def reload(request: Request) -> Response:
        if "origin" in request.headers:
            # Without a token a web page could make a browser send this.
            raise HttpProblem(403, "from_a_browser", "This cannot be asked for by a web page.")
        try:
            return AsciiJson((await reloader.reload()).model_dump())
        except BeliefRAGError as error:
            fields = {"cause": type(error).__name__, "error": mask_credentials(error.message)}
            _log.warning("the index cannot be reloaded; the old one is kept", extra={"fields": fields})
            raise problem_of_failure(type(error).__name__) from None

    return router
