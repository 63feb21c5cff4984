"""`beliefrag serve`: answers other programs, over HTTP (`http`) or as tools for agents (`mcp`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from beliefrag.cli import options

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.web.limits import ServerLimits

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Answer other programs over the network.", no_args_is_help=True)

_LOOPBACK = "127.0.0.1"
_MCP_PORT = 8081
_MCP_GRACE = 30.0
_NETWORK = "Network"
_LIMITS = "Limits"
_WATCHING = "Watching"

TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the bearer token that clients must send; BELIEFRAG_TOKEN in the environment works too. Needed "
        "unless --host is loopback.",
        rich_help_panel=_NETWORK,
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A further name by which clients may call the server, besides localhost on loopback.",
        rich_help_panel=_NETWORK,
    ),
]
Concurrency = Annotated[
    int, typer.Option(metavar="N", min=1, help="How many questions are answered at a time.", rich_help_panel=_LIMITS)
]
Queue = Annotated[
    int,
    typer.Option(metavar="N", min=0, help="How many questions may wait; more are refused.", rich_help_panel=_LIMITS),
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long a question may take.", rich_help_panel=_LIMITS)
]
MaxQuestionChars = Annotated[
    int, typer.Option(metavar="N", min=1, help="The most characters of a question.", rich_help_panel=_LIMITS)
]
MaxConnections = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="The most open connections; never more than half of the files that the process may open.",
        rich_help_panel=_LIMITS,
    ),
]
MaxConnectionsPerClient = Annotated[
    int, typer.Option(metavar="N", min=1, help="The most connections of one address.", rich_help_panel=_LIMITS)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="The most tokens after which no search begins, whatever a request asks for; by default the setting.",
        rich_help_panel=_LIMITS,
    ),
]
MaxRounds = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="The most searches, whatever a request asks for; by default the setting.",
        rich_help_panel=_LIMITS,
    ),
]


@app.command()
def http(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    docs: options.Docs = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    pack: options.Pack = None,
    method: options.Method = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=_NETWORK)
    ] = _LOOPBACK,
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.", rich_help_panel=_NETWORK),
    ] = 8080,
    token_file: TokenFile = None,
    allowed_host: AllowedHost = None,
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
    concurrency: Concurrency = 4,
    queue: Queue = 16,
    timeout: Timeout = 120.0,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.0, help="How long questions may go on after SIGTERM.", rich_help_panel=_LIMITS
        ),
    ] = 30.0,
    max_question_chars: MaxQuestionChars = 4_000,
    max_connections: MaxConnections = 1_000,
    max_connections_per_client: MaxConnectionsPerClient = 256,
    max_request_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="The most bytes of a request's body.", rich_help_panel=_LIMITS)
    ] = 65_536,
    max_tokens: MaxTokens = None,
    max_rounds: MaxRounds = None,
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
    otel: options.Otel = False,
    otel_text: options.OtelText = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    calibration: options.Calibration = None,
    borrow: options.Borrow = None,
    max_error: options.MaxError = None,
    confidence: options.Confidence = None,
    verifier: options.Verifier = None,
    prompts: options.Prompts = None,
    no_cache: options.NoCache = False,
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
    from beliefrag.web.auth import read_token
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.metrics import ServerMetrics
    from beliefrag.web.reload import IndexReloader
    from beliefrag.web.request_log import json_log
    from beliefrag.web.server import listen, serve
    from beliefrag.web.service import AnswerService

    paths = options.join_docs(docs, further)
    typed = options.collect_settings(
        method=method,
        retriever=retriever,
        pack=pack,
        model=model,
        base_url=base_url,
        calibration=calibration,
        borrow=borrow,
        max_error=max_error,
        confidence=confidence,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
    )
    settings, limits = _settings_and_limits(
        typed,
        config,
        max_tokens=max_tokens,
        max_rounds=max_rounds,
        request_bytes=max_request_bytes,
        question_chars=max_question_chars,
        connections=max_connections,
        connections_per_client=max_connections_per_client,
        concurrency=concurrency,
        queue=queue,
        timeout=timeout,
        grace=grace,
    )
    token = read_token(token_file, host)
    # The address comes first: if it is taken, no document was read in vain.
    with listen(host, port) as bound, options.tracing(otel, otel_text) as tracing:
        service = AnswerService(open_assembly(settings, docs=paths, index=index), settings, limits)
        context = HttpContext(
            service,
            ServerMetrics(service.admission),
            model_name=served_model,
            earlier_turns=earlier_turns,
            show_prompts=show_prompts,
            make_observer=tracing.episode if tracing is not None else None,
            reloader=IndexReloader(service, docs=paths, index=index),
        )
        server = create_app(context, token=token, host=host, allowed_hosts=allowed_host or (), serve_metrics=metrics)
        with json_log(sys.stderr):
            serve(server, service, bound)


@app.command()
def mcp(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    docs: options.Docs = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    pack: options.Pack = None,
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
    token_file: TokenFile = None,
    allowed_host: AllowedHost = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help=f"How long calls may go on after SIGTERM; {_MCP_GRACE:g} by default.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    concurrency: Concurrency = 4,
    queue: Queue = 16,
    timeout: Timeout = 300.0,
    max_question_chars: MaxQuestionChars = 4_000,
    max_connections: MaxConnections = 1_000,
    max_connections_per_client: MaxConnectionsPerClient = 256,
    max_tokens: MaxTokens = None,
    max_rounds: MaxRounds = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    calibration: options.Calibration = None,
    borrow: options.Borrow = None,
    max_error: options.MaxError = None,
    confidence: options.Confidence = None,
    verifier: options.Verifier = None,
    prompts: options.Prompts = None,
    no_cache: options.NoCache = False,
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
    from beliefrag.web.mcp import serve_mcp_http, serve_mcp_stdio
    from beliefrag.web.reload import IndexReloader
    from beliefrag.web.request_log import json_log
    from beliefrag.web.server import listen
    from beliefrag.web.service import AnswerService

    network = {"--host": host, "--port": port, "--token-file": token_file, "--allowed-host": allowed_host}
    unused = [name for name, value in (network | {"--grace": grace}).items() if value is not None]
    if unused and not over_http:
        raise typer.BadParameter("it needs --http, which is missing", param_hint=unused[0])
    paths = options.join_docs(docs, further)
    typed = options.collect_settings(
        method=method,
        retriever=retriever,
        pack=pack,
        model=model,
        base_url=base_url,
        calibration=calibration,
        borrow=borrow,
        max_error=max_error,
        confidence=confidence,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
    )
    settings, limits = _settings_and_limits(
        typed,
        config,
        max_tokens=max_tokens,
        max_rounds=max_rounds,
        # A character takes at most twelve bytes of JSON; the rest is for what the protocol puts around it.
        request_bytes=12 * max_question_chars + 16_384,
        question_chars=max_question_chars,
        connections=max_connections,
        connections_per_client=max_connections_per_client,
        concurrency=concurrency,
        queue=queue,
        timeout=timeout,
        grace=_MCP_GRACE if over_http and grace is None else grace or 0.0,
    )

    def open_service() -> AnswerService:
        return AnswerService(open_assembly(settings, docs=paths, index=index), settings, limits)

    if not over_http:
        service = open_service()
        with json_log(sys.stderr):
            serve_mcp_stdio(service, IndexReloader(service, docs=paths, index=index))
        return
    address = host or _LOOPBACK
    token = read_token(token_file, address)
    # The address comes first: if it is taken, no document was read in vain.
    with listen(address, _MCP_PORT if port is None else port) as bound:
        service = open_service()
        with json_log(sys.stderr):
            serve_mcp_http(
                service,
                bound,
                token=token,
                host=address,
                allowed_hosts=allowed_host or (),
                reloader=IndexReloader(service, docs=paths, index=index),
            )


def _settings_and_limits(
    typed: dict[str, Any], config: Path | None, *, max_tokens: int | None, max_rounds: int | None, **limits: Any
) -> tuple[Settings, ServerLimits]:
    from dataclasses import replace

    from beliefrag.settings import load_settings
    from beliefrag.web.limits import ServerLimits

    settings = load_settings(typed, config=config).settings
    most = {name: value for name, value in (("tokens", max_tokens), ("rounds", max_rounds)) if value is not None}
    return settings, ServerLimits(**limits, budget=replace(settings.budget, **most))
