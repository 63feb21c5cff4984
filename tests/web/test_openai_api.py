"""The official `openai` client talks to `/v1/chat/completions`, streaming and not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from tests.support.serving import ANSWER, QUERY, QUESTION, REPLY, SURE, UNSURE, Served, opened, served
from tests.web.test_ask_route import DECLINING

ASKED: Any = [{"role": "user", "content": QUESTION}]


def client_of(server: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def client(plain: Served) -> Iterator[openai.OpenAI]:
    with client_of(plain) as client:
        yield client


def details(message: Any) -> dict[str, Any]:
    return cast(dict[str, Any], message.model_extra["beliefrag"])


def test_the_official_client_gets_an_answer_with_its_sources(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="beliefrag", messages=ASKED, temperature=0.7, max_tokens=50)
    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    assert completion.object == "chat.completion" and completion.id.startswith("chatcmpl-")
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0
    more = details(choice.message)
    assert more["outcome"] == "answered" and more["answerability"] > 0.5
    assert {source["id"] for source in more["sources"]} == {"travel", "leave"}
    assert more["ignored"] == ["max_tokens", "temperature"]


def test_the_official_client_gets_a_stream(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = client.chat.completions.create(model="beliefrag", messages=ASKED, stream=True, stream_options=options)
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == ANSWER and pieces[1:] == [" of", " finance"]
    assert chunks[0].choices[0].delta.role == "assistant"
    *_, ending, usage = chunks
    assert ending.choices[0].finish_reason == "stop"
    assert details(ending)["outcome"] == "answered"
    assert usage.choices == [] and usage.usage is not None and usage.usage.total_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


def test_declining_says_so_to_clients_that_know_nothing_of_outcomes(tmp_path: Path) -> None:
    with served(*opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=DECLINING)) as server, client_of(server) as client:
        completion = client.chat.completions.create(model="beliefrag", messages=ASKED)
        chunks = list(client.chat.completions.create(model="beliefrag", messages=ASKED, stream=True))
    message = completion.choices[0].message
    assert message.content is not None and message.content.startswith("I cannot answer")
    assert details(message)["outcome"] == "abstained"
    assert chunks[1].choices[0].delta.content == message.content
    assert details(chunks[-1])["outcome"] == "abstained"


def test_a_failure_raises_in_the_client_and_is_never_a_message(tmp_path: Path) -> None:
    broken = {"purpose": "answer", "error": {"status": 500}, "repeat": True}
    with served(*opened(tmp_path, SURE, broken)) as server, client_of(server) as client:
        with pytest.raises(openai.InternalServerError, match="TransportError") as caught:
            client.chat.completions.create(model="beliefrag", messages=ASKED)
        assert caught.value.status_code == 502
        said = ""
        with pytest.raises(openai.APIError, match="TransportError"):
            for chunk in client.chat.completions.create(model="beliefrag", messages=ASKED, stream=True):
                said += chunk.choices[0].delta.content or ""
        assert said == ""


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Hello."}]}, "messages"),
        ({"messages": user(" ")}, "messages"),
        ({"messages": user(None)}, "messages[0].content"),
        ({"messages": user([{"type": "image_url"}])}, "messages[0].content"),
    ],
)
def test_what_is_not_supported_is_refused_in_openais_own_form(
    plain: Served, request_: dict[str, Any], param: str
) -> None:
    body = {"model": "beliefrag", "messages": ASKED, **request_}
    with plain.client() as client:
        response = client.post("/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["code"] and error["message"]


def test_a_follow_up_is_answered_in_view_of_the_earlier_messages(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "match": "The team lead.", "reply": QUESTION, "repeat": True}
    system: Any = {"role": "system", "content": "Be brief."}
    turns: Any = [system, {"role": "user", "content": "And leave?"}, {"role": "assistant", "content": "The team lead."}]
    follow_up: Any = {"role": "user", "content": "And travel above it?"}
    with served(*opened(tmp_path, SURE, REPLY, rewrite)) as server, client_of(server) as client:
        message = client.chat.completions.create(model="beliefrag", messages=[*turns, follow_up]).choices[0].message
        assert message.content == ANSWER
        assert details(message)["standalone"] == QUESTION and details(message)["ignored"] == ["messages[0]"]
        unclear: Any = [{"role": "user", "content": "How much is it?"}]
        asked = client.chat.completions.create(model="beliefrag", messages=unclear).choices[0].message
        assert asked.content == details(asked)["asks"] and "it" in str(asked.content)


def test_values_that_change_nothing_are_fine(client: openai.OpenAI) -> None:
    harmless: Any = {"n": 1, "logprobs": False, "response_format": {"type": "text"}, "tool_choice": "auto", "user": "u"}
    completion = client.chat.completions.create(model="beliefrag", messages=ASKED, **harmless)
    assert details(completion.choices[0].message)["ignored"] == ["user"]
    limited: Any = {"settings": {"where": "type=pdf"}}
    completion = client.chat.completions.create(model="beliefrag", messages=ASKED, extra_body=limited)
    assert details(completion.choices[0].message)["sources"] == []


def test_the_model_can_be_listed_and_another_is_not_found(tmp_path: Path) -> None:
    with served(*opened(tmp_path), model_name="org/own") as server, client_of(server) as client:
        assert [model.id for model in client.models.list()] == ["org/own"]
        with pytest.raises(openai.NotFoundError, match="Ask for 'org/own'"):
            client.chat.completions.create(model="gpt-4o", messages=ASKED)
