"""How refusals stand in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from beliefrag.web.http.problems import OpenAIError, ProblemBody

__all__ = ["openai_errors", "problems", "stream_of"]

_WORDS = {
    400: "The body is no JSON, or asks for something that is not supported.",
    401: "The token is missing or wrong.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    421: "The Host header names another server.",
    422: "A value cannot be used; `field` says which.",
    429: "All places are taken; `Retry-After` says when to come back.",
    500: "Something broke inside.",
    502: "The model gave no usable reply.",
    503: "The model or the index cannot be used, or the server is shutting down.",
    504: "There was no answer within the time limit.",
}


def stream_of(example: str, *names: str) -> dict[str, Any]:
    """The entry for a reply that is a stream of events.

    Args:
        example: What it looks like.
        names: What events are called; none where they have no names.
    """
    event: dict[str, Any] = {"type": "string", "enum": list(names)} if names else {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "data": {"type": "string", "contentMediaType": "application/json"},
            "event": event,
            "id": {"type": "string"},
        },
        "required": ["data"],
    }
    return {"text/event-stream": {"itemSchema": schema, "example": example}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The entries for refusals as problem documents."""
    schema = {"$ref": f"#/components/schemas/{ProblemBody.__name__}"}
    return {status: _entry(status, "application/problem+json", schema) for status in statuses}


def openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The entries for refusals as OpenAI's error object."""
    schema = {"$ref": f"#/components/schemas/{OpenAIError.__name__}"}
    return {status: _entry(status, "application/json", schema) for status in statuses}


def _entry(status: int, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"description": _WORDS[status], "content": {media_type: {"schema": schema}}}
    if status == 429:
        entry["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
    return entry
