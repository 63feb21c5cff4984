"""The official `openai` client talks to `/v1/responses`, streaming and not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.serving import ANSWER, QUERY, QUESTION, REPLY, SURE, UNSURE, Served, opened, served
from tests.web.test_ask_route import DECLINING
from tests.web.test_chat_route import client_of


@pytest.fixture(scope="module")
def client(plain: Served) -> Iterator[openai.OpenAI]:
    with client_of(plain) as client:
        yield client


def details(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = response.model_extra["beliefrag"]
    return found


def citations(response: Any) -> list[Any]:
    found: list[Any] = response.output[0].content[0].annotations
    return found


def test_the_official_client_gets_an_answer_with_its_sources(client: openai.OpenAI) -> None:
    response = client.responses.create(model="beliefrag", input=QUESTION, instructions="Be brief.", temperature=0.7)
    Response.model_validate(response.model_dump(), strict=False)
    assert (response.output_text, response.status, response.error) == (ANSWER, "completed", None)
    assert response.id.startswith("resp_") and str(response.output[0].id).startswith("msg_")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    cited = citations(response)
    assert {each.file_id for each in cited} == {"travel"}
    assert {each.filename for each in cited} == {"travel.md"}
    assert details(response)["outcome"] == "answered" and details(response)["answerability"] > 0.5
    assert details(response)["ignored"] == ["instructions", "temperature"]


def test_messages_are_taken_as_input_and_only_the_last_is_answered(client: openai.OpenAI) -> None:
    asked: Any = [
        {"role": "developer", "content": "Answer in French."},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
    ]
    response = client.responses.create(model="beliefrag", input=asked)
    assert response.output_text == ANSWER
    assert details(response)["ignored"] == ["input[0]"]


def test_the_official_client_gets_a_stream_of_the_events_that_it_knows(client: openai.OpenAI) -> None:
    stream = list(client.responses.create(model="beliefrag", input=QUESTION, stream=True))
    assert [event.type for event in stream] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in stream] == list(range(9))
    assert "".join(event.delta for event in stream if event.type == "response.output_text.delta") == ANSWER
    last = stream[-1].response  # type: ignore[union-attr]
    assert (last.output_text, last.status, details(last)["outcome"]) == (ANSWER, "completed", "answered")


def test_the_client_can_gather_a_stream_into_a_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="beliefrag", input=QUESTION) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == ANSWER


def test_declining_says_so_in_words(tmp_path: Path) -> None:
    with served(*opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=DECLINING)) as server, client_of(server) as client:
        response = client.responses.create(model="beliefrag", input=QUESTION)
    assert response.output_text.startswith("I cannot answer")
    assert details(response)["outcome"] == "abstained"
    assert citations(response) == []


def test_a_failure_is_an_error_and_in_a_stream_a_failed_response(tmp_path: Path) -> None:
    broken = {"purpose": "answer", "error": {"status": 500}, "repeat": True}
    with served(*opened(tmp_path, SURE, broken)) as server, client_of(server) as client:
        with pytest.raises(openai.InternalServerError, match="TransportError") as caught:
            client.responses.create(model="beliefrag", input=QUESTION)
        *_, last = client.responses.create(model="beliefrag", input=QUESTION, stream=True)
    assert caught.value.status_code == 502
    assert last.type == "response.failed"
    assert last.response.status == "failed" and last.response.output_text == ""
    assert last.response.error is not None and "TransportError" in last.response.error.message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text"),
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"top_logprobs": 2}, "top_logprobs"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(client: openai.OpenAI, body: Any, field: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="beliefrag", input=QUESTION, extra_body=body)
    assert caught.value.param == field


@pytest.mark.parametrize(
    "given",
    [
        [],
        [{"role": "assistant", "content": "Hello."}],
        [
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "I."},
            {"role": "user", "content": "No"},
        ],
        [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
        "",
    ],
)
def test_input_without_one_question_is_refused(client: openai.OpenAI, given: Any) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="beliefrag", input=given)
