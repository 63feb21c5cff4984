"""The HTTP server: `/v1/ask`, an OpenAI-compatible `/v1/chat/completions`, health, readiness and metrics."""

from beliefrag.web.http.app import HttpContext, create_app

__all__ = ["HttpContext", "create_app"]
