"""Error responses: problem documents (RFC 9457), or OpenAI's error object where clients of that API ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

_NO_REPLY = frozenset({"EmptyReplyError", "ReplyError", "TransportError", "UnreadableReply"})
_UNAVAILABLE = frozenset(
    {"CalibrationError", "CorpusError", "ModelError", "ReplayMiss", "RetrievalError", "SettingsError"}
)
_JSON = json.JSONEncoder(separators=(",", ":"))


class AsciiJson(Response):
    """A JSON response in ASCII, which can hold any text, also text that UTF-8 cannot encode."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return _JSON.encode(content).encode("ascii")


@dataclass(eq=False)
class HttpProblem(Exception):
    """A request that ends without an answer: what was wrong, with which value, in which field, and what to do."""

    status: int
    code: str
    detail: str
    _: KW_ONLY
    remedy: str = ""
    field: str | None = None
    headers: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}".rstrip()

    def body(self, path: str, request_id: str) -> dict[str, Any]:
        """Return the body in the form that clients of this path read."""
        if is_openai_path(path):
            names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
            kind = names.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
            return {"error": {"message": str(self), "type": kind, "param": self.field, "code": self.code}}
        body = {
            "type": f"urn:beliefrag:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
        }
        return body | {name: value for name in ("remedy", "field") if (value := getattr(self, name))}

    def response(self, path: str, request_id: str) -> Response:
        """Return the whole response."""
        kind = "application/json" if is_openai_path(path) else "application/problem+json"
        return AsciiJson(self.body(path, request_id), self.status, headers=self.headers, media_type=kind)


def is_openai_path(path: str) -> bool:
    """Return whether clients of OpenAI's API use this path."""
    return path.startswith(("/v1/chat/", "/v1/models"))


def problem_of_failure(cause: str) -> HttpProblem:
    """Return what a client reads about an error of this class: its kind alone, because a message may quote anything."""
    status, words = 500, "Internal error"
    if cause in _NO_REPLY:
        status, words = 502, "The model gave no usable reply"
    elif cause in _UNAVAILABLE:
        status, words = 503, "The model, the documents or a setting cannot be used"
    remedy = "Ask again later; if it fails again, tell the operator of the server, whose log says more."
    return HttpProblem(status, "failed", f"{words} ({cause}).", remedy=remedy)
