"""`beliefrag serve http`: answers questions over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from beliefrag.cli import options

__all__ = ["http"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


def http(
    *,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    debug: options.Debug = False,
) -> None:
    """Answer questions over HTTP.

    Example: beliefrag serve http --port 8080
    """
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()
    app.get("/v1/healthz")(lambda: {"status": "ok"})
    uvicorn.run(app, host=host, port=port)
