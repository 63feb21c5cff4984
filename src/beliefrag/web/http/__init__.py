"""The HTTP server: `/v1/ask`, an OpenAI-compatible `/v1/chat/completions`, health, readiness and metrics."""

from beliefrag.web.http.access import is_loopback, read_token
from beliefrag.web.http.app import create_app
from beliefrag.web.http.limits import Limits
from beliefrag.web.http.logs import json_log
from beliefrag.web.http.metrics import Metrics
from beliefrag.web.http.server import Server, listen, serve
from beliefrag.web.http.service import Service
from beliefrag.web.http.site import Site

__all__ = [
    "Limits",
    "Metrics",
    "Server",
    "Service",
    "Site",
    "create_app",
    "is_loopback",
    "json_log",
    "listen",
    "read_token",
    "serve",
]
