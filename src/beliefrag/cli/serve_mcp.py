"""`beliefrag serve mcp`: the tools `ask` and `search` for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options, serve_options

__all__ = ["mcp"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_HOST = "127.0.0.1"
_PORT = 8081
_GRACE = 30.0


def mcp(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    docs: options.Docs = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    method: options.Method = None,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            metavar="",
            help="Serve over HTTP, at /mcp; by default one client over standard input and output.",
            rich_help_panel=serve_options.NETWORK,
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help=f"Where to listen; {_HOST} by default.", rich_help_panel=serve_options.NETWORK
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help=f"The port; {_PORT} by default, and 0 takes a free one.",
            rich_help_panel=serve_options.NETWORK,
        ),
    ] = None,
    token_file: serve_options.TokenFile = None,
    allowed_host: serve_options.AllowedHost = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help=f"How long calls may go on after SIGTERM; {_GRACE:g} by default.",
            rich_help_panel=serve_options.NETWORK,
        ),
    ] = None,
    concurrency: serve_options.Places = 4,
    queue: serve_options.Queue = 16,
    timeout: serve_options.Timeout = 300.0,
    max_question_chars: serve_options.MaxQuestionChars = 4_000,
    max_tokens: serve_options.MaxTokens = None,
    max_rounds: serve_options.MaxRounds = None,
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

    Over standard input and output, which is how agents start a server of their own; with --http for several clients.
    Writes one JSON line per call to standard error, without questions, passages or keys.

    Example: beliefrag serve mcp --docs handbook/
    """
    import sys
    from dataclasses import replace

    from beliefrag.cli.opening import open_assembly
    from beliefrag.settings import load_settings
    from beliefrag.web.http import Limits, Service, json_log, listen, read_token
    from beliefrag.web.mcp import serve_mcp_http, serve_mcp_stdio

    network = {"--host": host, "--port": port, "--token-file": token_file, "--allowed-host": allowed_host}
    unused = [name for name, value in (network | {"--grace": grace}).items() if value is not None]
    if unused and not http:
        raise typer.BadParameter("it is for a server with --http", param_hint=unused[0])
    paths = options.all_docs(docs, further)
    typed = options.as_settings(
        method=method,
        retriever=retriever,
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
    settings = load_settings(typed, config=config).settings
    caps = {"tokens": max_tokens, "rounds": max_rounds}
    limits = Limits(
        # A character takes at most twelve bytes of JSON; the rest is for what the protocol wraps around it.
        request_bytes=12 * max_question_chars + 16_384,
        question_chars=max_question_chars,
        concurrency=concurrency,
        queue=queue,
        timeout=timeout,
        grace=_GRACE if http and grace is None else grace or 0.0,
        budget=replace(settings.budget, **{name: cap for name, cap in caps.items() if cap is not None}),
    )

    def opened() -> Service:
        return Service(open_assembly(settings, docs=paths, index=index), settings, limits)

    if not http:
        service = opened()
        with json_log(sys.stderr):
            serve_mcp_stdio(service)
        return
    address = host or _HOST
    token = read_token(token_file, address)
    # The address comes first: if it is taken, no document has been read yet.
    with listen(address, _PORT if port is None else port) as bound:
        service = opened()
        with json_log(sys.stderr):
            serve_mcp_http(service, bound, token=token, host=address, allowed_hosts=allowed_host or ())
