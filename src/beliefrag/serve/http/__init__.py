"""The HTTP server: `/v1/ask`, an OpenAI-compatible `/v1/chat/completions`, health, readiness and metrics."""

from beliefrag.serve.http.access import is_loopback, read_token
from beliefrag.serve.http.app import create_app
from beliefrag.serve.http.limits import Limits
from beliefrag.serve.http.logs import json_log
from beliefrag.serve.http.metrics import Metrics
from beliefrag.serve.http.server import Server, listen, serve
from beliefrag.serve.http.service import Service
from beliefrag.serve.http.site import Site

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
