"""Episodes as OpenTelemetry traces: the spans, their times, their attributes, and no text unless asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from beliefrag.errors import SettingsError
from beliefrag.integrations.otel import Tracing, open_tracing
from beliefrag.policy import Thresholds
from tests.support.collector import Collector
from tests.support.serving import ANSWER, PASSAGES, QUERY, QUESTION, REPLY, SURE, UNSURE, opened, served, wait_for


class Recorded:
    """Tracing into memory."""

    def __init__(self, *, text: bool = False) -> None:
        self._memory = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracing = Tracing(provider, text=text)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._memory.get_finished_spans()


def kind(span: ReadableSpan) -> object:
    return (span.attributes or {})["openinference.span.kind"]


def test_an_episode_is_a_chain_with_its_searches_and_calls_inside(tmp_path: Path) -> None:
    recorded = Recorded()
    with served(*opened(tmp_path), make_observer=recorded.tracing.episode) as server:
        reply = server.ask().json()
    search, verify, answer, chain = recorded.spans
    assert [kind(span) for span in recorded.spans] == ["RETRIEVER", "LLM", "LLM", "CHAIN"]
    assert [span.name for span in (verify, answer)] == ["model verifier", "model answer"]
    assert chain.context is not None
    for span in (search, verify, answer):
        assert span.parent is not None and span.parent.span_id == chain.context.span_id
        assert chain.start_time <= span.start_time <= span.end_time <= chain.end_time  # type: ignore[operator]
    attributes = chain.attributes or {}
    assert attributes["beliefrag.outcome"] == "answered"
    assert attributes["beliefrag.answerability"] == pytest.approx(reply["answerability"])
    assert chain.status.status_code is StatusCode.OK
    counted = sum(int(str((span.attributes or {})["llm.token_count.total"])) for span in (verify, answer))
    assert counted == attributes["beliefrag.tokens"] == reply["usage"]["tokens"]
    assert (search.attributes or {})["retrieval.documents.0.document.id"] == reply["sources"][0]["id"]
    decided = [event for event in chain.events if event.name == "decided"]
    assert [(event.attributes or {})["action"] for event in decided] == ["RETRIEVE", "ANSWER"]


def everything(spans: tuple[ReadableSpan, ...]) -> str:
    return "\n".join(span.to_json() for span in spans)


def test_spans_hold_text_only_if_somebody_asks_for_it(tmp_path: Path) -> None:
    texts = [QUESTION, ANSWER, PASSAGES[0].text]
    for wanted in (False, True):
        recorded = Recorded(text=wanted)
        with served(*opened(tmp_path), make_observer=recorded.tracing.episode) as server:
            server.ask()
        told = everything(recorded.spans)
        assert [text in told for text in texts] == [wanted] * len(texts)
        chain = recorded.spans[-1].attributes or {}
        assert (chain.get("input.value"), chain.get("output.value")) == ((QUESTION, ANSWER) if wanted else (None, None))
        call = recorded.spans[1].attributes or {}
        assert ("llm.input_messages.0.message.content" in call) is wanted


def test_the_trace_of_the_client_is_continued(tmp_path: Path) -> None:
    recorded = Recorded()
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with served(*opened(tmp_path), make_observer=recorded.tracing.episode) as server:
        server.ask(headers={"traceparent": f"00-{trace}-{parent}-01"})
    for span in recorded.spans:
        assert span.context is not None and f"{span.context.trace_id:032x}" == trace
    chain = recorded.spans[-1]
    assert chain.parent is not None and f"{chain.parent.span_id:016x}" == parent


def test_a_failure_is_told_by_its_kind(tmp_path: Path) -> None:
    recorded = Recorded()
    broken = {"purpose": "answer", "error": {"status": 400, "message": QUESTION}}
    with served(*opened(tmp_path, SURE, broken), make_observer=recorded.tracing.episode) as server:
        server.ask()
    chain = recorded.spans[-1]
    assert (chain.status.status_code, chain.status.description) == (StatusCode.ERROR, "TransportError")
    assert QUESTION not in everything(recorded.spans)


def test_an_episode_that_was_cancelled_leaves_its_spans(tmp_path: Path) -> None:
    recorded = Recorded()
    with served(*opened(tmp_path, seconds=300), make_observer=recorded.tracing.episode) as server:
        with (
            server.client() as client,
            client.stream("POST", "/v1/ask", json={"question": QUESTION}, headers={"Accept": "text/event-stream"}),
        ):
            wait_for(lambda: server.model.inside == 1)
        wait_for(lambda: len(recorded.spans) == 3)
    search, call, chain = recorded.spans
    assert [kind(span) for span in (search, call, chain)] == ["RETRIEVER", "LLM", "CHAIN"]
    for span in (call, chain):
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "cancelled")
    assert (chain.attributes or {})["beliefrag.outcome"] == "cancelled"


def test_a_search_that_was_not_made_is_marked_and_has_no_span(tmp_path: Path) -> None:
    recorded = Recorded()
    eager = Thresholds(answer=0.9, retrieval_value=0.0)
    opened_eager = opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=eager)
    with served(*opened_eager, make_observer=recorded.tracing.episode) as server:
        server.ask()
    assert "no search" in [event.name for event in recorded.spans[-1].events]
    assert [kind(span) for span in recorded.spans].count("RETRIEVER") == 1


def test_spans_go_to_the_collector_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "the-handbook")
        tracing = open_tracing()
        with served(*opened(tmp_path), make_observer=tracing.episode) as server:
            server.ask()
        tracing.close()
    assert collector.paths == ["/v1/traces"]
    assert b"the-handbook" in collector.bodies[0] and b"RETRIEVER" in collector.bodies[0]
    assert QUESTION.encode() not in collector.bodies[0]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "Use http/protobuf"),
    ],
)
def test_what_is_not_spoken_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=words):
        open_tracing()
