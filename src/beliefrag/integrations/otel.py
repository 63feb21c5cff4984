"""Episodes as OpenTelemetry traces, made from their record; needs `pip install 'beliefrag[otel]'`.

An episode is a chain span with OpenInference's attributes, and in it there is a span for each search and model call.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from beliefrag._version import __version__
from beliefrag.errors import MissingExtra, SettingsError
from beliefrag.record import CallStarted, Episode, ModelCall, Progress, Search, Step

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

_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"

_Attributes = dict[str, Any]


class EpisodeSpans:
    """The spans of one episode, with the times in its record.

    Without `text`, spans hold numbers, names, ids and outcomes: no question, query, passage, prompt or reply. A trace
    that the headers of the request name is continued.
    """

    def __init__(self, tracer: Tracer, *, text: bool = False, headers: Mapping[str, str] | None = None) -> None:
        self._tracer = tracer
        self._text = text
        self._parent: Context | None = extract(headers) if headers else None
        self._chain: Span | None = None
        self._zero = 0
        self._seconds = 0.0
        """When the latest event came, since the episode began: the clock of the end of each span."""
        self._model = ""
        self._waiting_for = ""
        """The purpose of the model call under way."""
        self._finished = False

    def on_progress(self, progress: Progress, seconds: float) -> None:
        """Take in what the loop yields."""
        self._seconds = seconds
        if isinstance(progress, CallStarted):
            self._waiting_for = progress.purpose
        elif isinstance(progress, Step):
            self._add_step(progress)
        elif isinstance(progress, Episode):
            if progress.outcome is None:
                self._start_episode(progress)
            else:
                self._finish(progress)

    def on_end(self, ending: str, seconds: float) -> None:
        """End the open spans. Without it, a cancelled episode would leave no trace."""
        if self._chain is None:
            return
        self._seconds = seconds
        if not self._finished:
            if self._waiting_for:
                cancelled = self._start_child(f"model {self._waiting_for}", OpenInferenceSpanKindValues.LLM, seconds)
                cancelled.set_status(Status(StatusCode.ERROR, ending))
                cancelled.end(self._time(seconds))
            self._chain.set_status(Status(StatusCode.ERROR, ending))
            self._chain.set_attribute("beliefrag.outcome", ending)
        self._chain.end(self._time(seconds))
        self._chain = None

    def _start_episode(self, episode: Episode) -> None:
        self._zero = time.time_ns() - int(self._seconds * 1e9)
        self._model = episode.model
        budget = asdict(episode.budget) if episode.budget else {}
        metadata = {"method": episode.method, "verifier": episode.verifier, "budget": budget, **episode.made_with}
        attributes: _Attributes = {
            SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.CHAIN.value,
            SpanAttributes.METADATA: json.dumps(metadata),
        }
        if self._text:
            attributes |= _input(episode.question.text)
        self._chain = self._tracer.start_span(
            "beliefrag episode", self._parent, attributes=attributes, start_time=self._zero
        )

    def _add_step(self, step: Step) -> None:
        for call in step.calls:
            self._add_call(call)
        self._waiting_for = ""
        if self._chain is None:
            return
        decided: _Attributes = {"step": step.number, "action": step.action.value, "branch": step.branch}
        decided |= {"tokens": step.tokens, "evidence": step.evidence}
        optional = {name: getattr(step, name) for name in ("dropped", "answerability", "retrieval_value")}
        decided |= {name: value for name, value in optional.items() if value is not None}
        self._chain.add_event("decided", decided, timestamp=self._time(step.at))
        if step.search is not None and step.search.query is None:
            self._chain.add_event("no search", {"step": step.number}, timestamp=self._time(step.at))
        elif step.search is not None:
            self._add_search(step, step.search)

    def _add_call(self, call: ModelCall) -> None:
        span = self._start_child(f"model {call.purpose}", OpenInferenceSpanKindValues.LLM, call.at - call.seconds)
        provider, _, rest = self._model.partition(":")
        attributes: _Attributes = {
            SpanAttributes.LLM_MODEL_NAME: rest.partition("@")[0],
            SpanAttributes.LLM_PROVIDER: provider,
            SpanAttributes.LLM_TOKEN_COUNT_PROMPT: call.tokens_in,
            SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: call.tokens_out,
            SpanAttributes.LLM_TOKEN_COUNT_TOTAL: call.tokens_in + call.tokens_out,
            SpanAttributes.LLM_INVOCATION_PARAMETERS: json.dumps({"temperature": 0}),
            "beliefrag.purpose": call.purpose,
            "beliefrag.cached": call.cached,
            "beliefrag.retries": call.retries,
        }
        if self._text:
            attributes |= _message_attributes(SpanAttributes.LLM_INPUT_MESSAGES, call.messages)
            reply = [{"role": "assistant", "content": call.reply}]
            attributes |= _message_attributes(SpanAttributes.LLM_OUTPUT_MESSAGES, reply)
            attributes |= _output(call.reply)
        span.set_attributes(attributes)
        span.end(self._time(call.at))

    def _add_search(self, step: Step, search: Search) -> None:
        span = self._start_child("search", OpenInferenceSpanKindValues.RETRIEVER, step.at)
        attributes: _Attributes = {"beliefrag.added": len(search.added), "beliefrag.novelty": search.novelty}
        for number, (identifier, score) in enumerate(search.hits):
            start = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{number}"
            attributes[f"{start}.{DocumentAttributes.DOCUMENT_ID}"] = identifier
            attributes[f"{start}.{DocumentAttributes.DOCUMENT_SCORE}"] = score
            if self._text:
                passage = step.passages[identifier]
                attributes[f"{start}.{DocumentAttributes.DOCUMENT_CONTENT}"] = passage.text
                title = json.dumps({"title": passage.title})
                attributes[f"{start}.{DocumentAttributes.DOCUMENT_METADATA}"] = title
        if self._text and search.query is not None:
            attributes |= _input(search.query)
        span.set_attributes(attributes)
        span.end(self._time(self._seconds))

    def _finish(self, episode: Episode) -> None:
        for call in episode.calls_before_failure:
            self._add_call(call)
        self._finished, self._waiting_for = True, ""
        if self._chain is None:
            return
        attributes: _Attributes = {
            "beliefrag.outcome": str(episode.outcome),
            "beliefrag.calls": episode.usage.calls,
            "beliefrag.tokens": episode.usage.tokens,
            "beliefrag.searches": episode.usage.searches,
            "beliefrag.citations": len(episode.citations),
        }
        if episode.answerability is not None:
            attributes["beliefrag.answerability"] = episode.answerability
            attributes["beliefrag.calibrated"] = bool(episode.calibrated)
        if self._text and episode.answer is not None:
            attributes |= _output(episode.answer)
        self._chain.set_attributes(attributes)
        # The message of a failure can quote a query, so only its kind is recorded.
        failed = Status(StatusCode.ERROR, episode.cause)
        self._chain.set_status(failed if episode.error else Status(StatusCode.OK))

    def _start_child(self, name: str, kind: OpenInferenceSpanKindValues, at: float) -> Span:
        context = set_span_in_context(self._chain, self._parent) if self._chain else self._parent
        attributes = {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value}
        return self._tracer.start_span(name, context, attributes=attributes, start_time=self._time(max(0.0, at)))

    def _time(self, at: float) -> int:
        # The times of the record are rounded: none of them is later than the event that it came with.
        return self._zero + int(min(at, self._seconds) * 1e9)


def _input(value: str) -> _Attributes:
    return {SpanAttributes.INPUT_VALUE: value, SpanAttributes.INPUT_MIME_TYPE: _mime_type(value)}


def _output(value: str) -> _Attributes:
    return {SpanAttributes.OUTPUT_VALUE: value, SpanAttributes.OUTPUT_MIME_TYPE: _mime_type(value)}


def _mime_type(value: str) -> str:
    kinds = OpenInferenceMimeTypeValues
    return str((kinds.JSON if value.startswith("{") else kinds.TEXT).value)


def _message_attributes(name: str, messages: Sequence[Mapping[str, str]]) -> _Attributes:
    attributes: _Attributes = {}
    for number, message in enumerate(messages):
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_ROLE}"] = message["role"]
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_CONTENT}"] = message["content"]
    return attributes


class Tracing:
    """Opens the spans of each episode; with `text` they hold questions, passages, prompts and replies."""

    def __init__(self, provider: TracerProvider, *, text: bool = False) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("beliefrag", __version__)
        self._text = text

    def episode(self, headers: Mapping[str, str] | None = None) -> EpisodeSpans:
        """Return what makes the spans of one episode; a trace that the headers of its request name is continued."""
        return EpisodeSpans(self._tracer, text=self._text, headers=headers)

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


def open_tracing(*, text: bool = False) -> Tracing:
    """Open the exporter that OTEL_TRACES_EXPORTER names: otlp (over HTTP, by default), console or none."""
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
