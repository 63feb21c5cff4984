from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from beliefrag.errors import ModelError, ReplyError, SettingsError, TransportError
from beliefrag.models.compose import RetryingModel, RetryPolicy
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.models.scripted import Scripted
from tests.support.chat import Gated, ask, script
from tests.support.http_server import ChatServer, Response, completion, failure

AT_ONCE = RetryPolicy(attempts=4, wait_initial=0, wait_max=0, wait_jitter=0)
PROMPT_TOKENS = 12


def line(reply: str | None = None, status: int | None = None, **error: Any) -> dict[str, Any]:
    if status is None:
        return {"purpose": "answer", "reply": reply}
    return {"purpose": "answer", "error": {"status": status, **error}}


def retrying(folder: Path, *lines: dict[str, Any], policy: RetryPolicy = AT_ONCE) -> RetryingModel:
    return RetryingModel(Scripted(script(folder, *lines)), policy)


async def test_a_good_reply_passes_untouched(tmp_path: Path) -> None:
    reply = await retrying(tmp_path, line("Paris")).chat(ask())
    assert (reply.text, reply.retries, reply.wasted_tokens) == ("Paris", 0, 0)


async def test_a_busy_server_is_asked_again_and_the_reply_says_how_often(tmp_path: Path) -> None:
    model = retrying(tmp_path, line(status=429), line(status=503), line("Paris"))
    reply = await model.chat(ask("Where?"))
    assert (reply.text, reply.retries, reply.wasted_tokens) == ("Paris", 2, 0)
    assert (reply.tokens_in, reply.tokens_out) == (PROMPT_TOKENS, 1)


async def test_an_empty_generation_is_asked_again_once_and_its_tokens_are_wasted(tmp_path: Path) -> None:
    reply = await retrying(tmp_path, line(""), line("Paris")).chat(ask("Where?"))
    assert (reply.text, reply.retries, reply.wasted_tokens) == ("Paris", 1, PROMPT_TOKENS)
    assert (reply.tokens_in, reply.tokens_out) == (PROMPT_TOKENS, 1)


async def test_a_second_empty_generation_is_an_error_with_all_that_was_wasted(tmp_path: Path) -> None:
    model = retrying(tmp_path, line(""), line(status=500), line(""), line("too late"))
    with pytest.raises(EmptyReplyError) as caught:
        await model.chat(ask("Where?"))
    assert (caught.value.retries, caught.value.wasted_tokens) == (2, 2 * PROMPT_TOKENS)


async def test_a_provider_that_returns_an_empty_text_is_treated_the_same() -> None:
    class Mute:
        identity = "mute"
        asked = 0

        async def chat(self, request: ChatRequest) -> ChatReply:
            self.asked += 1
            return ChatReply(" \n", tokens_in=5, tokens_out=1, seconds=0.0)

        async def aclose(self) -> None: ...

    mute = Mute()
    with pytest.raises(EmptyReplyError) as caught:
        await RetryingModel(mute, AT_ONCE).chat(ask())
    assert (mute.asked, caught.value.wasted_tokens) == (2, 12)


async def test_after_the_last_attempt_the_error_says_how_often_it_was_asked(tmp_path: Path) -> None:
    model = retrying(tmp_path, *[line(status=500)] * 4, line("too late"))
    with pytest.raises(TransportError, match=r"HTTP 500\) \(called 4 times\)") as caught:
        await model.chat(ask())
    assert caught.value.status == 500


@pytest.mark.parametrize("status", [400, 401, 404, 501])
async def test_what_asking_again_cannot_help_is_not_asked_again(tmp_path: Path, status: int) -> None:
    model = retrying(tmp_path, line(status=status), line("never"))
    with pytest.raises(TransportError) as caught:
        await model.chat(ask())
    assert caught.value.status == status
    assert "asked" not in caught.value.message
    assert (await model.chat(ask())).text == "never"


async def test_a_script_without_a_line_is_not_asked_again(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no line left"):
        await retrying(tmp_path, line("x")).chat(ask(purpose="judge"))


async def test_a_refusal_is_not_asked_again(chat_server: ChatServer) -> None:
    chat_server.play(completion(None, message={"refusal": "no"}))
    model = RetryingModel(OpenAICompatible("m", chat_server.url), AT_ONCE)
    with pytest.raises(ReplyError, match="refused"):
        await model.chat(ask())
    await model.aclose()
    assert len(chat_server.requests) == 1


async def test_the_wait_that_the_server_asks_for_is_kept(tmp_path: Path) -> None:
    model = retrying(tmp_path, line(status=429, retry_after=0.2), line("Paris"))
    started = time.monotonic()
    assert (await model.chat(ask())).retries == 1
    assert 0.2 <= time.monotonic() - started < 2


async def test_a_wait_longer_than_our_patience_is_refused_at_once(tmp_path: Path) -> None:
    policy = RetryPolicy(seconds=10, wait_initial=0, wait_max=0, wait_jitter=0)
    model = retrying(tmp_path, line(status=429, retry_after=11), line("never"), policy=policy)
    started = time.monotonic()
    with pytest.raises(TransportError, match=r"\bwait 11 s\b"):
        await model.chat(ask())
    assert time.monotonic() - started < 1


async def test_patience_ends_although_attempts_are_left(tmp_path: Path) -> None:
    policy = RetryPolicy(attempts=1000, seconds=0.15, wait_initial=0.05, wait_max=0.05, wait_jitter=0)
    model = retrying(tmp_path, line(status=500) | {"repeat": True}, policy=policy)
    with pytest.raises(TransportError, match=r"called [2-5] times"):
        await model.chat(ask())


async def test_patience_does_not_run_while_a_call_waits_for_its_first_turn() -> None:
    gated = Gated()
    gated.failing = TransportError("busy", retryable=True)
    call = asyncio.create_task(
        RetryingModel(gated, RetryPolicy(2, seconds=0.05, wait_initial=0, wait_jitter=0)).chat(ask())
    )
    await asyncio.sleep(0.1)
    gated.gate.set()
    with pytest.raises(TransportError):
        await call
    assert gated.asked == 2


async def test_cancelling_during_a_wait_ends_it_at_once(tmp_path: Path) -> None:
    policy = RetryPolicy(wait_initial=30, wait_max=30, wait_jitter=0)
    model = retrying(tmp_path, line(status=500), line("never"), policy=policy)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.chat(ask()), timeout=0.05)
    assert time.monotonic() - started < 1


async def test_cancelling_during_a_call_is_not_taken_for_a_failure() -> None:
    gated = Gated()
    call = asyncio.create_task(RetryingModel(gated, AT_ONCE).chat(ask()))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert call.cancelled()
    assert (gated.asked, gated.inside) == (1, 0)


@pytest.mark.parametrize(
    "first",
    [
        failure(429, "Slow down", retry_after="0.01"),
        failure(500, "oops"),
        Response(close=True),
        completion(cut=10),
        completion(""),
        Response(b'{"choices": [{"mess'),
    ],
)
async def test_one_fault_of_a_real_server_is_got_over(chat_server: ChatServer, first: Response) -> None:
    chat_server.play(first, completion("Paris"))
    model = RetryingModel(OpenAICompatible("m", chat_server.url), AT_ONCE)
    reply = await model.chat(ask())
    await model.aclose()
    assert (reply.text, reply.retries, len(chat_server.requests)) == ("Paris", 1, 2)
    assert (reply.tokens_in, reply.tokens_out) == (11, 3)


async def test_nothing_is_printed_to_a_terminal_without_logging_set_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        await retrying(tmp_path, line(status=500), line("Paris")).chat(ask())
    finally:
        root.handlers = handlers
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("fields", [{"attempts": 0}, {"seconds": -1}, {"wait_max": -0.1}])
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        RetryPolicy(**fields)
