"""The HTTP server: `/v1/ask`, OpenAI's `/v1/chat/completions` and `/v1/responses`, health, readiness and metrics."""

from beliefrag.web.http.http_app import HttpContext, create_app

__all__ = ["HttpContext", "create_app"]
