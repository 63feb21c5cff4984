"""Puts the HTTP server together: the routes, and around them the middleware in the order that protects them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from beliefrag._version import __version__
from beliefrag.errors import BeliefRAGError
from beliefrag.opening import reopen_passages
from beliefrag.record import AnswerText, CallStarted, Episode, Progress, Step
from beliefrag.web.answers import AnswerBody, step_record
from beliefrag.web.auth import AllowedHosts, BrowserKey, ServerAuth
from beliefrag.web.health import health_routes
from beliefrag.web.http.episodes import EVENT_STREAM, HttpContext, ReplyForm, encode_event
from beliefrag.web.http.openai_api import openai_routes
from beliefrag.web.limits import BodyLimit
from beliefrag.web.problems import AsciiJson, HttpProblem, is_openai_path, problem_of_failure
from beliefrag.web.request_log import RequestLog, mask_credentials, refuse, request_record
from beliefrag.web.request_settings import (
    History,
    RequestSettings,
    StrictBody,
    assembly_for_request,
    check_question,
    read_history,
)
from beliefrag.web.search import SearchArguments, SearchDesk, SearchReply
from beliefrag.web.service import AnswerService, Waiting

_log = logging.getLogger(__name__)
_ASK_PATH = "/v1/ask"
_ASK_REPLY: dict[str, Any] = {
    "description": "An answer, or the outcome `abstained` without one. With `Accept: text/event-stream`, `started` and "
    "each `step` as it ends; `answer_text` while the model writes an answer that will be given: its text replaces what "
    "was shown from character `at` on; the last event is `result` with the answer, or `error` with a "
    "problem.",
    "content": {EVENT_STREAM: {}},
}
_PROBLEM: dict[str, Any] = {
    "description": "No answer: a problem document (RFC 9457), or OpenAI's error object at the addresses of its API.",
    "content": {kind: {"schema": {"type": "object"}} for kind in ("application/problem+json", "application/json")},
}


def create_app(
    context: HttpContext,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    browser: BrowserKey | None = None,
    readers: Mapping[str, frozenset[str]] | None = None,
) -> FastAPI:
    """Create the server as an ASGI application.

    From the outside in: the log, which has refused requests too; the authentication, before a body is read; the body
    limit; the routes.
    """
    service = context.service

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.aclose()

    app = FastAPI(
        title="BeliefRAG",
        description="Answers questions from documents with calibrated probabilities, and declines when it should.",
        version=__version__,
        lifespan=lifespan,
        responses={"default": _PROBLEM},
        # FastAPI's pages load scripts from other servers; the document itself is enough.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    # Only the document says so here; the middleware checks the token.
    secured = [] if token is None and readers is None else [Depends(HTTPBearer(auto_error=False))]
    replies: dict[int | str, dict[str, Any]] = {200: _ASK_REPLY}
    app.post(_ASK_PATH, response_model=AnswerBody, responses=replies, dependencies=secured)(_ask_route(context))
    app.post("/v1/search", response_model=SearchReply, dependencies=secured)(_search_route(context))
    app.include_router(openai_routes(context), dependencies=secured)
    app.include_router(health_routes(service))
    if context.docs or context.index:
        app.post("/v1/reload", dependencies=secured)(_reload_route(context))
    if context.page is not None:
        from beliefrag.web.page import page_routes  # noqa: PLC0415 (slow to load)
        from beliefrag.web.view.view_app import create_view_app  # noqa: PLC0415 (slow to load)

        service.feedback = context.page.feedback.path
        app.include_router(page_routes(context.page, service))
        # Last, because it takes all addresses that are left: those of the viewer.
        app.mount("/", create_view_app(context.page.episodes))
    for kind in (HttpProblem, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _on_error)
    app.add_middleware(BodyLimit, limits=service.limits)
    hosts = AllowedHosts.for_address(host, allowed_hosts)
    app.add_middleware(ServerAuth, hosts=hosts, token=token, browser=browser, readers=readers)
    app.add_middleware(RequestLog)
    return app


class AskBody(StrictBody):
    """A question, and settings that hold for it alone."""

    question: str = Field(
        min_length=1,
        description="The question to answer from the documents.",
        examples=["Who approves travel above the limit?"],
    )
    history: History = ()
    settings: RequestSettings | None = None


class _EventForm(ReplyForm):
    """The events of the episode; the last one is `result` or `error`."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def event(self, event: Progress | Waiting) -> bytes:
        match event:
            case Waiting():
                name, record = "waiting", asdict(event)
            case Step():
                name, record = "step", step_record(event)
            case Episode():
                name, record = (
                    "started",
                    event.model_dump(mode="json", include={"question", "standalone", "method", "budget"}),
                )
            case CallStarted():
                name, record = "call_started", event.model_dump()
            case AnswerText():
                name, record = "answer_text", event.model_dump()
        return encode_event(record, name=name)

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        return [encode_event(answer, name="result")]

    def failed(self, problem: HttpProblem) -> bytes:
        return encode_event(problem.body(_ASK_PATH, self._request_id), name="error")


def _ask_route(context: HttpContext) -> Any:
    async def ask(request: Request, body: Annotated[AskBody, Body()]) -> Response:
        """Answer a question from the documents."""
        question = check_question(body.question, context.service, field="question")
        assembly = await asyncio.to_thread(assembly_for_request, context.service, body.settings, request.scope)
        form = _EventForm(request_record(request.scope).request_id)
        stream = EVENT_STREAM in request.headers.get("accept", "")
        history = read_history(body.history, context.service, request.scope)
        return await context.respond(request, question, assembly, form, stream=stream, history=history)

    return ask


def _search_route(context: HttpContext) -> Any:
    desk = SearchDesk(context.service)

    async def search(request: Request, body: Annotated[SearchArguments, Body()]) -> Response:
        """Find passages in the documents by their words, best first, without asking a model."""
        reply = await desk.search(body, request.scope)
        request_record(request.scope).outcome = "searched"
        return AsciiJson(reply)

    return search


async def reload_passages(
    service: AnswerService, docs: Sequence[Path] | None, index: Path | None, scope: Mapping[str, Any]
) -> dict[str, bool | str | None]:
    """Open the passages again for the next questions, and return whether they changed, and their fingerprint."""
    before = service.assembly_for(scope).harness.made_with.get("corpus")
    service.replace_passages(await asyncio.to_thread(reopen_passages, service.assembly, docs=docs, index=index))
    corpus = service.assembly_for(scope).harness.made_with.get("corpus")
    return {"changed": corpus != before, "corpus": corpus}


def _reload_route(context: HttpContext) -> Any:
    async def reload(request: Request) -> dict[str, bool | str | None]:
        """Open the documents or the index again, with the settings that the server was started with."""
        if "origin" in request.headers:
            # Without a token a web page could make a browser send this.
            raise HttpProblem(403, "from_a_browser", "A web page cannot request a reload.")
        try:
            return await reload_passages(context.service, context.docs, context.index, request.scope)
        except BeliefRAGError as error:
            fields = {"cause": type(error).__name__, "error": mask_credentials(error.message)}
            _log.warning("reload failed; the old passages stay in use", extra={"fields": fields})
            raise problem_of_failure(type(error).__name__) from None

    return reload


async def _on_error(request: Request, error: Exception) -> Response:
    """Return the response to a refused request. For a mistake in a body it names the first, but not the value."""
    match error:
        case HttpProblem():
            problem = error
        case RequestValidationError():
            problem = _invalid_body(error.errors()[0], request.headers.get("content-type", ""))
        case HTTPException():
            code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "http")
            problem = HttpProblem(error.status_code, code, f"{error.detail}.", headers=error.headers or {})
        case _:
            raise error
    if problem.status == 422 and is_openai_path(request.url.path):
        problem.status = 400  # what OpenAI's API answers for a value that it cannot use
    return refuse(request.scope, problem)


def _invalid_body(mistake: dict[str, Any], content_type: str) -> HttpProblem:
    kind = content_type.partition(";")[0].strip().lower()
    if mistake["type"] == "json_invalid":
        return HttpProblem(400, "no_json", "The body is not JSON.")
    if mistake["loc"][0] == "body" and kind != "application/json":
        # FastAPI reads JSON only under its own content type.
        words = f"The header Content-Type is {'not application/json' if kind else 'missing'}."
        return HttpProblem(415, "no_json", words, remedy="Send Content-Type: application/json.")
    field = ".".join(str(part) for part in mistake["loc"][1:]) or None
    return HttpProblem(422, "invalid", f"{mistake['msg']}.", field=field)
