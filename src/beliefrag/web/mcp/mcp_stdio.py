"""Serves MCP over standard input and output to one agent, without loading what only a server over HTTP needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from mcp.server.stdio import stdio_server

from beliefrag.web.mcp.tools import create_mcp_server
from beliefrag.web.service import AnswerService


def serve_mcp_stdio(service: AnswerService) -> None:
    """Serve one client until it closes the pipe; after SIGINT or SIGTERM the process ends at once, with 130 or 143."""
    asyncio.run(_serve_until_signal(service))


async def _serve_until_signal(service: AnswerService) -> None:
    serving = asyncio.create_task(_serve_pipe(service))
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    signalled = asyncio.create_task(signals.get())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await service.drain()
        await service.aclose()
        # A thread waits for the client's next line and cannot be woken: an orderly exit would wait for it.
        os._exit(128 + signalled.result())
    signalled.cancel()
    await service.aclose()
    try:
        serving.result()
    except* ConnectionError:
        pass  # the client died without closing its end first, and cannot read an error


async def _serve_pipe(service: AnswerService) -> None:
    server = create_mcp_server(service)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
