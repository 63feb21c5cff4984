"""Where spans go: as the standard OTEL_* variables say."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from beliefrag.integrations.otel.spans import EpisodeSpans

__all__ = ["Tracing", "open_tracing"]

# What is imported here is an extra: it need not be there.
# ruff: noqa: PLC0415

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


class Tracing:
    """Gives each episode its spans.

    Args:
        provider: What makes and exports them.
        text: Whether they may hold questions, passages, prompts and replies.
    """

    def __init__(self, provider: TracerProvider, *, text: bool = False) -> None:
        from beliefrag._version import __version__

        self._provider = provider
        self._tracer = provider.get_tracer("beliefrag", __version__)
        self._text = text

    def episode(self, headers: Mapping[str, str] | None = None) -> EpisodeSpans:
        """The spans of one episode.

        Args:
            headers: Of the request that it answers; a trace that they name is continued.
        """
        from beliefrag.integrations.otel.spans import EpisodeSpans

        return EpisodeSpans(self._tracer, text=self._text, headers=headers)

    def close(self) -> None:
        """Sends what has not been sent yet."""
        self._provider.shutdown()


def open_tracing(*, text: bool = False) -> Tracing:
    """Opens the exporter that OTEL_TRACES_EXPORTER names: otlp (over HTTP, by default), console or none.

    Args:
        text: Whether spans may hold questions, passages, prompts and replies.

    Raises:
        SettingsError: The extra is not installed, or the exporter is not known.
    """
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

        from beliefrag.integrations.otel.spans import EpisodeSpans  # noqa: F401 - needs the names of OpenInference
    except ImportError as error:
        raise _missing(error) from None
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "beliefrag"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    if exporter == "otlp":
        _check_protocol()
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise _missing(error) from None
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    elif exporter == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    elif exporter != "none":
        raise SettingsError(
            f"OTEL_TRACES_EXPORTER is {exporter!r}, which is not known here.", remedy="Use otlp, console or none."
        )
    return Tracing(provider, text=text)


def _check_protocol() -> None:
    for variable in _PROTOCOLS:
        protocol = os.environ.get(variable, _HTTP)
        if protocol != _HTTP:
            raise SettingsError(
                f"{variable} is {protocol!r}, which is not spoken here.", remedy=f"Use {_HTTP}; collectors take both."
            )


def _missing(error: ImportError) -> SettingsError:
    return SettingsError(
        f"Tracing needs {error.name}, which is not installed.", remedy="Run: python -m pip install 'beliefrag[otel]'."
    )
