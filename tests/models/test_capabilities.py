"""What a server rejects is learned once: by calls at the same time, and by programs one after the other."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from beliefrag.models.capabilities import Capabilities, keep_learned, read_learned
from beliefrag.models.compose import RetryingModel, RetryPolicy
from beliefrag.models.openai_compatible import OpenAICompatible
from tests.support.chat import ask
from tests.support.http_server import ChatServer, Request, Response, completion, failure

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"top_logprobs": 5},
    {"schema": SCHEMA},
    {"stop": ("</a>",)},
    {"schema": SCHEMA, "top_logprobs": 5},
)
FEWEST_LESSONS = 6
"""JSON schema, JSON object, probabilities, stop texts, the temperature and the name of the limit."""


def picky(request: Request) -> Response:
    """Rejects one field after the other, slowly enough for others to be under way."""
    body, delay = request.body, 0.01
    if "max_tokens" in body:
        return failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    for name in ("temperature", "response_format", "logprobs"):
        if name in body:
            return failure(400, f"Unsupported parameter: '{name}' is not supported with this model.")
    if "stop" in body:
        return failure(400, "Argument not supported: stop")
    return completion("yes", delay=delay)


def warnings(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(each.getMessage() for each in caplog.records if each.name.startswith("beliefrag"))


async def ask_many(server: ChatServer, learned: Path, calls: int) -> int:
    """Make calls of all kinds, 16 at a time from the first on; return how many of them were rejected."""
    server.requests.clear()
    # So many connections at once can be too many for the small server of the tests.
    model = RetryingModel(OpenAICompatible("m", server.url, learned=learned), RetryPolicy(wait_initial=0.1))
    places = asyncio.Semaphore(16)

    async def call(number: int) -> str:
        async with places:
            return (await model.chat(ask(str(number), **KINDS[number % len(KINDS)]))).text

    assert set(await asyncio.gather(*map(call, range(calls)))) == {"yes"}
    await model.aclose()
    return len(server.requests) - calls


async def test_sixteen_calls_at_a_time_learn_each_thing_once_and_say_so_once(
    chat_server: ChatServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chat_server.play(picky)
    learned = tmp_path / "servers.json"
    with caplog.at_level(logging.WARNING):
        assert await ask_many(chat_server, learned, calls=300) == FEWEST_LESSONS
        assert chat_server.most_at_once > 4
        told = warnings(caplog)
        assert all(told.count(words) == 1 for words in ("max_tokens", "temperature", "probabilities", "JSON", "stop"))
        caplog.clear()
        assert await ask_many(chat_server, learned, calls=50) == 0
        assert not warnings(caplog)


def test_what_two_programs_learn_adds_up_and_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "servers.json"
    for known in (Capabilities(format="none", longest=1_024), Capabilities(format="json_object", logprobs=False)):
        keep_learned(path, "openai:m@here", known)
    keep_learned(path, "openai:n@here", Capabilities(temperature=False))
    both = Capabilities(format="none", longest=1_024, logprobs=False)
    assert read_learned(path) == {"openai:m@here": both, "openai:n@here": Capabilities(temperature=False)}
    assert both.describe_losses() == "JSON replies, token probabilities, longer replies"
    keep_learned(path, "openai:m@here", None)
    assert list(read_learned(path)) == ["openai:n@here"]


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"m": {"format": "xml"}}', b"\xff"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "servers.json"
    path.write_bytes(content)
    assert read_learned(path) == {}
    keep_learned(path, "m", Capabilities(stop=False))
    assert read_learned(path) == {"m": Capabilities(stop=False)}
