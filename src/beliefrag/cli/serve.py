"""`beliefrag serve`: answer other programs, one file per way of talking to them."""

from __future__ import annotations

import typer

from beliefrag.cli.serve_http import http
from beliefrag.cli.serve_mcp import mcp

__all__ = ["app"]

app = typer.Typer(help="Answer other programs over the network.", no_args_is_help=True)
app.command()(http)
app.command()(mcp)
