"""Error responses: problem documents (RFC 9457), or OpenAI's error object where clients of that API ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from beliefrag.errors import (
    CalibrationError,
    CorpusError,
    ModelError,
    ReplayMiss,
    ReplyError,
    RetrievalError,
    SettingsError,
    TransportError,
    UnreadableReply,
)
from beliefrag.models.failures import EmptyReplyError

__all__ = [
    "AsciiJson",
    "HttpProblem",
    "OpenAIErrorBody",
    "ProblemBody",
    "document_openai_errors",
    "document_problems",
    "is_openai_path",
    "problem_of_failure",
]

_TITLES = {
    400: "The request cannot be understood",
    401: "A token is needed",
    403: "This is not allowed",
    404: "There is nothing at this address",
    405: "This address takes other methods",
    408: "The request did not arrive in time",
    413: "The request is too large",
    415: "The body has another type",
    421: "This server has another name",
    422: "The request cannot be met",
    429: "Too many questions at once",
    500: "Something broke inside the server",
    502: "The model gave no usable reply",
    503: "The server cannot answer now",
    504: "The question took too long",
}
_BAD_GATEWAY = (TransportError, ReplyError, UnreadableReply, EmptyReplyError)
_UNAVAILABLE = (CalibrationError, CorpusError, ModelError, ReplayMiss, RetrievalError, SettingsError)
_STATUS_OF_CAUSE = {cause.__name__: 503 for cause in _UNAVAILABLE} | {cause.__name__: 502 for cause in _BAD_GATEWAY}
_WORDS_OF_CAUSE = {
    "TransportError": "The model's server gave no usable reply",
    "CorpusError": "The documents cannot be searched",
    "RetrievalError": "The documents cannot be searched",
    "CalibrationError": "The calibration cannot be used",
    "SettingsError": "A setting of the server cannot be used",
}
_JSON = json.JSONEncoder(separators=(",", ":"))
_OPENAI_PATHS = ("/v1/chat/", "/v1/models", "/v1/responses")


class AsciiJson(Response):
    """A JSON response in ASCII, so that any text can be sent, also text that UTF-8 cannot encode."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return _JSON.encode(content).encode("ascii")


class ProblemBody(BaseModel):
    """Why there is no answer (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:beliefrag:busy",
                    "title": "Too many questions at once",
                    "status": 429,
                    "detail": "4 questions are being answered and 16 are waiting.",
                    "request_id": "5f1c6c1e9f5a4f0e8f3f0c2d7a9b1e44",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    remedy: str | None = None
    field: str | None = None


class _OpenAIErrorFields(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorBody(BaseModel):
    """Why there is no answer, in the form that OpenAI's clients read."""

    error: _OpenAIErrorFields


class HttpProblem(Exception):
    """A request that ends without an answer.

    Args:
        status: The HTTP status.
        code: A short stable name of what happened.
        detail: The same in one line, with the value that was wrong.
        remedy: What to do about it.
        field: The part of the request that it is about.
        headers: More headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        remedy: str = "",
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.field = field
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}".rstrip()

    def body(self, path: str, request_id: str) -> dict[str, Any]:
        """Return the body in the form that clients of this path read."""
        if is_openai_path(path):
            kind = _openai_type(self.status)
            return {"error": {"message": str(self), "type": kind, "param": self.field, "code": self.code}}
        body = {
            "type": f"urn:beliefrag:{self.code}",
            "title": _TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
        }
        return body | ({"remedy": self.remedy} if self.remedy else {}) | ({"field": self.field} if self.field else {})

    def response(self, path: str, request_id: str) -> Response:
        """Return the whole response."""
        kind = "application/json" if is_openai_path(path) else "application/problem+json"
        return AsciiJson(self.body(path, request_id), self.status, headers=self.headers, media_type=kind)


def is_openai_path(path: str) -> bool:
    """Return whether clients of OpenAI's API use this path."""
    return path.startswith(_OPENAI_PATHS)


def problem_of_failure(cause: str) -> HttpProblem:
    """Return what a client reads about a failure: its kind alone, because a message may quote anything.

    The status is 502 for the model's server, 503 for something else that an answer needs, and 500 for this server.

    Args:
        cause: The name of the error's class.
    """
    status = _STATUS_OF_CAUSE.get(cause, 500)
    words = {500: "Something broke inside the server", 502: "The model gave no usable reply"}
    detail = _WORDS_OF_CAUSE.get(cause) or words.get(status, "The model cannot be used")
    remedy = "Ask again later; if it fails again, tell the operator of the server, whose log says more."
    return HttpProblem(status, "failed", f"{detail} ({cause}).", remedy=remedy)


def document_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of errors that are problem documents."""
    return {status: _document(status, "application/problem+json", ProblemBody) for status in statuses}


def document_openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of errors that are OpenAI's error object."""
    return {status: _document(status, "application/json", OpenAIErrorBody) for status in statuses}


def _openai_type(status: int) -> str:
    names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    return names.get(status, "invalid_request_error" if status < 500 else "server_error")


def _document(status: int, media_type: str, body: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    entry: dict[str, Any] = {"description": f"{_TITLES[status]}.", "content": {media_type: {"schema": schema}}}
    if status == 429:
        entry["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
    return entry
