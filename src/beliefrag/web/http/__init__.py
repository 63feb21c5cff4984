"""The HTTP server: `/v1/ask`, OpenAI's `/v1/chat/completions`, health and readiness."""

from beliefrag.web.http.episodes import HttpContext
from beliefrag.web.http.http_app import create_app

__all__ = ["HttpContext", "create_app"]
