from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest

from beliefrag.errors import ModelError, SettingsError, TransportError
from beliefrag.models.cost import count_tokens
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, TokenProbability
from beliefrag.models.scripted import Scripted
from tests.support.chat import ask, script


async def replies(model: Scripted, *texts: str, purpose: str = "answer") -> list[str]:
    return [(await model.chat(ask(text, purpose=purpose))).text for text in texts]


async def test_lines_of_a_purpose_answer_in_order_and_once(tmp_path: Path) -> None:
    model = Scripted(
        script(
            tmp_path,
            {"purpose": "answer", "reply": "one"},
            {"purpose": "verifier", "reply": "other"},
            {"purpose": "answer", "reply": "two"},
        )
    )
    assert isinstance(model, ChatModel)
    assert await replies(model, "q", "q") == ["one", "two"]
    with pytest.raises(ModelError, match="no line left"):
        await model.chat(ask("q"))


async def test_a_line_answers_only_where_all_its_texts_occur(tmp_path: Path) -> None:
    model = Scripted(
        script(
            tmp_path,
            {"purpose": "answer", "match": ["France", "capital"], "reply": "Paris"},
            {"purpose": "answer", "match": "France", "reply": "Macron"},
            {"purpose": "answer", "reply": "anything"},
        )
    )
    asked = ("President of France?", "Who?", "The capital of France?")
    assert await replies(model, *asked) == ["Macron", "anything", "Paris"]


async def test_one_distribution_gives_the_probabilities_of_a_one_token_reply(tmp_path: Path) -> None:
    line = {"purpose": "verifier", "reply": "no", "logprobs": {"no": 0.25, "yes": 0.7, "No": 0.05}, "repeat": True}
    model = Scripted(script(tmp_path, line))
    reply = await model.chat(ask(purpose="verifier", top_logprobs=2))
    top = (("yes", math.log(0.7)), ("no", math.log(0.25)))
    assert reply.tokens == (TokenProbability("no", math.log(0.25), top),)
    assert (await model.chat(ask(purpose="verifier"))).tokens is None


async def test_a_list_of_tokens_gives_the_probabilities_of_a_longer_reply(tmp_path: Path) -> None:
    tokens = [{"token": "New", "p": 0.8, "top": {"New": 0.8, "Old": 0.1}}, {"token": " York", "p": 0.9}]
    model = Scripted(script(tmp_path, {"purpose": "answer", "reply": "New York", "logprobs": tokens}))
    reply = await model.chat(ask(top_logprobs=5))
    assert reply.tokens == (
        TokenProbability("New", math.log(0.8), (("New", math.log(0.8)), ("Old", math.log(0.1)))),
        TokenProbability(" York", math.log(0.9), ()),
    )


async def test_an_error_is_the_one_a_server_would_have_caused(tmp_path: Path) -> None:
    line = {"purpose": "answer", "error": {"status": 429, "message": "slow down", "retry_after": 2}}
    model = Scripted(script(tmp_path, line, {"purpose": "answer", "error": {"status": 401}}))
    with pytest.raises(TransportError, match="slow down") as caught:
        await model.chat(ask())
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 2)
    with pytest.raises(TransportError, match="HTTP 401") as caught:
        await model.chat(ask())
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"reply": "x"}', "purpose"),
        ('{"purpose": "answer"}', 'either "reply" or "error"'),
        ('{"purpose": "answer", "reply": "x", "error": {"status": 429}}', 'either "reply" or "error"'),
        ('{"purpose": "answer", "reply": "x", "mach": "y"}', "mach"),
        ('{"purpose": "answer", "reply": "x", "match": 3}', "match"),
        ('{"purpose": "answer", "reply": "x", "repeat": "often"}', "repeat"),
        ('{"purpose": "answer", "error": {"status": 200}}', "error.status"),
        ('{"purpose": "answer", "reply": "yes", "logprobs": {"no": 0.5}}', "reply 'yes'"),
        ('{"purpose": "answer", "reply": "yes", "logprobs": {"yes": 0.9, "no": 0.2}}', "more than 1"),
        ('{"purpose": "answer", "reply": "yes", "logprobs": {"yes": 0}}', "logprobs"),
        ('{"purpose": "answer", "reply": "yes", "logprobs": [{"token": "ye", "p": 1}]}', "do not spell"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_its_number(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"purpose": "answer", "reply": "fine"}\n\n' + line + "\n")
    with pytest.raises(SettingsError) as caught:
        Scripted(path)
    assert f"{path}, line 3: " in caught.value.message
    assert problem in caught.value.message
    assert "\n" not in str(caught.value)


def test_the_identity_is_a_hash_of_the_file(tmp_path: Path) -> None:
    path = script(tmp_path, {"purpose": "answer", "reply": "x"})
    first = Scripted(path).identity
    assert first == "scripted:" + hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    path.write_text(path.read_text() + "\n")
    assert Scripted(path).identity != first


async def test_a_reply_ends_before_the_first_stop_text_and_costs_no_more(tmp_path: Path) -> None:
    tokens = [{"token": token, "p": 0.5} for token in ("<a>", "Paris", "</", "a> made up")]
    line = {"purpose": "answer", "reply": "<a>Paris</a> made up", "logprobs": tokens, "repeat": True}
    model = Scripted(script(tmp_path, line))
    reply = await model.chat(ask(stop=("</b>", "</a>"), top_logprobs=1))
    assert reply.text == "<a>Paris"
    assert reply.tokens_out == count_tokens("<a>Paris")
    assert reply.tokens is not None
    assert [token.token for token in reply.tokens] == ["<a>", "Paris"]
    assert (await model.chat(ask(stop=("Rome",)))).text == line["reply"]
    with pytest.raises(EmptyReplyError):
        await model.chat(ask(stop=("<a>",)))
