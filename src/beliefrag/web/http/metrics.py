"""Counters for Prometheus, in a registry of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from beliefrag.events import CallFinished, Event, Finished
from beliefrag.web.http.service import Service

__all__ = ["Metrics"]

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))


class Metrics:
    """Everything that is counted. Labels come from fixed sets: no client can make a new one.

    Args:
        service: Whose places and queue are shown.
    """

    def __init__(self, service: Service) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "beliefrag_requests", "Requests by route and status", ["method", "route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "beliefrag_request_seconds", "Seconds per request", ["route"], buckets=_SECONDS, registry=registry
        )
        self.refused = Counter(
            "beliefrag_refused", "Requests refused before an episode began", ["reason"], registry=registry
        )
        self._episodes = Counter(
            "beliefrag_episodes",
            "Episodes by outcome; cancelled, timed_out and shut_down were broken off",
            ["outcome"],
            registry=registry,
        )
        self._episode_seconds = Histogram(
            "beliefrag_episode_seconds", "Seconds per episode", ["outcome"], buckets=_SECONDS, registry=registry
        )
        self._answerability = Histogram(
            "beliefrag_answerability",
            "Answerability at the end of an episode",
            ["outcome"],
            buckets=_SHARES,
            registry=registry,
        )
        self._tokens = Counter("beliefrag_tokens", "Tokens of model calls", ["direction", "cached"], registry=registry)
        self._calls = Counter("beliefrag_model_calls", "Model calls", ["purpose", "cached"], registry=registry)
        for name, help_, read in (
            ("beliefrag_in_flight", "Episodes being played", lambda: service.gate.in_flight),
            ("beliefrag_queued", "Requests waiting for a place", lambda: service.gate.waiting),
        ):
            Gauge(name, help_, registry=registry).set_function(read)

    def text(self) -> bytes:
        """All counters in Prometheus' text form."""
        return generate_latest(self._registry)

    def take(self, event: Event) -> None:
        """Counts an event of any episode as it happens: a cancelled episode has paid for its calls too."""
        if isinstance(event, CallFinished):
            cached = str(event.cached).lower()
            self._calls.labels(event.purpose, cached).inc()
            self._tokens.labels("in", cached).inc(event.tokens_in)
            self._tokens.labels("out", cached).inc(event.tokens_out)
        elif isinstance(event, Finished) and event.outcome.answerability is not None:
            self._answerability.labels(event.outcome.name).observe(event.outcome.answerability)

    def ended(self, how: str, seconds: float) -> None:
        """Counts the end of an episode."""
        self._episodes.labels(how).inc()
        self._episode_seconds.labels(how).observe(seconds)
