"""Puts the server together: routes inside, and around them the middleware in the order that protects them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from beliefrag._version import __version__
from beliefrag.web.http.access import Access
from beliefrag.web.http.asking import ask_routes
from beliefrag.web.http.bodies import BodyLimit
from beliefrag.web.http.chat import chat_routes
from beliefrag.web.http.health import health_routes
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import OpenAIError, Problem, ProblemBody, speaks_openai
from beliefrag.web.http.request_log import Journal
from beliefrag.web.http.site import Site

__all__ = ["create_app"]

_ABOUT = (
    "Answers questions from documents: searches only as much as a question needs, says how sure it is and why it "
    "stopped, and declines when it should."
)


def create_app(
    site: Site,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    serve_metrics: bool = False,
) -> FastAPI:
    """The server as an ASGI application.

    From the outside in: the journal, so that every request is written down, refused ones too; access, so that nobody
    without the token makes us read a body; the body, so that no handler sees one that is too long; the routes.

    Args:
        site: What the routes serve.
        token: The bearer token; None lets everybody in.
        host: The address that it will listen at.
        allowed_hosts: More names that it may be called by.
        serve_metrics: Whether there is `/metrics`.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await site.service.aclose()

    app = FastAPI(
        title="BeliefRAG",
        description=_ABOUT,
        version=__version__,
        lifespan=lifespan,
        # The pages of FastAPI load scripts from elsewhere; the document itself is enough.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (ask_routes(site), chat_routes(site), health_routes(site.service)):
        app.include_router(router)
    if serve_metrics:

        @app.get("/metrics", include_in_schema=False)
        async def metrics() -> Response:
            return Response(site.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(BodyLimit, limits=site.service.limits)
    app.add_middleware(Access, token=token, host=host, allowed_hosts=allowed_hosts)
    app.add_middleware(Journal, metrics=site.metrics)
    _document(app, secured=token is not None)
    return app


def _respond(request: Request, problem: Problem) -> Response:
    note, path = note_of(request.scope), request.url.path
    if note.outcome is None:
        note.refused = problem.code
    if problem.status == 422 and speaks_openai(path):
        problem.status = 400  # what OpenAI's API answers for a value that it cannot use
    return problem.response(path, note.request_id)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _respond(request, error)


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a body. What was sent is not sent back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or None
    if first["type"] == "json_invalid":
        return _respond(request, Problem(400, "no_json", "The body is no JSON."))
    return _respond(request, Problem(422, "invalid", f"{first['msg']}.", field=place))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "wrong_method"}
    problem = Problem(
        error.status_code, codes.get(error.status_code, "http"), f"{error.detail}.", headers=error.headers or {}
    )
    return _respond(request, problem)


def _forget_the_form_of_fastapi(document: dict[str, Any]) -> None:
    """Takes out its own 422, which it adds wherever we did not give one: refusals have our forms here."""
    for unused in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(unused, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]


def _document(app: FastAPI, *, secured: bool) -> None:
    """Completes the OpenAPI document with the forms of refusals and with the token."""
    document = app.openapi()
    schemas: dict[str, Any] = document["components"]["schemas"]
    for form in (ProblemBody, OpenAIError):
        schema = form.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[form.__name__] = schema
    _forget_the_form_of_fastapi(document)
    if secured:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            if not path.endswith(("/healthz", "/readyz")):
                for operation in methods.values():
                    operation["security"] = [{"token": []}]
