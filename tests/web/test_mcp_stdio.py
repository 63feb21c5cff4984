"""The command itself, started as agents start it, talked to by the official client, in both generations of MCP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.cli.shell import write_docs
from tests.support.episodes import script
from tests.support.http_server import ChatServer, completion
from tests.support.mcp_server import ANSWER, QUESTION, SURE, command
from tests.support.messages import mentions

ERAS = ["auto", "legacy"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_docs(tmp_path)
    script(tmp_path, SURE, ANSWER)
    return tmp_path


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_asks_and_searches(folder: Path, era: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with Client(command(folder), mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        asked = await client.call_tool("ask", {"question": QUESTION}, progress_callback=tell)
        found = await client.call_tool("search", {"query": "Where was Archer born?", "k": 1})
        wrong = await client.call_tool("ask", {"question": QUESTION, "temperature": 1})
        with pytest.raises(MCPError, match="does not exist"):
            await client.call_tool("delete", {})
    assert set(tools) == {"ask", "search"}
    assert tools["ask"].input_schema["required"] == ["question"]
    assert tools["ask"].input_schema["properties"]["question"]["maxLength"] == 4000
    assert set((tools["ask"].output_schema or {})["required"]) >= {"outcome", "answer", "answerability", "sources"}
    assert not asked.is_error
    answer = asked.structured_content
    assert (answer["outcome"], answer["answer"]) == ("answered", "Colin Archer")
    assert json.loads(asked.content[0].text) == answer  # type: ignore[union-attr]
    assert [number for number, _ in told] == [1, 2, 3, 4]
    assert [message.partition(":")[0] for _, message in told if message] == [
        "search",
        "asking the model (verifier)",
        "asking the model (answer)",
        "answer",
    ]
    (passage,) = found.structured_content["passages"]
    assert passage["source"] == "archer.md"
    assert passage["score"] > 0
    assert "Larvik" in passage["excerpt"]
    assert wrong.is_error
    assert mentions(wrong.content[0].text, "temperature:", "not permitted")  # type: ignore[union-attr]


def line(method: str, number: int | None = None, **params: Any) -> str:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if number is None else {**message, "id": number}) + "\n"


OPENING = line(
    "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "raw", "version": "1"}
) + line("notifications/initialized")


@contextlib.contextmanager
def start(folder: Path, *arguments: str, model: str | None = None) -> Iterator[subprocess.Popen[str]]:
    how = command(folder, *arguments, model=model)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [how.command, *how.args], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=how.env, cwd=folder
    ) as server:
        # A server that says nothing would let a test wait for ever.
        watchdog = threading.Timer(120, server.kill)
        watchdog.start()
        try:
            yield server
        finally:
            watchdog.cancel()
            server.kill()


def test_standard_output_holds_the_protocol_alone_and_the_log_no_text(folder: Path) -> None:
    asking = "no json\n" + OPENING + line("tools/call", 2, name="ask", arguments={"question": QUESTION})
    with start(folder) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(asking)
        server.stdin.flush()
        # The pipe is held open until the reply is there: closing it would cancel the call.
        replies = [json.loads(server.stdout.readline()) for _ in range(2)]
        out, err = server.communicate(timeout=90)
    assert out == ""
    assert [(reply["jsonrpc"], reply["id"]) for reply in replies] == [("2.0", 1), ("2.0", 2)]
    log = [json.loads(entry) for entry in err.splitlines()]
    (call,) = [entry for entry in log if entry["event"] == "call"]
    assert (call["tool"], call["outcome"], call["calls"]) == ("ask", "answered", 2)
    assert "Fram" not in err
    assert "Archer" not in err
    assert server.returncode == 0


def slow(chat_server: ChatServer) -> Mapping[str, str]:
    """Return a model server that is still sending its first reply when a test is long over."""
    chat_server.play(completion("x" * 5000, drip=0.02))
    return {"model": "slow"}


async def until(chat_server: ChatServer, requests: int, still_open: int) -> None:
    async with asyncio.timeout(90):
        while (len(chat_server.requests), chat_server.open) != (requests, still_open):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_client_that_closes_the_pipe_stops_the_model_and_ends_the_server(
    folder: Path, chat_server: ChatServer
) -> None:
    with start(folder, "--base-url", chat_server.url, **slow(chat_server)) as server:
        assert server.stdin is not None
        server.stdin.write(OPENING + line("tools/call", 2, name="ask", arguments={"question": QUESTION}))
        server.stdin.flush()
        await until(chat_server, 1, 1)
        server.stdin.close()
        await until(chat_server, 1, 0)
        assert server.wait(timeout=90) == 0
        server.stdin = None


def test_a_client_that_dies_ends_the_server_without_a_complaint(folder: Path) -> None:
    with start(folder) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        server.stdin.write(OPENING)
        server.stdin.close()
        assert server.wait(timeout=90) == 0
        assert server.stderr.read() == ""
        server.stdin = None


@pytest.mark.parametrize(("number", "code", "debug"), [(signal.SIGTERM, 143, []), (signal.SIGINT, 130, ["--debug"])])
def test_a_signal_ends_the_server_and_only_the_protocol_is_on_standard_output(
    folder: Path, number: signal.Signals, code: int, debug: list[str]
) -> None:
    with start(folder, *debug) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(OPENING)
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "beliefrag"
        server.send_signal(number)
        out, err = server.communicate(timeout=90)
        assert (out, server.returncode) == ("", code)
        assert ('"debug"' in err) == bool(debug)
