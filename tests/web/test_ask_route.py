"""`POST /v1/ask`: answers, declining, failures, settings of single requests, and the stream of events."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import Guarantee
from beliefrag.policy import Thresholds
from beliefrag.record import ModelCall, Step
from beliefrag.types import Action, Attempt, Budget
from beliefrag.web.answers import step_record
from beliefrag.web.limits import ServerLimits
from tests.support.serving import ANSWER, QUERY, QUESTION, REPLY, SURE, UNSURE, Served, events, opened, served

DECLINING = Thresholds(abstain_sufficiency=1.0, abstain_uncertainty=0.0, abstain_answerability=1.0)
STREAM = {"Accept": "text/event-stream"}


def test_an_answer_comes_with_probability_reason_sources_steps_and_cost(plain: Served) -> None:
    response = plain.ask()
    assert response.status_code == 200
    reply = response.json()
    assert (reply["outcome"], reply["answer"]) == ("answered", ANSWER)
    assert reply["answerability"] > 0.5
    assert "can be answered now" in reply["reason"]
    assert reply["would_change"] == "a document that contradicts the sentence quoted"
    assert {source["id"] for source in reply["sources"]} == {"travel", "leave"}
    assert [(each["source"], each["place"]) for each in reply["citations"]] == [("travel.md", "lines 12-14")]
    assert [step["action"] for step in reply["steps"]] == ["RETRIEVE", "ANSWER"]
    assert reply["steps"][0]["search"]["query"] == QUESTION
    assert reply["usage"]["calls"] == 2 and reply["usage"]["tokens"] > 0 and reply["usage"]["searches"] == 1
    assert reply["calibration"].startswith("published; borrowed")
    assert reply["id"] == response.headers["x-request-id"]


def test_folders_of_the_server_stay_with_the_server(plain: Served) -> None:
    for text in (plain.ask().text, plain.ask(headers=STREAM).text):
        assert "/srv/secret" not in text
        assert '"source":"travel.md"' in text
        assert '"source":"https://example.org/wiki/leave"' in text


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("No such file: '/srv/my secret/index/a.store'.", "No such file: 'a.store'."),
        ("The weights at /srv/models/a.gguf cannot be read.", "The weights at a.gguf cannot be read."),
        ("See https://example.org/wiki/leave, 1/2 of it.", "See https://example.org/wiki/leave, 1/2 of it."),
    ],
)
def test_errors_do_not_name_folders_of_the_server(plain: Served, told: str, left: str) -> None:
    assert plain.service.remove_private_parts(told) == left


def test_declining_is_an_outcome_without_an_answer(tmp_path: Path) -> None:
    with served(*opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=DECLINING)) as server:
        response = server.ask()
    assert response.status_code == 200
    reply = response.json()
    assert (reply["outcome"], reply["answer"], reply["best_guess"]) == ("abstained", None, ANSWER)
    assert "inadequate" in reply["reason"]


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        ([SURE, {"purpose": "answer", "error": {"status": 500}, "repeat": True}], 502, "TransportError"),
        ([SURE], 503, "ModelError"),
    ],
)
def test_a_failure_is_a_problem_and_never_an_answer(
    tmp_path: Path, lines: list[dict[str, Any]], status: int, words: str
) -> None:
    with served(*opened(tmp_path, *lines)) as server:
        response = server.ask()
        streamed = events(server.ask(headers=STREAM).text)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status and problem["type"] == "urn:beliefrag:failed"
    assert words in problem["detail"] and "\n" not in problem["detail"]
    assert "answer" not in problem
    name, last = streamed[-1]
    assert name == "error" and last["status"] == status and last["detail"] == problem["detail"]


def test_a_stream_tells_what_happens_and_ends_with_the_result(plain: Served) -> None:
    response = plain.ask(headers=STREAM)
    whole = plain.ask().json()
    assert response.headers["content-type"].startswith("text/event-stream")
    told = events(response.text)
    names = [name for name, _ in told]
    writing = ["answer_text"] * 3  # "the" waits: it may be the beginning of a label
    assert names == ["started", "step", "call_started", "call_started", *writing, "step", "result"]
    assert "".join(record["text"] for name, record in told if name == "answer_text") == ANSWER
    assert told[1][1]["search"]["added"] == list(told[1][1]["passages"])
    result = told[-1][1]
    assert {**result, "id": ""} == {**whole, "id": ""}


def test_nothing_of_an_answer_that_is_declined_is_streamed(tmp_path: Path) -> None:
    with served(*opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=DECLINING)) as server:
        text = server.ask(headers=STREAM).text
    *told, (_, result) = events(text)
    assert result["outcome"] == "abstained"
    assert "answer_text" not in [name for name, _ in told]


def test_prompts_replies_and_drafts_are_not_streamed() -> None:
    """A client that is declined in the end would otherwise have read the answer on the way."""
    call = ModelCall(
        purpose="read", reply="a drafted answer", tokens_in=1, tokens_out=1, counted_by="server", messages=({"a": "b"},)
    )
    drafted = Attempt("a drafted answer")
    step = Step(number=1, action=Action.ABSTAIN, reason="abstain", answerability=0.1, attempt=drafted, calls=(call,))
    record = step_record(step)
    assert record["answerability"] == 0.1 and record["calls"][0]["tokens_in"] == 1
    assert "a drafted answer" not in str(record) and not record["calls"][0]["messages"]


def test_a_silent_stream_is_kept_alive(tmp_path: Path) -> None:
    limits = ServerLimits(heartbeat=0.05)
    with served(*opened(tmp_path, seconds=0.3), limits=limits) as server:
        text = server.ask(headers=STREAM).text
    assert ": still here\n\n" in text
    assert events(text)[-1][0] == "result"


def test_a_request_cannot_spend_more_than_the_server_allows(tmp_path: Path) -> None:
    assembly, settings = opened(tmp_path, budget=Budget(rounds=2, tokens=900))
    limits = ServerLimits(budget=replace(settings.budget, tokens=1000))
    with served(assembly, settings, limits=limits) as server:
        started = events(server.ask(headers=STREAM, budget={"tokens": 1000, "rounds": 1}).text)[0][1]
        assert (started["budget"]["rounds"], started["budget"]["tokens"]) == (1, 1000)
        for wish in ({"tokens": 1001}, {"rounds": 3}, {"top_k": 6}, {"actions": 7}):
            response = server.ask(budget=wish)
            (name, value) = next(iter(wish.items()))
            assert response.status_code == 422
            assert response.json()["field"] == f"settings.budget.{name}"
            assert f"{value} {name}" in response.json()["detail"]


def test_a_cap_below_the_setting_lowers_what_every_request_gets(tmp_path: Path) -> None:
    assembly, settings = opened(tmp_path)
    with served(assembly, settings, limits=ServerLimits(budget=Budget(rounds=1, tokens=77))) as server:
        started = events(server.ask(headers=STREAM).text)[0][1]
    assert (started["budget"]["rounds"], started["budget"]["tokens"]) == (1, 77)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_error": 1.5}, "less than 1"),
        ({"thresholds": {"answer": 0.1}}, "not permitted"),
        ({"max_error": 0.1}, "has no guarantee here"),
        ({"budget": {"verifier_passages": 3}}, "not permitted"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_in_one_line(plain: Served, settings: dict[str, Any], words: str) -> None:
    response = plain.ask(**settings)
    assert response.status_code == 422
    assert words in response.json()["detail"]
    assert response.json()["field"].startswith("settings")


def test_a_promise_of_the_server_cannot_be_weakened_by_a_request(tmp_path: Path) -> None:
    assembly, settings = opened(tmp_path)
    prompts = assembly.harness.prompts.hashes()
    made: dict[str, Any] = {
        "confidence": 0.9,
        "threshold": 0.99,
        "questions": 100,
        "answered": 50,
        "wrong": 1,
        "label": "f1",
        "datasets": {"own": "f00d"},
        "method": "by hand",
        "thresholds": Thresholds(),
        "budget": Budget(),
        "prompts": prompts,
        "made": "today",
    }
    guarantees = tuple(Guarantee(max_error=share, **made) for share in (0.05, 0.1, 0.3))
    assert assembly.parts.artifact is not None
    artifact = assembly.parts.artifact.model_copy(update={"guarantees": guarantees})
    parts = {assembly.method.name: replace(assembly.parts, artifact=artifact, calibration_warnings=())}
    assembly = replace(assembly, engine=replace(assembly.engine, parts=parts))
    with served(assembly, settings.model_copy(update={"max_error": 0.1})) as server:
        usual, stricter = server.ask(), server.ask(max_error=0.05)
        weaker = server.ask(max_error=0.3)
    assert usual.json()["outcome"] == "abstained"
    assert "at most 10 %" in usual.json()["guarantee"]
    assert "at most 5 %" in stricter.json()["guarantee"]
    assert weaker.status_code == 422
    assert "max_error 0.1" in weaker.json()["detail"]


@pytest.mark.parametrize("question", ["", "   \n"])
def test_an_empty_question_is_refused(plain: Served, question: str) -> None:
    before = plain.model.asked
    response = plain.ask(question)
    assert response.status_code == 422 and response.json()["field"] == "question"
    assert plain.model.asked == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 20_000, 400),
        (b'{"question": ' + b"9" * 5_000 + b"}", 400),
        (b'{"question": "\\ud800"}', 422),
        (b'{"question": 5}', 422),
        (b'{"question": "Who?", "also": 1}', 422),
        (b'{"question": "Who?", "settings": {"max_error": NaN}}', 422),
        (b"[]", 422),
        (b"", 422),
    ],
)
def test_a_body_that_is_no_question_is_refused(plain: Served, body: bytes, status: int) -> None:
    with plain.client() as client:
        response = client.post("/v1/ask", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_a_question_of_any_characters_is_answered(plain: Served) -> None:
    assert plain.ask("travel \x00 \U0001f600 <|im_end|> \u202e approves?").json()["answer"] == ANSWER


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
def test_a_page_elsewhere_cannot_make_a_browser_ask(plain: Served, path: str, kind: str | None) -> None:
    """A page can post these kinds, or none at all, without being asked first; only JSON that says so is read."""
    before = plain.model.asked
    with plain.client() as client:
        headers = {"Content-Type": kind} if kind else {}
        body = {"question": QUESTION, "model": "beliefrag", "messages": [{"role": "user", "content": QUESTION}]}
        response = client.post(path, content=json.dumps(body).encode(), headers=headers)
    assert response.status_code == 415
    assert "Content-Type: application/json" in response.text
    assert "access-control-allow-origin" not in response.headers
    assert plain.model.asked == before


def test_a_follow_up_reads_the_passages_of_the_answer_that_its_history_names(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "reply": QUESTION, "repeat": True}
    with served(*opened(tmp_path, SURE, REPLY, rewrite)) as server, server.client() as client:
        first = server.ask().json()
        turn = {"question": QUESTION, "answer": first["answer"], "id": first["id"]}
        body = {"question": "Who is it?", "history": [turn]}
        reply = client.post("/v1/ask", json=body).json()
        assert (reply["standalone"], reply["answer"], reply["usage"]["searches"]) == (QUESTION, ANSWER, 0)
        assert reply["citations"][0]["source"] == "travel.md", "the server's folders stay with the server"
        unknown = client.post("/v1/ask", json=body | {"history": [turn | {"id": "another"}]}).json()
        assert (unknown["answer"], unknown["usage"]["searches"]) == (ANSWER, 1)
        alone = client.post("/v1/ask", json={"question": "Who is it?"}).json()
        assert alone["outcome"] == "abstained" and "it" in alone["asks"] and alone["usage"]["calls"] == 0


def test_a_request_may_choose_the_style_of_its_answer(tmp_path: Path) -> None:
    text = "Travel above the limit is approved by the head of finance. It costs 90 crowns."
    write = {"purpose": "write", "reply": text, "repeat": True}
    with served(*opened(tmp_path, SURE, REPLY, write)) as server, server.client() as client:
        body = {"question": QUESTION, "settings": {"answer_style": "paragraph"}}
        reply = client.post("/v1/ask", json=body).json()
        assert (reply["answer"], reply["short_answer"], reply["left_out"]) == (text.partition(" It")[0], ANSWER, 1)
        assert reply["citations"][reply["sentences"][0]["cites"][0]]["passage_id"] == "travel"
        assert client.post("/v1/ask", json=body | {"settings": {"answer_style": "verse"}}).status_code == 422
