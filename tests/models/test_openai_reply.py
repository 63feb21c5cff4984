from __future__ import annotations

from typing import Any

import pytest

from beliefrag.errors import ReplyError
from beliefrag.models.cost import LOCAL_COUNT, count_tokens
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.openai_reply import StoppedThinkingError, read_reply
from beliefrag.models.protocol import ChatReply
from tests.support.chat import ask
from tests.support.http_server import completion


def read(*args: Any, top_logprobs: int = 0, stop: tuple[str, ...] = (), **fields: Any) -> ChatReply:
    body = completion(*args, **fields).body
    return read_reply(body, ask(top_logprobs=top_logprobs, stop=stop), server="it", seconds=1.5, secrets=())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Paris", "Paris"),
        (" Paris\n", " Paris\n"),
        ("<think>\nFrance...\n</think>\n\nParis", "Paris"),
        ("France...\n</think>\nParis", "Paris"),
        ("<think></think>Paris", "Paris"),
        ("Paris <think>or Lyon</think>", "Paris <think>or Lyon</think>"),
        ("<think> I need more <search>Lyon</search>", "<think> I need more <search>Lyon</search>"),
        ('Sure: {"a": 1} there', 'Sure: {"a": 1} there'),
    ],
)
def test_only_thinking_before_the_answer_is_taken_away(content: str, text: str) -> None:
    assert read(content).text == text


def test_thinking_that_comes_apart_is_not_part_of_the_text_but_of_the_cost() -> None:
    reply = read("Paris", message={"reasoning_content": "France has a capital"}, usage=None)
    assert (reply.text, reply.counted_by) == ("Paris", LOCAL_COUNT)
    assert reply.tokens_out == count_tokens("France has a capital Paris")


@pytest.mark.parametrize("tokens", [10**400, 2**63, -1, "many"])
def test_a_count_of_tokens_that_cannot_be_is_not_believed(tokens: object) -> None:
    reply = read("Paris", usage={"prompt_tokens": tokens, "completion_tokens": 1})
    assert reply.counted_by == LOCAL_COUNT


def test_content_in_parts_is_put_together() -> None:
    parts = [{"type": "thinking", "thinking": [{}]}, {"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]
    assert read(None, message={"content": parts}).text == "Paris"


def logprobs(*tokens: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -0.5, "top_logprobs": [], **more} for token in tokens]}


@pytest.mark.parametrize(
    ("content", "message", "tokens", "kept", "stop"),
    [
        ("yes", {}, ["yes"], ["yes"], ()),
        ("yes", {}, ["y", "es", "<|im_end|>"], ["y", "es", "<|im_end|>"], ()),
        ("<think>yes?</think>\nyes", {}, ["<think>", "yes", "?", "</think>", "\n", "yes"], ["yes"], ()),
        ("yes", {"reasoning_content": "yes or no"}, ["yes or no", "</think>", "yes"], ["yes"], ()),
        ("yes", {"reasoning": "yes or no"}, ["yes or no", "</think>\nye", "s"], ["</think>\nye", "s"], ()),
        # They end with the text, too.
        ("é b", {}, ["é", " b", "</", "s>"], ["é", " b"], ("</s>",)),
        ("é b</s> c", {}, ["é", " b</", "s>", " c"], ["é", " b</"], ("</s>",)),
        ("é b", {"reasoning": "é b or c"}, ["é b or c", "</think>", "é", " b", "</s>"], ["é", " b"], ("</s>",)),
    ],
)
def test_probabilities_are_those_of_the_answer_not_of_the_thinking_or_the_stop_text(
    content: str, message: dict[str, Any], tokens: list[str], kept: list[str], stop: tuple[str, ...]
) -> None:
    reply = read(content, message=message, logprobs=logprobs(*tokens), top_logprobs=2, stop=stop)
    assert reply.tokens is not None
    assert [token.token for token in reply.tokens] == kept


def test_probabilities_that_cannot_be_told_apart_from_the_thinking_are_left_out() -> None:
    assert read("yes", message={"reasoning": "hm"}, logprobs=logprobs("no"), top_logprobs=2).tokens is None


def test_tokens_that_are_parts_of_a_character_are_put_together_by_their_bytes() -> None:
    content = [
        {"token": "hm", "logprob": -1, "bytes": [104, 109]},
        {"token": "\\xc3", "logprob": -1, "bytes": [0xC3]},
        {"token": "\\xa9", "logprob": -1, "bytes": [0xA9]},
    ]
    reply = read("é", message={"reasoning": "hm"}, logprobs={"content": content}, top_logprobs=2)
    assert reply.tokens is not None
    assert [token.token for token in reply.tokens] == ["\\xc3", "\\xa9"]
    assert read("é", logprobs=logprobs("é", bytes=[999]), top_logprobs=2).tokens is None


def test_a_probability_that_is_not_a_number_becomes_the_least_there_is() -> None:
    reply = read("yes", logprobs={"content": [{"token": "yes", "logprob": float("nan")}]}, top_logprobs=1)
    assert reply.tokens is not None
    assert reply.tokens[0].logprob == -9999.0


@pytest.mark.parametrize(
    "content", ["Paris", "Paris|", "Paris| or Lyon", "Paris; or| Lyon", "<think>a|b</think>Paris|"]
)
def test_a_reply_ends_at_its_stop_text_whether_or_not_the_server_saw_to_that(content: str) -> None:
    reply = read(content, stop=("|", ";"))
    assert reply.text == "Paris"
    assert reply.tokens_out == 3, "what the server wrote after it was paid for"


def test_a_reply_that_was_cut_here_is_whole_though_the_server_ran_on_to_its_limit() -> None:
    assert not read("Paris| or Ly", finish="length", stop=("|",)).truncated
    assert read("Paris or Ly", finish="length", stop=("|",)).truncated


def test_a_stop_text_in_the_thinking_is_told_apart_from_other_empty_replies() -> None:
    thinking = {"reasoning_content": "I could write <a>"}
    with pytest.raises(StoppedThinkingError, match="within the model's thinking") as caught:
        read(None, message=thinking, stop=("</a>",))
    assert caught.value.wasted_tokens == 14
    for others in ({"message": thinking}, {"stop": ("</a>",)}):
        with pytest.raises(EmptyReplyError, match="empty message"):
            read(None, **others)
    with pytest.raises(ReplyError, match="refused: I will not"):
        read(None, message={**thinking, "refusal": "I will not"}, stop=("</a>",))
