"""`beliefrag serve http`: answers questions over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from beliefrag.cli import options, serve_options

__all__ = ["http"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_WATCHING = "Watching"


def http(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    docs: options.Docs = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    method: options.Method = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=serve_options.NETWORK)
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="The port; 0 takes a free one.", rich_help_panel=serve_options.NETWORK
        ),
    ] = 8080,
    token_file: serve_options.TokenFile = None,
    allowed_host: serve_options.AllowedHost = None,
    served_model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model name of the OpenAI-compatible address, for clients that insist on one.",
            rich_help_panel=serve_options.NETWORK,
        ),
    ] = "beliefrag",
    earlier_turns: Annotated[
        Literal["refuse", "ignore"],
        typer.Option(
            help="What to do with the earlier turns of a chat: each question is answered alone.",
            rich_help_panel=serve_options.NETWORK,
        ),
    ] = "refuse",
    concurrency: serve_options.Places = 4,
    queue: serve_options.Queue = 16,
    timeout: serve_options.Timeout = 120.0,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="How long questions may go on after SIGTERM.",
            rich_help_panel=serve_options.LIMITS,
        ),
    ] = 30.0,
    max_question_chars: serve_options.MaxQuestionChars = 4_000,
    max_request_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Bytes of a request's body.", rich_help_panel=serve_options.LIMITS)
    ] = 65_536,
    max_tokens: serve_options.MaxTokens = None,
    max_rounds: serve_options.MaxRounds = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", metavar="", help="Serve /metrics for Prometheus.", rich_help_panel=_WATCHING)
    ] = False,
    show_prompts: Annotated[
        bool,
        typer.Option(
            "--show-prompts",
            metavar="",
            help="Let streamed events hold what is said to the model and its replies.",
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
    """Answer questions over HTTP: /v1/ask, and /v1/chat/completions for clients of OpenAI's API.

    Writes one JSON line per request to standard error, without questions, passages or keys. SIGTERM and Ctrl-C let the
    questions under way finish.

    Example: beliefrag serve http --docs handbook/
    """
    import sys
    from dataclasses import replace

    from beliefrag.cli.opening import open_assembly
    from beliefrag.settings import load_settings
    from beliefrag.web.http import Limits, Metrics, Service, Site, create_app, json_log, listen, read_token, serve

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
    token = read_token(token_file, host)
    caps = {"tokens": max_tokens, "rounds": max_rounds}
    limits = Limits(
        request_bytes=max_request_bytes,
        question_chars=max_question_chars,
        concurrency=concurrency,
        queue=queue,
        timeout=timeout,
        grace=grace,
        budget=replace(settings.budget, **{name: cap for name, cap in caps.items() if cap is not None}),
    )
    # The address comes first: if it is taken, no document has been read yet.
    with listen(host, port) as bound, options.tracing(otel, otel_text) as tracing:
        service = Service(open_assembly(settings, docs=paths, index=index), settings, limits)
        site = Site(
            service,
            Metrics(service),
            model_name=served_model,
            earlier_turns=earlier_turns,
            show_prompts=show_prompts,
            tracing=tracing,
        )
        app = create_app(site, token=token, host=host, allowed_hosts=allowed_host or (), serve_metrics=metrics)
        with json_log(sys.stderr):
            serve(app, service, bound)
