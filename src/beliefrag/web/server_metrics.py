"""Counters for Prometheus, in a registry of their own."""

from __future__ import annotations

from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from beliefrag.events import CallFinished, Event, Finished
from beliefrag.web.admission import AdmissionQueue

__all__ = ["ServerMetrics"]

_Metric = TypeVar("_Metric", Counter, Histogram)
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))


class ServerMetrics:
    """All counters of a server. Labels come from fixed sets, so that no client can create new ones.

    Args:
        admission: Whose places and queue are shown.
    """

    def __init__(self, admission: AdmissionQueue) -> None:
        self._registry = registry = CollectorRegistry()
        self._found: dict[tuple[Any, tuple[str, ...]], Any] = {}
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
            "Episodes by outcome; cancelled, timed_out and shut_down did not reach their end",
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
        for name, description, read in (
            ("beliefrag_in_flight", "Episodes that run now", lambda: admission.in_flight),
            ("beliefrag_queued", "Requests that wait for a place", lambda: admission.waiting),
        ):
            Gauge(name, description, registry=registry).set_function(read)

    def text(self) -> bytes:
        """Return all counters in Prometheus' text form."""
        return generate_latest(self._registry)

    def on_event(self, event: Event) -> None:
        """Count an event as it happens, because a cancelled episode has paid for its calls too."""
        if isinstance(event, CallFinished):
            cached = "true" if event.cached else "false"
            self.find(self._calls, event.purpose, cached).inc()
            self.find(self._tokens, "in", cached).inc(event.tokens_in)
            self.find(self._tokens, "out", cached).inc(event.tokens_out)
        elif isinstance(event, Finished) and event.outcome.answerability is not None:
            self.find(self._answerability, event.outcome.name).observe(event.outcome.answerability)

    def on_end(self, ending: str, seconds: float) -> None:
        """Count the end of an episode."""
        self.find(self._episodes, ending).inc()
        self.find(self._episode_seconds, ending).observe(seconds)

    def find(self, metric: _Metric, *labels: str) -> _Metric:
        """Return the metric with these labels. The library itself checks and converts the labels of each lookup."""
        key = (metric, labels)
        if (found := self._found.get(key)) is None:
            found = self._found[key] = metric.labels(*labels)
        return found
