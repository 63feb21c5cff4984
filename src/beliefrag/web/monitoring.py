"""For programs that watch a server: whether it lives, whether it can answer, and counters for Prometheus."""

from __future__ import annotations

import time

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from beliefrag.record import Episode, Progress, Step
from beliefrag.web.problems import AsciiJson
from beliefrag.web.service import AdmissionQueue, AnswerService

_CHECK_INTERVAL = 1.0
"""Seconds for which a check of the index holds: anybody may ask, so asking must cost nothing."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))


class ServerMetrics:
    """The counters of a server. Labels come from fixed sets: no client can create new ones."""

    def __init__(self, admission: AdmissionQueue) -> None:
        self._registry = registry = CollectorRegistry()

        def count(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"beliefrag_{name}", what, labels, registry=registry)

        def measure(name: str, what: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
            return Histogram(f"beliefrag_{name}", what, labels, buckets=buckets, registry=registry)

        self._requests = count("requests", "Requests by route and status", "method", "route", "status")
        self._request_seconds = measure("request_seconds", "Seconds per request", "route")
        self._refused = count("refused", "Requests refused before an episode began", "reason")
        self._episodes = count("episodes", "Episodes by outcome, or how they were interrupted", "outcome")
        self._episode_seconds = measure("episode_seconds", "Seconds per episode", "outcome")
        last = "Answerability at the end of an episode"
        self._answerability = measure("answerability", last, "outcome", buckets=_SHARES)
        self._tokens = count("tokens", "Tokens of model calls", "direction", "cached")
        self._calls = count("model_calls", "Model calls", "purpose", "cached")
        running = Gauge("beliefrag_in_flight", "Running episodes", registry=registry)
        running.set_function(lambda: admission.in_flight)
        queued = Gauge("beliefrag_queued", "Requests that wait for a place", registry=registry)
        queued.set_function(lambda: admission.waiting)

    def text(self) -> bytes:
        """Return all counters in Prometheus' text form."""
        return generate_latest(self._registry)

    def on_request(self, method: str, route: str, status: int, seconds: float, refused: str | None) -> None:
        """Count a request at its end."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)
        if refused is not None:
            self._refused.labels(refused).inc()

    def on_progress(self, progress: Progress) -> None:
        """Count each step as it ends, because a cancelled episode has paid for its calls too."""
        calls = progress.calls if isinstance(progress, Step) else ()
        if isinstance(progress, Episode):
            calls = progress.calls_before_failure
            if progress.answerability is not None:
                self._answerability.labels(str(progress.outcome)).observe(progress.answerability)
        for call in calls:
            cached = "true" if call.cached else "false"
            self._calls.labels(call.purpose, cached).inc()
            self._tokens.labels("in", cached).inc(call.tokens_in)
            self._tokens.labels("out", cached).inc(call.tokens_out)

    def on_end(self, ending: str, seconds: float) -> None:
        """Count the end of an episode."""
        self._episodes.labels(ending).inc()
        self._episode_seconds.labels(ending).observe(seconds)


def health_routes(service: AnswerService) -> APIRouter:
    """Return the routes, each with and without the version in its path."""
    router = APIRouter()
    checked_at, index_is_ready = float("-inf"), False

    async def healthz() -> Response:
        return AsciiJson({"status": "ok"})

    async def readyz() -> Response:
        nonlocal checked_at, index_is_ready
        if time.monotonic() - checked_at > _CHECK_INTERVAL:
            checked_at, index_is_ready = time.monotonic(), await service.index_is_ready()
        parts = {"model": service.model_is_ready(), "index": index_is_ready}
        ready = all(parts.values()) and not service.draining
        status = "shutting down" if service.draining else "ready" if ready else "not ready"
        return AsciiJson({"status": status, **parts}, 200 if ready else 503)

    for prefix in ("/v1", ""):
        router.get(f"{prefix}/healthz", summary="Whether the server lives")(healthz)
        router.get(f"{prefix}/readyz", summary="Whether model and index can be used")(readyz)
    return router
