"""Small things that tests of model layers share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.models.protocol import ChatReply, ChatRequest, Message


def ask(text: str = "What is the capital of France?", *, purpose: str = "answer", **fields: Any) -> ChatRequest:
    """Return a request with one question in it."""
    return ChatRequest(purpose, (Message("system", "Answer."), Message("user", text)), **fields)


def script(folder: Path, *lines: Mapping[str, Any]) -> Path:
    """Write a script for `Scripted`."""
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class Gated:
    """A model that answers only when it is told to, and counts who is inside."""

    identity = "gated:1"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = 0
        self.inside = 0
        self.most_inside = 0
        self.failing: Exception | None = None

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await self.gate.wait()
        finally:
            self.inside -= 1
        if self.failing is not None:
            raise self.failing
        return ChatReply(f"reply to {request.messages[-1].content}", tokens_in=7, tokens_out=2, seconds=0.5)

    async def aclose(self) -> None:
        self.gate.set()
