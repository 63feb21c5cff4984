"""The MCP server as clients meet it: a process of its own on a pipe, or uvicorn on a real port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters

from beliefrag.opening import assemble
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Passage
from beliefrag.web.limits import ServerLimits
from beliefrag.web.mcp.mcp_app import create_mcp_app
from beliefrag.web.server import AnswerServer, listen
from beliefrag.web.service import AnswerService
from tests.support.episodes import script, verdict

PASSAGES = [
    Passage("fram", "Fram", "The polar ship Fram was designed by Colin Archer.", "/secret/folder/fram.md", "line 3"),
    Passage("archer", "Colin Archer", "Colin Archer was born in Larvik.", "/secret/folder/archer.md"),
]
QUESTION = "Who designed the polar ship Fram?"
SURE = verdict(0.95, 0.0, 0.05) | {"repeat": True}
UNSURE = verdict(0.0, 1.0, 1.0) | {"repeat": True}
ANSWER = {"purpose": "answer", "reply": "Colin Archer", "repeat": True}
DECLINING: dict[str, Any] = {
    "budget.rounds": 1,
    "thresholds.abstain_answerability": 0.55,
    "thresholds.abstain_sufficiency": 0.5,
    "thresholds.correct_unreliable": False,
}


def settings(folder: Path, *lines: Mapping[str, Any], **more: Any) -> Settings:
    """Return settings with a scripted model that is sure unless told otherwise."""
    script(folder, *(lines or (SURE, ANSWER)))
    model = {"model": f"scripted:{folder / 'script.jsonl'}", "borrow": "published", "cache": False, "retry_seconds": 0}
    return load_settings({**model, **more}).settings


def service(
    chosen: Settings, *, passages: Sequence[Passage] = PASSAGES, limits: ServerLimits | None = None
) -> AnswerService:
    """Return a service over a few passages."""
    return AnswerService(
        assemble(chosen, passages=passages), chosen, replace(limits or ServerLimits(), budget=chosen.budget)
    )


@contextlib.asynccontextmanager
async def live(of: AnswerService, **access: Any) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """Serve on a free port; return the address, and what begins the server's end."""
    app = create_mcp_app(of, **access)
    with listen("127.0.0.1", 0) as bound:
        server = AnswerServer(app, of)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:  # uvicorn has no event for it
            await asyncio.sleep(0.01)
            assert not serving.done(), serving.result()

        def end() -> None:
            server.should_exit = True

        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}", end
        finally:
            end()
            await asyncio.wait_for(serving, 30)


def command(folder: Path, *arguments: str, model: str | None = None) -> StdioServerParameters:
    """Return how an agent starts a server of its own."""
    options = ["--docs", str(folder / "docs"), "--model", model or f"scripted:{folder / 'script.jsonl'}"]
    return StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "beliefrag",
            "serve",
            "mcp",
            *options,
            "--set",
            "borrow=published",
            "--set",
            "cache=false",
            *arguments,
        ],
        env={**os.environ, "BELIEFRAG_CACHE_DIR": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")},
        cwd=folder,
    )
