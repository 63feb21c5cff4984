from __future__ import annotations

import subprocess
import sys

import pytest

from beliefrag.models.compose import Meter
from beliefrag.models.cost import count_tokens, price_of
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.types import Usage
from tests.support.chat import ask


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t", 0),
        ("Paris", 1),
        ("Private Music", 2),
        ("Ringo Starr's label?", 6),
        ("internationalisation", 3),
        ("1997", 4),
        ("snake_case", 3),
        ("髙見山", 3),
        ('{"support": 0.5}', 9),
    ],
)
def test_letters_count_by_sevens_and_everything_else_one_by_one(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


class Priced:
    """A model whose replies have known prices."""

    identity = "priced:1"

    def __init__(self, *replies: ChatReply) -> None:
        self._replies = iter(replies)
        self.closed = False

    async def chat(self, request: ChatRequest) -> ChatReply:
        return next(self._replies)

    async def aclose(self) -> None:
        self.closed = True


async def test_calls_are_added_up_in_total_and_by_purpose() -> None:
    meter = Meter(
        Priced(
            ChatReply("a", 100, 10, 1.5),
            ChatReply("b", 200, 20, 2.0, cached=True),
            ChatReply("c", 5, 1, 0.25, retries=2, wasted_tokens=30),
        )
    )
    for purpose in ("verifier", "verifier", "answer"):
        await meter.chat(ask(purpose=purpose))
    meter.count_search()
    meter.count_search()
    verifier = Usage(calls=2, tokens_in=300, tokens_out=30, seconds=3.5, cached_calls=1)
    answer = Usage(calls=1, tokens_in=5, tokens_out=1, seconds=0.25, retries=2, wasted_tokens=30)
    assert meter.usage == Usage(
        calls=3,
        tokens_in=305,
        tokens_out=31,
        seconds=3.75,
        cached_calls=1,
        retries=2,
        wasted_tokens=30,
        searches=2,
        by_purpose={"verifier": verifier, "answer": answer},
    )
    assert meter.usage.tokens == 336
    before = meter.usage
    meter.count_search()
    assert before.searches == 2


HOSTED = "openai:gpt-4o-2024-08-06@https://api.openai.com/v1"


def test_tokens_in_and_out_have_their_own_price() -> None:
    price = price_of(HOSTED)
    assert price is not None
    assert (price.tokens_in, price.tokens_out, price.call) == (2.5, 10.0, 0.0)
    assert price.source.startswith("OpenAI gpt-4o in genai-prices ")
    assert price.dollars_for(Usage(calls=7, tokens_in=2_000_000, tokens_out=100_000)) == pytest.approx(6.0)
    assert price_of(f"{HOSTED}#01234567") == price


def test_a_server_that_charges_for_calls_is_charged_for_calls() -> None:
    price = price_of("openai:sonar@https://api.perplexity.ai")
    assert price is not None
    assert price.call > 0
    assert price.dollars_for(Usage(calls=1000)) == pytest.approx(1000 * price.call)


@pytest.mark.parametrize(
    "identity",
    [
        "openai:gpt-4o@http://localhost:8000/v1",  # the price of another server's is not this one's
        "openai:no-such-model@https://api.openai.com/v1",
        "openai:whisper-1@https://api.openai.com/v1",  # priced by the hour
        "mine",
    ],
)
def test_what_nobody_knows_is_not_guessed(identity: str) -> None:
    assert price_of(identity) is None


@pytest.mark.parametrize("identity", ["local:qwen2.5-coder-1.5b:cc324af070c2ecbf", "scripted:0123456789abcdef"])
def test_a_model_on_this_machine_costs_nothing(identity: str) -> None:
    price = price_of(identity)
    assert price is not None and price.is_free and "this machine" in price.source


def test_looking_a_price_up_opens_no_connection_and_starts_no_thread() -> None:
    code = f"""
import sys, threading
def refuse(event, details):
    if event.startswith("socket."):
        raise RuntimeError(event)
sys.addaudithook(refuse)
from beliefrag.models.cost import price_of
assert "genai_prices" not in sys.modules, "imported before anybody asks"
assert price_of("local:x") and "genai_prices" not in sys.modules
assert price_of({HOSTED!r}) and "genai_prices" in sys.modules
assert threading.active_count() == 1
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
