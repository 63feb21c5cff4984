"""The server's log: one JSON line per request, and what is recorded about a request until then."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.record import Episode, ModelCall, Progress, Step
from beliefrag.web.problems import HttpProblem, problem_of_failure

_log = logging.getLogger(__name__)
_SCOPE_KEY = "beliefrag.request"
_CLIENT_LEFT = 499
"""The status that is logged if the client left; nothing was sent."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LIBRARIES = {"uvicorn": logging.WARNING, "opentelemetry": logging.WARNING, "mcp": logging.ERROR}
"""The levels of their logs; warnings of the MCP library quote headers."""
_MASK = "***"
_MAX_ERROR_CHARS = 1_000
_CREDENTIALS = (
    # The user information of an address: https://user:password@host
    (re.compile(r"(://)[^\s/@]+@"), rf"\1{_MASK}@"),
    # A header's scheme and value: Basic dXNlcjpwYXNz, Bearer eyJhbGciOi...
    (re.compile(r"\b(basic|bearer|digest|negotiate)\s+[^\s\"',;]+", re.IGNORECASE), rf"\1 {_MASK}"),
    # A named value: api_key=..., "password": "...", token ..., API key provided: ...
    (
        re.compile(
            r"\b((?:x-)?(?:api|access|secret|private)?[-_ ]?"
            r"(?:key|token|password|passwd|secret|authorization|credential)s?)"
            r"\b([\"']?\s{0,4}(?:provided|given|is)?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;&)]+",
            re.IGNORECASE,
        ),
        rf"\1\2{_MASK}",
    ),
    # A key by its usual beginning, whole or shortened: sk-..., sk-ab***yz, hf_..., AKIA..., AIza..., ghp_...
    (re.compile(r"\b(?:sk|pk|rk|gsk|hf|xai|ghp|gho|github_pat|glpat|AKIA|AIza|ya29)[-_.A-Za-z0-9*…]{4,}"), _MASK),
    # A signed token of three parts, and any long run of letters and digits
    (re.compile(r"\beyJ[\w-]+(?:\.[\w-]+)+"), _MASK),
    (re.compile(r"(?<![\w/-])(?=[\w*+-]*\d)(?=[\w*+-]*[A-Za-z])[\w*+=-]{28,}"), _MASK),
)


class ClientDisconnected(Exception):
    """The client closed the connection before it was answered."""


@dataclass(slots=True)
class RequestRecord:
    """What is known about one request, for the log. It never holds text of the request."""

    request_id: str
    outcome: str | None = None
    cause: str | None = None
    error: str | None = None
    """The message of an expected error, without credentials. Clients do not get it."""
    answerability: float | None = None
    calls: list[ModelCall] = field(default_factory=list)
    refused: str | None = None
    """Why the request was refused before an episode began."""
    client_left: bool = False
    _texts: list[str] = field(default_factory=list)
    """The question and the passages of the episode, which must not get into the log."""

    def on_progress(self, progress: Progress, seconds: float) -> None:
        """Add up cost and outcome."""
        if isinstance(progress, Step):
            self.calls += progress.calls
            self._texts += [passage.text for passage in progress.passages.values()]
            self._texts += [progress.search.query or ""] if progress.search else []
        elif isinstance(progress, Episode):
            self.calls += progress.calls_before_failure
            self._texts.append(progress.question.text)
            self.answerability, self.cause = progress.answerability, progress.cause or None
            # The message of an unforeseen error can quote anything, also the question.
            if progress.error is not None and problem_of_failure(progress.cause).status != 500:
                self.error = _remove_quotes(mask_credentials(progress.error.message), self._texts)

    def on_end(self, ending: str, seconds: float) -> None:
        """Keep how the episode ended."""
        self.outcome = ending

    def fields(self) -> dict[str, Any]:
        """Return what the log says about a request or a call."""
        record = {name: getattr(self, name) for name in ("outcome", "answerability", "refused", "cause", "error")}
        if self.outcome is not None:
            record["calls"] = len(self.calls)
            record["tokens_in"] = sum(call.tokens_in for call in self.calls)
            record["tokens_out"] = sum(call.tokens_out for call in self.calls)
        return {name: value for name, value in record.items() if value is not None}


def mask_credentials(text: str) -> str:
    """Return a text for the log in which everything that looks like a credential, whole or in part, is masked."""
    text = text[:_MAX_ERROR_CHARS]
    for pattern, replacement in _CREDENTIALS:
        text = pattern.sub(replacement, text)
    return text


def _remove_quotes(text: str, sources: Sequence[str]) -> str:
    """Replace every three or more words in a row that also occur in one of the sources."""
    known = {words[at : at + 3] for words in (tuple(each.split()) for each in sources) for at in range(len(words) - 2)}
    words = tuple(text.split())
    quoted = {place for at in range(len(words) - 2) if words[at : at + 3] in known for place in range(at, at + 3)}
    kept = ["(...)" if place in quoted else word for place, word in enumerate(words)]
    return " ".join(word for word, before in zip(kept, ["", *kept], strict=False) if word != "(...)" or before != word)


def request_record(scope: Scope) -> RequestRecord:
    """Return the record of a request."""
    record = scope[_SCOPE_KEY]
    assert isinstance(record, RequestRecord)
    return record


def refuse(scope: Scope, problem: HttpProblem) -> Response:
    """Record why a request is refused, and return the response to it."""
    record = request_record(scope)
    if record.outcome is None:
        record.refused = problem.code
    return problem.response(scope["path"], record.request_id)


@dataclass(frozen=True, slots=True)
class RequestLog:
    """The outermost middleware: it logs every request, and answers if a handler breaks."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and log what became of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        record = scope[_SCOPE_KEY] = RequestRecord(given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex)
        began = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except ClientDisconnected:
            record.client_left = True
        except Exception as error:
            # The message of an unforeseen error can quote anything; the traceback is for --debug.
            kind = type(error).__name__
            _log.error("A request failed.", extra={"fields": {"request_id": record.request_id, "error": kind}})
            _log.debug("It failed here.", exc_info=True)
            if not status:
                problem = HttpProblem(500, "internal", f"Internal error, {kind}.")
                await problem.response(scope["path"], record.request_id)(scope, receive, send_with_id)
        finally:
            left = record.client_left or not status
            self._write(scope, record, _CLIENT_LEFT if left else status, time.perf_counter() - began)

    def _write(self, scope: Scope, record: RequestRecord, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        # The route's pattern and not the path, because a path can hold anything.
        route = getattr(scope.get("route"), "path", "none")
        fields = {"request_id": record.request_id, "method": method, "route": route, "status": status}
        fields["ms"] = round(1000 * seconds, 1)
        level = logging.WARNING if status >= 500 else logging.INFO
        _log.log(level, "request", extra={"fields": fields | record.fields()})


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # ASCII on one line: nothing in it can act on a terminal or look like another line.
        return json.dumps(line)


@contextlib.contextmanager
def json_log(stream: TextIO) -> Iterator[None]:
    """Write the logs of this package and of its servers to a stream, one JSON object per line, while it is entered."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLine())
    level = logging.getLogger("beliefrag").getEffectiveLevel()
    levels = {"beliefrag": level, "beliefrag.web": min(level, logging.INFO), **_LIBRARIES}
    if level <= logging.DEBUG:
        levels["mcp"] = level
    loggers = [logging.getLogger(name) for name in levels]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(levels[logger.name])
        if logger.name != "beliefrag.web":
            logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        for logger, handlers, propagate, each in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(each)
