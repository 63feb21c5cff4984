"""What a client is told when it gets no answer: RFC 9457 for ours, OpenAI's error object for clients of that API."""

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

__all__ = ["Json", "OpenAIError", "Problem", "ProblemBody", "failed_status", "speaks_openai"]

_TITLES = {
    400: "The request cannot be understood",
    401: "A token is needed",
    404: "There is nothing here",
    405: "This address takes other methods",
    408: "The request did not arrive",
    413: "The request is too large",
    421: "This server is not called that",
    422: "The request cannot be met",
    429: "Too many questions at once",
    500: "Something broke inside",
    502: "The model gave no usable reply",
    503: "The server cannot answer now",
    504: "The question took too long",
}
_BAD_GATEWAY = (TransportError, ReplyError, UnreadableReply, EmptyReplyError)
_UNAVAILABLE = (CalibrationError, CorpusError, ModelError, ReplayMiss, RetrievalError, SettingsError)
_STATUS_OF_CAUSE = {cause.__name__: 503 for cause in _UNAVAILABLE} | {cause.__name__: 502 for cause in _BAD_GATEWAY}
_OPENAI = ("/v1/chat/", "/v1/models")


class Json(Response):
    """JSON in ASCII: whatever text it holds, it can be sent."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The content as bytes."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


class ProblemBody(BaseModel):
    """Why there is no answer (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:beliefrag:busy",
                    "title": "Too many questions at once",
                    "status": 429,
                    "detail": "4 questions are being answered and 16 waiting.",
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


class OpenAIError(BaseModel):
    """Why there is no answer, as OpenAI's clients read it."""

    error: _OpenAIErrorFields


class Problem(Exception):
    """A request that ends without an answer.

    Args:
        status: The HTTP status.
        code: What happened, as a short stable name.
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

    def body(self, path: str, request_id: str) -> dict[str, Any]:
        """What to send, in the language of whoever asked at this path."""
        if speaks_openai(path):
            words = f"{self.detail} {self.remedy}".rstrip()
            return {
                "error": {"message": words, "type": _openai_type(self.status), "param": self.field, "code": self.code}
            }
        body = {
            "type": f"urn:beliefrag:{self.code}",
            "title": _TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
        }
        return body | ({"remedy": self.remedy} if self.remedy else {}) | ({"field": self.field} if self.field else {})

    def response(self, path: str, request_id: str) -> Response:
        """The whole response."""
        kind = "application/json" if speaks_openai(path) else "application/problem+json"
        return Json(self.body(path, request_id), self.status, headers=self.headers, media_type=kind)


def speaks_openai(path: str) -> bool:
    """Whether clients of OpenAI's API ask at this path."""
    return path.startswith(_OPENAI)


def failed_status(cause: str) -> int:
    """The status for an episode that failed: 502 the model, 503 something else that it needs, 500 ourselves."""
    return _STATUS_OF_CAUSE.get(cause, 500)


def _openai_type(status: int) -> str:
    names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    return names.get(status, "invalid_request_error" if status < 500 else "server_error")
