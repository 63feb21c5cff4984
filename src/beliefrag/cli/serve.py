"""`beliefrag serve`: answer other programs, over HTTP (`http`) or as tools for agents (`mcp`)."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer
from pydantic import Field

from beliefrag.cli.options import Documents, FurtherPaths, GivenSettings, flag, join_paths, with_settings

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.web.limits import ServerLimits

__all__ = ["Feedback", "LimitOptions", "app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Answer other programs over the network.", no_args_is_help=True)

_LOOPBACK = "127.0.0.1"
_EMBEDDED_TIMEOUT = 900.0
"""Seconds for a question if the model runs on this machine's processor, which takes minutes for a hard one."""

_Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help=f"Where to listen; {_LOOPBACK} by default.")]
_Port = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=65535, help="The port; by default 8080, for mcp 8081. 0 takes a free one."),
]
Feedback = Annotated[
    Path | None, typer.Option("--feedback", metavar="FILE", help="Where feedback is kept; by default feedback.jsonl.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may call the server."""

    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the bearer token that clients send (or set BELIEFRAG_TOKEN). Needed beyond loopback.",
        ),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name by which clients may call the server. Repeatable."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """How much the server does at a time, and for one question."""

    section: ClassVar[str] = "limits"
    usual_timeout: ClassVar[float] = 120.0
    """Seconds for a question if the model has a server of its own."""

    concurrency: Annotated[int | None, Field(ge=1)] = None
    """Questions at a time; by default 1 for a model on this machine, which answers one call at a time, else 4."""
    queue: Annotated[int, Field(ge=0)] = 16
    """How many questions may wait; more are refused."""
    timeout: Annotated[float | None, Field(ge=0.1)] = None
    """Seconds for a question; the wait before it does not count."""
    grace: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that running questions have after SIGTERM."""
    question_chars: Annotated[int, Field(ge=1)] = 4_000
    request_bytes: Annotated[int, Field(ge=1)] = 65_536
    connections: Annotated[int, Field(ge=1)] = 1_000
    connections_per_client: Annotated[int, Field(ge=1)] = 256
    tokens: Annotated[int | None, Field(ge=1)] = None
    """The most tokens before the final answer, whatever a request asks for; by default the setting."""
    rounds: Annotated[int | None, Field(ge=0)] = None
    """The most searches, whatever a request asks for; by default the setting."""

    def for_server(self, settings: Settings) -> ServerLimits:
        """Return the limits of a server with these settings."""
        from beliefrag.web.limits import ServerLimits

        asked = {"tokens": self.tokens, "rounds": self.rounds}
        budget = {name: value for name, value in asked.items() if value is not None}
        embedded = settings.model.startswith("local:")
        return ServerLimits(
            request_bytes=self.request_bytes,
            question_chars=self.question_chars,
            connections=self.connections,
            connections_per_client=self.connections_per_client,
            concurrency=self.concurrency or (1 if embedded else 4),
            queue=self.queue,
            timeout=self.timeout or (_EMBEDDED_TIMEOUT if embedded else self.usual_timeout),
            grace=self.grace,
            budget=replace(settings.budget, **budget),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimitOptions(LimitOptions):
    """The limits for tools of agents, which may wait longer."""

    usual_timeout: ClassVar[float] = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the HTTP server presents itself."""

    section: ClassVar[str] = "serve"

    page: Annotated[bool, flag("--page", "Serve the page of 'beliefrag app' too; its address is printed.")] = False
    feedback: Feedback = None
    metrics: Annotated[bool, flag("--metrics", "Serve /metrics for Prometheus.")] = False
    otel: Annotated[bool, flag("--otel", "Send OpenTelemetry traces, as the OTEL_* variables say.")] = False
    otel_text: Annotated[bool, flag("--otel-text", "Let traces hold questions, passages, prompts and replies.")] = False
    model_name: str = "beliefrag"
    """The model name at the OpenAI-compatible addresses."""
    earlier_turns: Literal["refuse", "ignore"] = "refuse"
    """What to do with the earlier turns of a chat: each question is answered alone."""
    show_prompts: bool = False
    """Whether streamed events include prompts and replies."""


@app.command()
@with_settings("model", "base_url", "method")
def http(
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    host: _Host = None,
    port: _Port = None,
    access: Access,
    how: HttpOptions,
    limits: LimitOptions,
) -> None:
    """Answer questions over HTTP: /v1/ask, and /v1/chat/completions and /v1/responses for OpenAI clients.

    Logs one JSON line per request, without questions, passages or keys. After SIGTERM or Ctrl-C running questions may
    finish.

    Example: beliefrag serve http --docs handbook/
    """
    from beliefrag.cli.browser_page import PageAccess, make_page
    from beliefrag.cli.episode_run import open_assembly
    from beliefrag.web.auth import read_token
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.monitoring import ServerMetrics
    from beliefrag.web.request_log import json_log
    from beliefrag.web.server import listen, serve
    from beliefrag.web.service import AnswerService

    if how.feedback is not None and not how.page:
        raise typer.BadParameter("it needs --page", param_hint="--feedback")
    if how.otel_text and not how.otel:
        raise typer.BadParameter("it needs --otel", param_hint="--otel-text")
    paths = join_paths(documents.docs, further)
    settings = given.load()
    server_limits = limits.for_server(settings)
    address = host or _LOOPBACK
    token = read_token(access.token_file, address)
    with contextlib.ExitStack() as stack:
        # The address comes first: if it is taken, no document was read in vain.
        bound = stack.enter_context(listen(address, 8080 if port is None else port))
        traces = None
        if how.otel:
            from beliefrag.integrations.otel import open_tracing

            traces = open_tracing(text=how.otel_text)
            stack.callback(traces.close)
        service = AnswerService(open_assembly(settings, docs=paths, index=documents.index), settings, server_limits)
        page = browser = None
        if how.page:
            browser = PageAccess.for_server(bound, token, command="beliefrag serve http --page")
            page = make_page(service, how.feedback, paths, documents.index, show_prompts=how.show_prompts)
        context = HttpContext(
            service,
            ServerMetrics(service.admission),
            page=page,
            model_name=how.model_name,
            earlier_turns=how.earlier_turns,
            show_prompts=how.show_prompts,
            make_observer=traces.episode if traces is not None else None,
            docs=paths,
            index=documents.index,
        )
        server = create_app(
            context,
            token=token,
            host=address,
            allowed_hosts=access.allowed_host or (),
            serve_metrics=how.metrics,
            browser=browser.key if browser else None,
        )
        stack.enter_context(json_log(sys.stderr))
        serve(server, service, bound, on_listening=browser.log_address if browser else None)


@app.command()
@with_settings("model", "base_url", "method")
def mcp(
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    over_http: Annotated[bool, flag("--http", "Serve over HTTP, at /mcp; by default over standard input.")] = False,
    host: _Host = None,
    port: _Port = None,
    access: Access,
    limits: McpLimitOptions,
) -> None:
    """Give agents two tools over the Model Context Protocol: ask, and search.

    By default over standard input and output, which is how agents start a server; with --http for several clients.
    Logs one JSON line per call, without questions, passages or keys.

    Example: beliefrag serve mcp --docs handbook/
    """
    from beliefrag.cli.episode_run import open_assembly
    from beliefrag.web.auth import read_token
    from beliefrag.web.mcp.mcp_stdio import serve_mcp_stdio
    from beliefrag.web.request_log import json_log
    from beliefrag.web.service import AnswerService

    network: dict[str, object] = {"--host": host, "--port": port, "--token-file": access.token_file}
    unused = [name for name, value in (network | {"--allowed-host": access.allowed_host}).items() if value is not None]
    if unused and not over_http:
        raise typer.BadParameter("it needs --http", param_hint=unused[0])
    paths = join_paths(documents.docs, further)
    settings = given.load()
    # A character takes at most twelve bytes of JSON; the rest is for what the protocol puts around it.
    fitting = replace(limits, request_bytes=12 * limits.question_chars + 16_384)
    server_limits = (fitting if over_http else replace(fitting, grace=0.0)).for_server(settings)

    def open_service() -> AnswerService:
        return AnswerService(open_assembly(settings, docs=paths, index=documents.index), settings, server_limits)

    if not over_http:
        service = open_service()
        with json_log(sys.stderr):
            serve_mcp_stdio(service)
        return

    from beliefrag.web.mcp.mcp_app import serve_mcp_http
    from beliefrag.web.server import listen

    address = host or _LOOPBACK
    token = read_token(access.token_file, address)
    # The address comes first: if it is taken, no document was read in vain.
    with listen(address, 8081 if port is None else port) as bound:
        service = open_service()
        with json_log(sys.stderr):
            serve_mcp_http(
                service,
                bound,
                token=token,
                host=address,
                allowed_hosts=access.allowed_host or (),
            )
