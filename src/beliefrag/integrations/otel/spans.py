"""One episode as spans with OpenInference's attributes: a chain, and in it each search and each model call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from openinference.semconv.trace import (
    DocumentAttributes,
    MessageAttributes,
    OpenInferenceMimeTypeValues,
    OpenInferenceSpanKindValues,
    SpanAttributes,
)
from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from beliefrag import events
from beliefrag.events import Event
from beliefrag.outcome import Answered, Failed, Stopped

__all__ = ["EpisodeSpans"]

_Attributes = dict[str, Any]
_JSON = OpenInferenceMimeTypeValues.JSON.value
_TEXT = OpenInferenceMimeTypeValues.TEXT.value


class EpisodeSpans:
    """Takes the events of one episode and makes spans of them, with the times that the events tell.

    Without `text`, spans hold numbers, names, ids and outcomes: no question, query, passage, prompt or reply.

    Args:
        tracer: Makes the spans.
        text: Whether they may hold text.
        headers: Of the request behind the episode; the trace that they name is continued.
    """

    def __init__(self, tracer: Tracer, *, text: bool = False, headers: Mapping[str, str] | None = None) -> None:
        self._tracer = tracer
        self._text = text
        self._outer: Context | None = extract(headers) if headers else None
        self._chain: Span | None = None
        self._call: Span | None = None
        self._zero = 0
        self._latest = 0
        self._free_since = 0.0
        """When the last decision was made or the last call ended: a search begins no earlier."""
        self._model = ""
        self._told = False
        """Whether the episode came to its own end."""

    def take(self, event: Event) -> None:
        """Takes in one event."""
        match event:
            case events.Started():
                self._start(event)
            case events.CallStarted():
                kind = OpenInferenceSpanKindValues.LLM
                self._call = self._child(f"model {event.purpose}", kind, event.at)
            case events.CallFinished():
                self._called(event)
            case events.Decided():
                self._free_since = event.at
                self._mark("decided", event, _decision(event))
            case events.Retrieved():
                self._retrieved(event)
            case events.Rewritten():
                self._mark("rewritten", event, {"query": event.after} if self._text else {})
            case events.Pruned():
                self._mark("pruned", event, {"passages": [mutation.passage_id for mutation in event.mutations]})
            case events.Finished():
                self._finished(event)

    def ended(self, how: str, seconds: float) -> None:
        """Closes what is open. Without it, an episode that was cancelled would leave no trace."""
        if self._call is not None:
            self._call.set_status(Status(StatusCode.ERROR, how))
            self._call.end(self._end())
            self._call = None
        if self._chain is not None:
            if not self._told:
                self._chain.set_status(Status(StatusCode.ERROR, how))
                self._chain.set_attribute("beliefrag.outcome", how)
            self._chain.end(self._end())
            self._chain = None

    def _start(self, event: events.Started) -> None:
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
            attributes |= _value(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, event.question.text)
        self._chain = self._tracer.start_span(
            "beliefrag episode", self._outer, attributes=attributes, start_time=self._time(event.at)
        )

    def _called(self, event: events.CallFinished) -> None:
        self._free_since = event.at
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
            attributes |= _messages(SpanAttributes.LLM_INPUT_MESSAGES, event.messages)
            reply = [{"role": "assistant", "content": event.reply}]
            attributes |= _messages(SpanAttributes.LLM_OUTPUT_MESSAGES, reply)
            attributes |= _value(SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, event.reply)
        span.set_attributes(attributes)
        span.end(self._time(event.at))

    def _retrieved(self, event: events.Retrieved) -> None:
        if event.query is None:
            self._mark("nothing missing", event, {})
            return
        span = self._child("search", OpenInferenceSpanKindValues.RETRIEVER, self._free_since)
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
            attributes |= _value(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, event.query)
        span.set_attributes(attributes)
        span.end(self._time(event.at))

    def _finished(self, event: events.Finished) -> None:
        if self._chain is None:
            return
        self._told = True
        outcome = event.outcome
        attributes: _Attributes = {
            "beliefrag.outcome": outcome.name,
            "beliefrag.calls": outcome.usage.calls,
            "beliefrag.tokens": outcome.usage.tokens,
            "beliefrag.searches": outcome.usage.searches,
        }
        if outcome.answerability is not None:
            attributes["beliefrag.answerability"] = outcome.answerability
        if self._text and isinstance(outcome, Answered | Stopped):
            attributes |= _value(SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, outcome.answer)
        self._chain.set_attributes(attributes)
        # The message of a failure can quote a query, so only its kind is told.
        if isinstance(outcome, Failed):
            self._chain.set_status(Status(StatusCode.ERROR, outcome.cause))
        else:
            self._chain.set_status(Status(StatusCode.OK))

    def _child(self, name: str, kind: OpenInferenceSpanKindValues, at: float) -> Span:
        context = set_span_in_context(self._chain, self._outer) if self._chain else self._outer
        return self._tracer.start_span(
            name,
            context,
            attributes={SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value},
            start_time=self._time(at),
        )

    def _mark(self, name: str, event: Event, attributes: _Attributes) -> None:
        if self._chain is not None:
            self._chain.add_event(name, {"step": event.step, **attributes}, timestamp=self._time(event.at))

    def _time(self, at: float) -> int:
        moment = self._zero + int(at * 1e9)
        self._latest = max(self._latest, moment)
        return moment

    def _end(self) -> int:
        """Now, but not before anything that events have told of: their times are rounded."""
        self._latest = max(self._latest, time.time_ns())
        return self._latest


def _decision(event: events.Decided) -> _Attributes:
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


def _value(name: str, mime_name: str, value: str) -> _Attributes:
    return {name: value, mime_name: _JSON if value.startswith("{") else _TEXT}


def _messages(name: str, messages: Sequence[Mapping[str, str]]) -> _Attributes:
    attributes: _Attributes = {}
    for number, message in enumerate(messages):
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_ROLE}"] = message["role"]
        attributes[f"{name}.{number}.{MessageAttributes.MESSAGE_CONTENT}"] = message["content"]
    return attributes
