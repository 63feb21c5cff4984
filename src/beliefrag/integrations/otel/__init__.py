"""Episodes as OpenTelemetry traces, read off the event stream. Needs the extra `otel`."""

from beliefrag.integrations.otel.tracing import Tracing, open_tracing

__all__ = ["Tracing", "open_tracing"]
