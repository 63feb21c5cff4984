from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from beliefrag.errors import ModelError
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.cost import Meter
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.models.with_retries import RetryingModel, RetryPolicy
from beliefrag.models.scripted import Scripted
from beliefrag.types import Usage
from tests.support.chat import Gated, ask, script


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
    meter.searched()
    meter.searched()
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


async def test_a_snapshot_does_not_change_with_later_calls_and_can_be_written_down() -> None:
    meter = Meter(Priced(ChatReply("a", 1, 1, 0.0), ChatReply("b", 1, 1, 0.0)))
    await meter.chat(ask())
    before = meter.usage
    await meter.chat(ask())
    meter.searched()
    assert (before.calls, before.searches, before.by_purpose["answer"].calls) == (1, 0, 1)
    assert json.loads(json.dumps(dataclasses.asdict(before)))["by_purpose"]["answer"]["tokens_in"] == 1


async def test_a_call_that_only_gave_empty_messages_counts_for_what_it_wasted(tmp_path: Path) -> None:
    lines = [{"purpose": "answer", "reply": ""}] * 2
    meter = Meter(RetryingModel(Scripted(script(tmp_path, *lines)), RetryPolicy(wait_initial=0, wait_jitter=0)))
    with pytest.raises(EmptyReplyError):
        await meter.chat(ask("Where?"))
    assert meter.usage.by_purpose == {"answer": Usage(retries=1, wasted_tokens=24)}


async def test_a_call_that_failed_is_not_counted_as_one(tmp_path: Path) -> None:
    meter = Meter(Scripted(script(tmp_path, {"purpose": "answer", "reply": "x"})))
    with pytest.raises(ModelError):
        await meter.chat(ask(purpose="judge"))
    assert meter.usage == Usage()


async def test_closing_a_meter_leaves_the_shared_model_open() -> None:
    model = Priced()
    await Meter(model).aclose()
    assert not model.closed


def test_a_meter_has_the_identity_of_what_it_measures() -> None:
    assert Meter(Gated()).identity == "gated:1"
