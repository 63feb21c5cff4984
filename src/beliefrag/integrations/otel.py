"""Episodes as OpenTelemetry traces, made from the events; needs `pip install 'beliefrag[otel]'`.

An episode is a chain span with OpenInference's attributes, and in it there is a span for each search and model call.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beliefrag import events
from beliefrag._version import __version__
from beliefrag.errors import MissingExtra, SettingsError
from beliefrag.events import Event
from beliefrag.outcome import Answered, Failed, Stopped

try:
    from openinference.semconv.trace import (
        DocumentAttributes,
        MessageAttributes,
        OpenInferenceMimeTypeValues,
        OpenInferenceSpanKindValues,
        SpanAttributes,
    )
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
    from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context
except ImportError as error:
    raise MissingExtra("Tracing", "otel", error) from error

__all__ = ["EpisodeSpans", "Tracing", "open_tracing"]

_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"

_Attributes = dict[str, Any]
_JSON = OpenInferenceMimeTypeValues.JSON.value
_TEXT = OpenInferenceMimeTypeValues.TEXT.value


class EpisodeSpans:
    """Makes spans from the events of one episode, with the events' own times.

    Without `text`, spans hold numbers, names, ids and outcomes: no question, query, passage, prompt or reply.

    Args:
        tracer: Makes the spans.
        text: Whether the spans may hold text.
        headers: The headers of the request; a trace that they name is continued.
    """

    def __init__(self, tracer: Tracer, *, text: bool = False, headers: Mapping[str, str] | None = None) -> None:
        self._tracer = tracer
        self._text = text
        self._parent: Context | None = extract(headers) if headers else None
        self._chain: Span | None = None
        self._call: Span | None = None
        self._zero = 0
        self._latest = 0
        self._idle_since = 0.0
        """When the last decision was made or the last call ended; a search cannot begin earlier."""
        self._model = ""
        self._finished_itself = False
        """Whether the episode reached its own end."""

    def on_event(self, event: Event) -> None:
        """Takes in one event."""
        match event:
            case events.Started():
                self._start_episode(event)
            case events.CallStarted():
                kind = OpenInferenceSpanKindValues.LLM
                self._call = self._start_child(f"model {event.purpose}", kind, event.at)
            case events.CallFinished():
                self._end_call(event)
            case events.Decided():
                self._idle_since = event.at
                self._add_event("decided", event, _decision_attributes(event))
            case events.Retrieved():
                self._add_search(event)
            case events.Rewritten():
                self._add_event("rewritten", event, {"query": event.after} if self._text else {})
            case events.Pruned():
                self._add_event("pruned", event, {"passages": [mutation.passage_id for mutation in event.mutations]})
            case events.Finished():
                self._finish(event)

    def on_end(self, ending: str, seconds: float) -> None:
        """Ends the open spans. Without it, a cancelled episode would leave no trace."""
        if self._call is not None:
            self._call.set_status(Status(StatusCode.ERROR, ending))
            self._call.end(self._now())
            self._call = None
        if self._chain is not None:
            if not self._finished_itself:
                self._chain.set_status(Status(StatusCode.ERROR, ending))
                self._chain.set_attribute("beliefrag.outcome", ending)
            self._chain.end(self._now())
            self._chain = None

    def _start_episode(self, event: events.Started) -> None:
        self._zero = time.time_ns() - int(event.at * 1e9)
        self._model = event.model
        metadata = {
            "method": event.method,
            "verifier": event.verifier,
            "budget": events.as_record(event)["budget"],
            **event.made_with,
        }
        attributes: _Attributes = {
            SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.CHAIN.value,
            SpanAttributes.METADATA: json.dumps(metadata),
        }
        if self._text:
            attributes |= _value_attributes(
                SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, event.question.text
            )
        self._chain = self._tracer.start_span(
            "beliefrag episode", self._parent, attributes=attributes, start_time=self._time(event.at)
        )

    def _end_call(self, event: events.CallFinished) -> None:
        self._idle_since = event.at
        span, self._call = self._call, None
        if span is None:
            return
        provider, _, rest = self._model.partition(":")
        attributes: _Attributes = {
            SpanAttributes.LLM_MODEL_NAME: rest.partition("@")[0],
            SpanAttributes.LLM_PROVIDER: provider,
            SpanAttributes.LLM_TOKEN_COUNT_PROMPT: event.tokens_in,
            SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: event.tokens_out,
            SpanAttributes.LLM_TOKEN_COUNT_TOTAL: event.tokens_in + event.tokens_out,
            SpanAttributes.LLM_INVOCATION_PARAMETERS: json.dumps({"temperature": 0}),
            "beliefrag.purpose": event.purpose,
            "beliefrag.cached": event.cached,
            "beliefrag.retries": event.retries,
        }
        if self._text:
            attributes |= _message_attributes(SpanAttributes.LLM_INPUT_MESSAGES, event.messages)
            reply = [{"role": "assistant", "content": event.reply}]
            attributes |= _message_attributes(SpanAttributes.LLM_OUTPUT_MESSAGES, reply)
            attributes |= _value_attributes(SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, event.reply)
        span.set_attributes(attributes)
        span.end(self._time(event.at))

    def _add_search(self, event: events.Retrieved) -> None:
        if event.query is None:
            self._add_event("no search", event, {})
            return
        span = self._start_child("search", OpenInferenceSpanKindValues.RETRIEVER, self._idle_since)
        attributes: _Attributes = {"beliefrag.added": len(event.added), "beliefrag.novelty": event.novelty}
        for number, hit in enumerate(event.hits):
            start = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{number}"
            attributes[f"{start}.{DocumentAttributes.DOCUMENT_ID}"] = hit.passage.id
            attributes[f"{start}.{DocumentAttributes.DOCUMENT_SCORE}"] = hit.score
            if self._text:
                attributes[f"{start}.{DocumentAttributes.DOCUMENT_CONTENT}"] = hit.passage.text
                title = json.dumps({"title": hit.passage.title})
                attributes[f"{start}.{DocumentAttributes.DOCUMENT_METADATA}"] = title
        if self._text:
            attributes |= _value_attributes(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, event.query)
        span.set_attributes(attributes)
        span.end(self._time(event.at))

    def _finish(self, event: events.Finished) -> None:
        if self._chain is None:
            return
        self._finished_itself = True
        outcome = event.outcome
        attributes: _Attributes = {
            "beliefrag.outcome": outcome.name,
            "beliefrag.calls": outcome.usage.calls,
            "beliefrag.tokens": outcome.usage.tokens,
            "beliefrag.searches": outcome.usage.searches,
            "beliefrag.citations": len(outcome.citations),
        }
        if outcome.answerability is not None:
            attributes["beliefrag.answerability"] = outcome.answerability
        if self._text and isinstance(outcome, Answered | Stopped):
            attributes |= _value_attributes(
                SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, outcome.answer
            )
        self._chain.set_attributes(attributes)
        # The message of a failure can quote a query, so only its kind is recorded.
        if isinstance(outcome, Failed):
            self._chain.set_status(Status(StatusCode.ERROR, outcome.cause))
        else:
            self._chain.set_status(Status(StatusCode.OK))

    def _start_child(self, name: str, kind: OpenInferenceSpanKindValues, at: float) -> Span:
        context = set_span_in_context(self._chain, self._parent) if self._chain else self._parent
        return self._tracer.start_span(
            name,
            context,
            attributes={SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value},
            start_time=self._time(at),
        )

    def _add_event(self, name: str, event: Event, attributes: _Attributes) -> None:
        if self._chain is not None:
            self._chain.add_event(name, {"step": event.step, **attributes}, timestamp=self._time(event.at))

    def _time(self, at: float) -> int:
        moment = self._zero + int(at * 1e9)
        self._latest = max(self._latest, moment)
        return moment

    def _now(self) -> int:
        """Gives the current time, but none before that of an event, because their times are rounded."""
        self._latest = max(self._latest, time.time_ns())
        return self._latest


def _decision_attributes(event: events.Decided) -> _Attributes:
    attributes: _Attributes = {
        "action": event.decision.action.value,
        "branch": event.decision.branch,
        "tokens": event.tokens,
        "evidence": list(event.evidence),
    }
    for name in ("answerability", "retrieval_value"):
        if (value := getattr(event, name)) is not None:
            attributes[name] = value
    return attributes


def _value_attributes(name: str, mime_name: str, value: str) -> _Attributes:
    return {name: value, mime_name: _JSON if value.startswith("{") else _TEXT}


def _message_attributes(name: str, messages: Sequence[Mapping[str, str]]) -> _Attributes:
    attributes: _Attributes = {}
    for number, message in enumerate(messages):
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_ROLE}"] = message["role"]
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_CONTENT}"] = message["content"]
    return attributes


class Tracing:
    """Gives each episode its spans.

    Args:
        provider: What makes and exports them.
        text: Whether they may hold questions, passages, prompts and replies.
    """

    def __init__(self, provider: TracerProvider, *, text: bool = False) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("beliefrag", __version__)
        self._text = text

    def episode(self, headers: Mapping[str, str] | None = None) -> EpisodeSpans:
        """Gives what makes the spans of one episode.

        Args:
            headers: The headers of its request; a trace that they name is continued.
        """
        return EpisodeSpans(self._tracer, text=self._text, headers=headers)

    def close(self) -> None:
        """Sends what was not sent yet."""
        self._provider.shutdown()


def open_tracing(*, text: bool = False) -> Tracing:
    """Opens the exporter that OTEL_TRACES_EXPORTER names: otlp (over HTTP, by default), console or none.

    Args:
        text: Whether spans may hold questions, passages, prompts and replies.

    Raises:
        SettingsError: The exporter is not known, or its library is not installed.
    """
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "beliefrag"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    if exporter == "otlp":
        _check_protocol()
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - often not needed
                OTLPSpanExporter,
            )
        except ImportError as error:
            raise MissingExtra("Tracing", "otel", error) from error
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    elif exporter == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    elif exporter != "none":
        raise SettingsError(
            f"OTEL_TRACES_EXPORTER is {exporter!r}, which is not known here.", remedy="Use otlp, console or none."
        )
    return Tracing(provider, text=text)


def _check_protocol() -> None:
    for variable in _PROTOCOL_VARIABLES:
        protocol = os.environ.get(variable, _HTTP)
        if protocol != _HTTP:
            raise SettingsError(
                f"{variable} is {protocol!r}, which is not supported here.",
                remedy=f"Use {_HTTP}, which every collector accepts.",
            )
