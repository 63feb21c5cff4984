"""`beliefrag serve`: answers other programs, over HTTP (`http`) or as tools for agents (`mcp`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.web.limits import ServerLimits

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Answer other programs over the network.", no_args_is_help=True)

_LOOPBACK = "127.0.0.1"
_MCP_PORT = 8081
_MCP_GRACE = 30.0
_NETWORK = "Network"
_LIMITS = "Limits"
_WATCHING = "Watching"

_EMBEDDED_TIMEOUT = 900.0
"""Seconds for a question where the model runs on this machine's processor, which takes minutes for a hard one."""


def _timeout_option(seconds: float) -> Any:
    return typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="How long a question may take from its turn on; the wait before it does not count. By default "
        f"{_EMBEDDED_TIMEOUT:g} where the model runs on this machine, {seconds:g} otherwise.",
        rich_help_panel=_LIMITS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may call the server."""

    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the bearer token that clients must send; BELIEFRAG_TOKEN in the environment works too. "
            "Needed unless --host is loopback.",
            rich_help_panel=_NETWORK,
        ),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name by which clients may call the server, besides localhost on loopback.",
            rich_help_panel=_NETWORK,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """How much the server does at a time, and for one question."""

    usual_timeout: ClassVar[float] = 120.0
    """Seconds for a question where the model has a server of its own."""

    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many questions are answered at a time. By default 1 where the model runs on this machine, "
            "because it answers one call at a time; 4 otherwise.",
            rich_help_panel=_LIMITS,
        ),
    ] = None
    queue: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="How many questions may wait; more are refused.", rich_help_panel=_LIMITS
        ),
    ] = 16
    timeout: Annotated[float | None, _timeout_option(usual_timeout)] = None
    max_question_chars: Annotated[
        int, typer.Option(metavar="N", min=1, help="The most characters of a question.", rich_help_panel=_LIMITS)
    ] = 4_000
    max_connections: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="The most open connections; never more than half of the files that the process may open.",
            rich_help_panel=_LIMITS,
        ),
    ] = 1_000
    max_connections_per_client: Annotated[
        int, typer.Option(metavar="N", min=1, help="The most connections of one address.", rich_help_panel=_LIMITS)
    ] = 256
    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The most tokens before the final answer, whatever a request asks for; by default the setting.",
            rich_help_panel=_LIMITS,
        ),
    ] = None
    max_rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The most searches, whatever a request asks for; by default the setting.",
            rich_help_panel=_LIMITS,
        ),
    ] = None

    def make_limits(self, settings: Settings, *, grace: float, request_bytes: int) -> ServerLimits:
        """Gives the limits of a server, of which those on a question are at most those of the settings."""
        from beliefrag.web.limits import ServerLimits

        asked = {"tokens": self.max_tokens, "rounds": self.max_rounds}
        budget = {name: value for name, value in asked.items() if value is not None}
        embedded = settings.model.startswith("local:")
        return ServerLimits(
            request_bytes=request_bytes,
            question_chars=self.max_question_chars,
            connections=self.max_connections,
            connections_per_client=self.max_connections_per_client,
            concurrency=self.concurrency or (1 if embedded else 4),
            queue=self.queue,
            timeout=self.timeout or (_EMBEDDED_TIMEOUT if embedded else self.usual_timeout),
            grace=grace,
            budget=replace(settings.budget, **budget),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimitOptions(LimitOptions):
    """The limits for tools of agents, which may wait longer."""

    usual_timeout: ClassVar[float] = 300.0
    timeout: Annotated[float | None, _timeout_option(usual_timeout)] = None


@app.command()
@options.with_option_groups
def http(
    further: options.FurtherPaths = None,
    *,
    documents: options.DocumentOptions,
    search: options.SearchOptions,
    method: options.Method = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=_NETWORK)
    ] = _LOOPBACK,
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.", rich_help_panel=_NETWORK),
    ] = 8080,
    access: AccessOptions,
    served_model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model name at the OpenAI-compatible addresses, for clients that need one.",
            rich_help_panel=_NETWORK,
        ),
    ] = "beliefrag",
    earlier_turns: Annotated[
        Literal["refuse", "ignore"],
        typer.Option(
            help="What to do with the earlier turns of a chat: each question is answered alone.",
            rich_help_panel=_NETWORK,
        ),
    ] = "refuse",
    limits: LimitOptions,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.0, help="How long questions may go on after SIGTERM.", rich_help_panel=_LIMITS
        ),
    ] = 30.0,
    max_request_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="The most bytes of a request's body.", rich_help_panel=_LIMITS)
    ] = 65_536,
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            metavar="",
            help="Serve a page to ask in as well, at an address with a key that is printed; see 'beliefrag app'.",
            rich_help_panel=_NETWORK,
        ),
    ] = False,
    feedback: options.Feedback = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", metavar="", help="Serve /metrics for Prometheus.", rich_help_panel=_WATCHING)
    ] = False,
    show_prompts: Annotated[
        bool,
        typer.Option(
            "--show-prompts",
            metavar="",
            help="Include prompts and the model's replies in streamed events.",
            rich_help_panel=_WATCHING,
        ),
    ] = False,
    tracing: options.TracingOptions,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    risk: options.RiskOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Answer questions over HTTP: /v1/ask, and /v1/chat/completions and /v1/responses for clients of OpenAI's API.

    Writes one JSON line per request to standard error, without questions, passages or keys. After SIGTERM or Ctrl-C
    running questions may finish.

    Example: beliefrag serve http --docs handbook/
    """
    import sys

    from beliefrag.cli.opening import open_assembly
    from beliefrag.web.auth import BearerToken, TokenOrBrowserKey, read_token
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.request_log import json_log
    from beliefrag.web.server import listen, serve
    from beliefrag.web.server_metrics import ServerMetrics
    from beliefrag.web.service import AnswerService

    if page:
        from beliefrag.cli.page_access import PageAccess, make_page, open_feedback
    elif feedback is not None:
        raise typer.BadParameter("--feedback needs --page, on which it is given", param_hint="--feedback")
    paths = options.join_docs(documents.docs, further)
    settings = options.read_settings(search, model, calibration, risk, prompts, config=config, method=method)
    server_limits = limits.make_limits(settings, grace=grace, request_bytes=max_request_bytes)
    token = read_token(access.token_file, host)
    kept = open_feedback(feedback) if page else None
    # The address comes first: if it is taken, no document was read in vain.
    with listen(host, port) as bound, options.tracing(tracing) as traces:
        service = AnswerService(open_assembly(settings, docs=paths, index=documents.index), settings, server_limits)
        browser = PageAccess.for_server(bound, token, command="beliefrag serve http --page") if page else None
        context = HttpContext(
            service,
            ServerMetrics(service.admission),
            page=make_page(service, kept, paths, documents.index, show_prompts=show_prompts) if kept else None,
            model_name=served_model,
            earlier_turns=earlier_turns,
            show_prompts=show_prompts,
            make_observer=traces.episode if traces is not None else None,
            docs=paths,
            index=documents.index,
        )
        server = create_app(
            context,
            token=token,
            host=host,
            allowed_hosts=access.allowed_host or (),
            serve_metrics=metrics,
            credential=TokenOrBrowserKey(BearerToken(token), browser.key) if browser else None,
        )
        with json_log(sys.stderr):
            serve(server, service, bound, on_listening=browser.log_address if browser else None)


@app.command()
@options.with_option_groups
def mcp(
    further: options.FurtherPaths = None,
    *,
    documents: options.DocumentOptions,
    search: options.SearchOptions,
    method: options.Method = None,
    over_http: Annotated[
        bool,
        typer.Option(
            "--http",
            metavar="",
            help="Serve over HTTP, at /mcp; by default one client over standard input and output.",
            rich_help_panel=_NETWORK,
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help=f"Where to listen; {_LOOPBACK} by default.", rich_help_panel=_NETWORK),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help=f"The port; {_MCP_PORT} by default, and 0 takes a free one.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    access: AccessOptions,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help=f"How long calls may go on after SIGTERM; {_MCP_GRACE:g} by default.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    limits: McpLimitOptions,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    risk: options.RiskOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Give agents two tools over the Model Context Protocol: ask, and search.

    By default over standard input and output, which is how agents start their own server; with --http for several
    clients. Writes one JSON line per call to standard error, without questions, passages or keys.

    Example: beliefrag serve mcp --docs handbook/
    """
    import sys

    from beliefrag.cli.opening import open_assembly
    from beliefrag.web.auth import read_token
    from beliefrag.web.mcp.mcp_stdio import serve_mcp_stdio
    from beliefrag.web.request_log import json_log
    from beliefrag.web.service import AnswerService

    network: dict[str, object] = {"--host": host, "--port": port, "--token-file": access.token_file}
    network |= {"--allowed-host": access.allowed_host, "--grace": grace}
    unused = [name for name, value in network.items() if value is not None]
    if unused and not over_http:
        raise typer.BadParameter("it is only for --http: give --http too", param_hint=unused[0])
    paths = options.join_docs(documents.docs, further)
    settings = options.read_settings(search, model, calibration, risk, prompts, config=config, method=method)
    server_limits = limits.make_limits(
        settings,
        # A character takes at most twelve bytes of JSON; the rest is for what the protocol puts around it.
        request_bytes=12 * limits.max_question_chars + 16_384,
        grace=_MCP_GRACE if over_http and grace is None else grace or 0.0,
    )

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
    with listen(address, _MCP_PORT if port is None else port) as bound:
        service = open_service()
        with json_log(sys.stderr):
            serve_mcp_http(
                service,
                bound,
                token=token,
                host=address,
                allowed_hosts=access.allowed_host or (),
            )
