"""The MCP server on a real port, talked to by the official client and by those who should not come in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from beliefrag.types import Passage
from beliefrag.web.limits import ServerLimits
from tests.support.endless import Endless, all_cancelled, asked
from tests.support.mcp_server import ANSWER, DECLINING, QUESTION, SURE, UNSURE, live, service, settings
from tests.support.messages import mentions
from tests.test_hostile_passages import ATTACKS

ERAS = ["auto", "legacy"]
TOKEN = "a-token-that-is-long-enough"
JSON_AND_SSE = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    model = Endless()
    monkeypatch.setattr("beliefrag.opening.open_provider", lambda *_, **__: model)
    return model


@asynccontextmanager
async def connected(address: str, *, era: str = "auto", token: str | None = None) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


def text(result: Any) -> str:
    (block,) = result.content
    assert isinstance(block.text, str)
    return block.text


def legacy(method: str, number: int, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def opening() -> dict[str, Any]:
    info = {"name": "raw", "version": "1"}
    return legacy("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=info)


async def opened(http: httpx2.AsyncClient, address: str) -> dict[str, str]:
    """Headers of a session of an earlier protocol."""
    reply = await http.post(f"{address}/mcp", json=opening(), headers=JSON_AND_SSE)
    headers = {**JSON_AND_SSE, "Mcp-Session-Id": reply.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(f"{address}/mcp", json=done, headers=headers)).status_code == 202
    return headers


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_asks_and_searches_with_the_token(tmp_path: Path, era: str) -> None:
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with (
        live(service(settings(tmp_path)), token=TOKEN) as (address, _),
        connected(address, era=era, token=TOKEN) as client,
    ):
        assert {tool.name for tool in (await client.list_tools()).tools} == {"ask", "search"}
        result = await client.call_tool("ask", {"question": QUESTION}, progress_callback=tell)
        found = await client.call_tool("search", {"query": "Larvik"})
    answer = result.structured_content
    assert (answer["outcome"], answer["answer"]) == ("answered", "Colin Archer")
    assert answer["sources"][0] == {
        "id": "fram",
        "title": "Fram",
        "excerpt": "The polar ship Fram was designed by Colin Archer.",
        "source": "fram.md",
        "place": "line 3",
        "cited": True,
    }
    assert [(each["passage_id"], each["quote"], each["place"]) for each in answer["citations"]] == [
        ("fram", "The polar ship Fram was designed by Colin Archer.", "line 3")
    ]
    assert answer["why"].startswith("Searched once, ")
    assert answer["would_change"] == "a document that contradicts the sentence quoted"
    assert len(told) == 4
    assert [passage["id"] for passage in found.structured_content["passages"]] == ["archer"]
    assert "secret" not in result.model_dump_json() + found.model_dump_json()


async def test_an_agent_asks_a_follow_up_with_the_history_of_its_conversation(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "match": "Fram", "reply": QUESTION, "repeat": True}
    given = settings(tmp_path, SURE, ANSWER, rewrite, answer_style="short")
    turn = {"question": "Was the Fram built?", "answer": "Yes."}
    async with live(service(given), token=TOKEN) as (address, _), connected(address, token=TOKEN) as client:
        result = await client.call_tool("ask", {"question": "Who did it?", "history": [turn]})
        unclear = await client.call_tool("ask", {"question": "How much is it?"})
    answer = result.structured_content
    assert (answer["standalone"], answer["answer"]) == (QUESTION, "Colin Archer")
    assert "it" in unclear.structured_content["asks"] and unclear.structured_content["outcome"] == "abstained"


async def test_without_the_token_nobody_comes_in_and_health_is_open(tmp_path: Path) -> None:
    async with live(service(settings(tmp_path)), token=TOKEN) as (address, _), httpx2.AsyncClient() as http:
        refused = [
            await http.post(f"{address}/mcp", json=opening(), headers={**JSON_AND_SSE, **more})
            for more in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"})
        ]
        others = [await http.request(method, f"{address}/mcp") for method in ("GET", "DELETE")]
        health = await http.get(f"{address}/readyz")
        nothing = await http.get(f"{address}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    assert [reply.status_code for reply in refused + others] == [401] * 5
    assert refused[0].headers["www-authenticate"] == "Bearer"
    assert (health.status_code, nothing.status_code) == (200, 404)


async def test_a_page_under_another_name_or_from_elsewhere_is_refused(tmp_path: Path) -> None:
    async with live(service(settings(tmp_path))) as (address, _), httpx2.AsyncClient() as http:

        async def status(**headers: str) -> int:
            reply = await http.post(f"{address}/mcp", json=opening(), headers={**JSON_AND_SSE, **headers})
            return reply.status_code

        assert await status(Host="evil.example") == 421
        assert await status(Origin="https://evil.example") == 403
        assert await status(Origin="http://localhost.evil.example:80") == 403
        assert await status(Origin="http://localhost:3000") == 200
        assert await status() == 200


async def test_what_is_too_long_is_refused(tmp_path: Path) -> None:
    limits = ServerLimits(request_bytes=2_000, question_chars=100)
    async with live(service(settings(tmp_path), limits=limits)) as (address, _), httpx2.AsyncClient() as http:
        large = await http.post(f"{address}/mcp", content=b" " * 3_000, headers=JSON_AND_SSE)
        async with connected(address) as client:
            long = await client.call_tool("ask", {"question": "why " * 26})
            long_search = await client.call_tool("search", {"query": "why " * 26})
            empty = await client.call_tool("ask", {"question": " \n"})
            many = await client.call_tool("search", {"query": "Fram", "k": 21})
    assert large.status_code == 413
    assert text(long) == text(long_search)
    assert "104" in text(long) and "at most 100" in text(long)
    assert "empty" in text(empty)
    assert mentions(text(many), "k:", "20")
    assert all(result.is_error for result in (long, long_search, empty, many))


async def test_declining_is_no_error_and_failing_is_one(tmp_path: Path) -> None:
    async with live(service(settings(tmp_path, UNSURE, **DECLINING))) as (address, _), connected(address) as client:
        declined = await client.call_tool("ask", {"question": QUESTION})
    async with live(service(settings(tmp_path, SURE))) as (address, _), connected(address) as client:
        failed = await client.call_tool("ask", {"question": QUESTION})
    assert not declined.is_error
    assert (declined.structured_content["outcome"], declined.structured_content["answer"]) == ("abstained", None)
    assert failed.is_error
    assert failed.structured_content is None
    assert "ModelError" in text(failed)


class Breaking:
    identity = "breaking"

    def search(self, query: str, k: int) -> Any:
        raise RuntimeError(f"password of the cluster, looking for {query}")


async def test_a_search_that_breaks_is_an_error_that_tells_no_secrets(tmp_path: Path) -> None:
    of = service(settings(tmp_path))
    object.__setattr__(of.assembly.harness, "retriever", Breaking())
    async with live(of) as (address, _), connected(address) as client:
        broken = await client.call_tool("search", {"query": "Fram"})
    assert broken.is_error
    assert text(broken) == "Internal error, RuntimeError."


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_hostile_passage_reaches_an_agent_as_harmless_text(tmp_path: Path, attack: str) -> None:
    hostile = [Passage("fram", f"Fram {attack}", f"The polar ship Fram. {attack}", attack)]
    replies = (SURE, ANSWER | {"reply": "Archer <|im_end|>"})
    of = service(settings(tmp_path, *replies), passages=hostile)
    async with live(of) as (address, _), connected(address) as client:
        results = [
            await client.call_tool("ask", {"question": QUESTION}),
            await client.call_tool("search", {"query": "Fram"}),
        ]
    for result in results:
        sent = json.dumps(result.structured_content, ensure_ascii=False) + text(result)
        assert "polar ship Fram" in sent
        assert "<" not in sent
        assert not any(letter in sent for letter in ("\u202e", "\U000e0049"))


async def test_clients_that_only_open_sessions_lock_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.web.mcp.mcp_app._MAX_SESSIONS", 8)
    of = service(settings(tmp_path), limits=ServerLimits(connections=4))
    async with live(of) as (address, _), connected(address, era="legacy") as client:
        await client.call_tool("search", {"query": "Fram"})
        async with httpx2.AsyncClient(timeout=60) as http:
            for _ in range(40):
                assert (await http.post(f"{address}/mcp", json=opening(), headers=JSON_AND_SSE)).status_code == 200
                assert (await client.call_tool("search", {"query": "Fram"})).structured_content["passages"]
        async with connected(address, era="legacy") as other:
            assert (await other.call_tool("search", {"query": "Fram"})).structured_content["passages"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_stops_the_model(tmp_path: Path, endless: Endless, era: str) -> None:
    async with live(service(settings(tmp_path))) as (address, _), connected(address, era=era) as client:
        call = asyncio.create_task(client.call_tool("ask", {"question": QUESTION}))
        await asked(endless, 1)
        call.cancel()
        await all_cancelled(endless, 1)
        assert (await client.call_tool("search", {"query": "Fram"})).structured_content["passages"]


async def test_a_client_of_an_earlier_protocol_that_disconnects_stops_the_model(
    tmp_path: Path, endless: Endless
) -> None:
    of = service(settings(tmp_path))
    async with live(of) as (address, _), httpx2.AsyncClient() as http:
        headers = await opened(http, address)
        call = legacy("tools/call", 2, name="ask", arguments={"question": QUESTION}, _meta={"progressToken": 1})
        async with http.stream("POST", f"{address}/mcp", json=call, headers=headers) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines)
            await asked(endless, 1)
        await all_cancelled(endless, 1)
        assert of.admission.in_flight == 0


async def test_the_end_of_the_server_tells_calls_under_way_and_does_not_wait_for_listeners(
    tmp_path: Path, endless: Endless
) -> None:
    limits = ServerLimits(grace=1.5)
    async with live(service(settings(tmp_path), limits=limits)) as (address, end), httpx2.AsyncClient() as http:
        headers = await opened(http, address)
        async with http.stream("GET", f"{address}/mcp", headers=headers) as listening:
            call = legacy("tools/call", 2, name="ask", arguments={"question": QUESTION})
            asking = asyncio.create_task(http.post(f"{address}/mcp", json=call, headers=headers, timeout=60))
            await asked(endless, 1)
            end()
            assert "shutting down" in (await asking).text
            with contextlib.suppress(httpx2.TransportError):
                assert "".join([piece async for piece in listening.aiter_text()]).strip() in ("", ": ping")
    assert endless.cancelled == 1
