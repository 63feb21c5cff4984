"""Prices: from the bundled table, for the server that asks them, and never from the network."""

from __future__ import annotations

import subprocess
import sys

import pytest

from beliefrag.models.cost import Price, model_name, price_of
from beliefrag.types import Usage

HOSTED = "openai:gpt-4o-2024-08-06@https://api.openai.com/v1"


def test_tokens_in_and_out_have_their_own_price() -> None:
    price = price_of(HOSTED)
    assert price is not None
    assert (price.tokens_in, price.tokens_out, price.call) == (2.5, 10.0, 0.0)
    assert price.source.startswith("OpenAI gpt-4o in genai-prices ")
    assert price.of(Usage(calls=7, tokens_in=2_000_000, tokens_out=100_000)) == pytest.approx(6.0)
    assert price_of(f"{HOSTED}#01234567") == price


def test_a_server_that_charges_for_calls_is_charged_for_calls() -> None:
    price = price_of("openai:sonar@https://api.perplexity.ai")
    assert price is not None
    assert price.call > 0
    assert price.of(Usage(calls=1000)) == pytest.approx(1000 * price.call)


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
    assert price == Price(0.0, 0.0, source="it runs on this machine")
    assert price is not None
    assert price.is_free


def test_a_name_may_hold_the_sign_that_parts_it_from_its_server() -> None:
    assert model_name("openai:@cf/meta/llama@https://api.example/v1") == "@cf/meta/llama"
    assert model_name("scripted:ab") == "scripted:ab"


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
