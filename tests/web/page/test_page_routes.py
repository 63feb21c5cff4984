"""The page to ask in, over HTTP: who may use it, what it gives, and what it keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from beliefrag.bench.metrics import answer_scores
from beliefrag.bench.own_questions import load_user_questions
from beliefrag.bench.questions import Gold
from beliefrag.errors import SettingsError
from beliefrag.runs.run_errors import DataError
from beliefrag.types import NO_ANSWER
from beliefrag.web.page import FeedbackFile
from tests.support.asking import FILE, PASSAGES, SHIP, TRAVEL, UNKNOWN, Asking, asking
from tests.support.messages import mentions
from tests.support.serving import events
from tests.support.viewing import HOSTILE


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with asking(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest.fixture
def browser(app: Asking) -> Iterator[httpx2.Client]:
    with app.browser() as client:
        yield client


def ask(client: httpx2.Client, question: str = TRAVEL) -> dict[str, Any]:
    answer = client.post("/v1/ask", json={"question": question})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_nothing_is_given_without_the_key(app: Asking) -> None:
    with app.served.client(headers={"Origin": app.url}) as client:
        for path in ("/", "/page/about", "/assets/ask.js", "/v1/models", "/healthz", "/?token=wrong"):
            assert client.get(path).status_code == 403, path
        for path in ("/v1/ask", "/page/feedback", "/page/feedback?token=" + app.address.rpartition("=")[2]):
            assert client.post(path, json={"question": TRAVEL}).status_code == 403, path
        refusal = client.get("/").text
    assert "beliefrag app" in refusal
    assert app.served.model.asked == 0


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "http://127.0.0.1:1", "http://localhost", "file://", "http://evil@127.0.0.1"],
)
def test_another_site_cannot_send_questions_or_feedback(app: Asking, browser: httpx2.Client, origin: str) -> None:
    """The cookie is not sent by other sites; and where it is all the same, the origin tells."""
    known = ask(browser)
    headers = {"Origin": origin}
    before = app.labels()
    assert browser.post("/v1/ask", json={"question": TRAVEL}, headers=headers).status_code == 403
    sent = {"id": known["id"], "verdict": "right"}
    assert browser.post("/page/feedback", json=sent, headers=headers).status_code == 403
    assert app.labels() == before


def test_a_request_without_an_origin_is_refused_and_other_methods_are_too(app: Asking) -> None:
    with app.browser() as client:
        del client.headers["Origin"]
        assert client.post("/v1/ask", json={"question": TRAVEL}).status_code == 403
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert client.request(method, "/page/feedback").status_code == 405


def test_the_cookie_is_out_of_reach_and_the_policy_is_strict(app: Asking, browser: httpx2.Client) -> None:
    with app.served.client() as client:
        cookie = client.get(app.address.removeprefix(app.url)).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    for path in ("/", "/assets/ask.js", "/page/about", "/nowhere", "/episode/1"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
    page = browser.get("/").text
    assert not re.search(r"https?://|<script>|style=| on\w+=", page)


def test_the_page_streams_a_question_and_leads_to_its_trajectory(browser: httpx2.Client) -> None:
    answer = browser.post("/v1/ask", json={"question": TRAVEL}, headers={"Accept": "text/event-stream"})
    seen = events(answer.text)
    assert [name for name, _ in seen][-1] == "result"
    result = seen[-1][1]
    assert result["answer"] == "the head of finance"
    leads = browser.get(f"/page/trajectory/{result['id']}")
    assert leads.status_code == 303
    number = int(re.fullmatch(r"/episode/(\d+)", leads.headers["location"])[1])  # type: ignore[index]
    about = browser.get("/api/about").json()
    assert (about["kind"], about["name"]) == ("page", "How it got there")
    episode = browser.get(f"/api/episode/{number}").json()
    assert episode["question"] == TRAVEL
    assert episode["record"]["outcome"] == "answered"
    assert episode["thresholds"]["answer"] == pytest.approx(0.5)
    assert "Travel above the limit" in str(episode["record"]["steps"][-1]["calls"][0]["messages"])
    assert browser.get(f"/episode/{number}").status_code == 200
    assert browser.get(f"/api/episode/{number + 1}").status_code == 404
    assert browser.get("/page/trajectory/nobody").status_code == 404


def test_a_document_is_put_together_from_its_passages(browser: httpx2.Client) -> None:
    known = ask(browser)
    found = browser.get("/page/document", params={"asked": known["id"], "passage": "t2"}).json()
    assert found["source"] == "travel.md"
    assert found["whole"] is True
    assert [each["id"] for each in found["passages"]] == ["t1", "t2"]
    assert found["passages"][1]["text"] == PASSAGES[1].text


@pytest.mark.parametrize("passage", ["/etc/passwd", "../../etc/passwd", FILE, "", "s1"])
def test_only_a_passage_that_was_found_can_be_opened(browser: httpx2.Client, passage: str) -> None:
    known = ask(browser)
    gone = [each for each in known["sources"] if each["id"] == passage]
    answer = browser.get("/page/document", params={"asked": known["id"], "passage": passage})
    assert answer.status_code == (200 if gone else 404)
    assert browser.get("/page/document", params={"asked": "nobody", "passage": "t2"}).status_code == 404
    assert browser.get("/page/document", params={"asked": known["id"], "passage": "x" * 600}).status_code == 422


def test_verdicts_become_labelled_questions_that_calibrate_reads(app: Asking, browser: httpx2.Client) -> None:
    app.feedback.unlink(missing_ok=True)
    right, corrected, wrong = ask(browser, f"{TRAVEL} Again?"), ask(browser, f"  {TRAVEL}\n"), ask(browser, SHIP)
    declined = ask(browser, UNKNOWN)
    assert declined["outcome"] == "abstained"

    def say(answer: dict[str, Any], verdict: str, right_answer: str = "") -> str:
        body = {"id": answer["id"], "verdict": verdict, "right_answer": right_answer}
        kept = browser.post("/page/feedback", json=body)
        assert kept.status_code == 200, kept.text
        return str(kept.json()["kept_as"])

    assert say(right, "right") == "right"
    assert say(corrected, "wrong") == "wrong"
    assert say(corrected, "wrong", "  the head\nof accounting ") == "corrected"
    pointed_out = ask(browser, TRAVEL)["corrected"]
    assert "marked wrong" in pointed_out and "the head of accounting" in pointed_out
    assert ask(browser, f"{TRAVEL} Again?")["corrected"] is None
    assert say(wrong, "wrong") == "wrong"
    assert say(declined, "right") == "rightly declined"
    assert [each["answers"] for each in app.labels()] == [
        ["the head of finance"],
        [],
        ["the head of accounting"],
        [],
        [NO_ANSWER],
    ]
    dataset = load_user_questions(app.feedback, PASSAGES)
    assert {each.question.text: each.gold.answers for each in dataset.questions} == {
        f"{TRAVEL} Again?": ("the head of finance",),
        TRAVEL: ("the head of accounting",),
        UNKNOWN: (NO_ANSWER,),
    }
    (left_out,) = dataset.card.skipped
    assert mentions(left_out, "right answer")
    # Whoever changes their mind takes the label back.
    assert say(right, "wrong") == "wrong"
    assert say(declined, "wrong") == "wrongly declined"
    assert len(load_user_questions(app.feedback, PASSAGES).questions) == 1


@pytest.mark.parametrize(
    "answer", ["no", "no answer", "noanswer", "There is no answer in the documents.", "unknown", "the head of finance"]
)
def test_whatever_is_answered_to_a_question_that_was_rightly_declined_is_wrong(answer: str) -> None:
    assert answer_scores(answer, Gold((NO_ANSWER,))) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "body",
    [
        {"verdict": "right"},
        {"id": "x" * 65, "verdict": "right"},
        {"verdict": "maybe"},
        {"verdict": "wrong", "right_answer": "x" * 1_001},
        {"verdict": "wrong", "right_answer": ["a"]},
        {"verdict": "wrong", "answers": ["planted"]},
        {"verdict": "wrong", "question": "planted"},
    ],
)
def test_feedback_of_another_form_is_refused(app: Asking, browser: httpx2.Client, body: dict[str, Any]) -> None:
    known = ask(browser)
    before = app.labels()
    sent = body if len(body) == 1 and "id" not in body and body["verdict"] == "right" else {"id": known["id"], **body}
    assert browser.post("/page/feedback", json=sent).status_code == 422
    assert app.labels() == before


def test_a_file_without_any_right_answer_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    file.write_text('{"question": "Who?", "answers": [], "feedback": "wrong"}\n', encoding="ascii")
    with pytest.raises(DataError, match="none has a right answer yet"):
        load_user_questions(file, PASSAGES)


def test_too_large_feedback_and_feedback_on_nothing_are_refused(browser: httpx2.Client) -> None:
    known = ask(browser)
    huge = {"id": known["id"], "verdict": "wrong", "right_answer": "x" * 100_000}
    assert browser.post("/page/feedback", json=huge).status_code == 413
    assert browser.post("/page/feedback", json={"id": "nobody", "verdict": "right"}).status_code == 404


def test_hostile_feedback_stays_one_line_of_the_file(app: Asking, browser: httpx2.Client) -> None:
    app.feedback.unlink(missing_ok=True)
    known = ask(browser, "Who took\u2028Amundsen through <script>?")
    body = f'{{"id": "{known["id"]}", "verdict": "wrong", "right_answer": "\\ud800"}}'
    refused = browser.post("/page/feedback", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    hostile = "a\n{}\u2028\x00<script>|b"
    kept = browser.post("/page/feedback", json={"id": known["id"], "verdict": "wrong", "right_answer": hostile})
    assert kept.status_code == 200, kept.text
    (label,) = app.labels()
    assert label["answers"] == ["a {} \x00<script>|b"]
    (question,) = load_user_questions(app.feedback, PASSAGES).questions
    assert question.gold.answers == ("a {} \x00<script>|b",)
    assert question.question.text == "Who took Amundsen through <script>?"


def test_a_line_that_was_cut_off_does_not_take_the_next_one_with_it(app: Asking, browser: httpx2.Client) -> None:
    app.feedback.write_text('{"question": "half', encoding="ascii")
    browser.post("/page/feedback", json={"id": ask(browser)["id"], "verdict": "right"})
    first, second = app.feedback.read_text(encoding="ascii").splitlines()
    assert first == '{"question": "half'
    assert '"the head of finance"' in second
    app.feedback.unlink()


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "feedback.jsonl"):
        with pytest.raises(SettingsError, match="--feedback"):
            FeedbackFile(path)


def test_an_id_that_a_client_chose_does_not_take_anothers_place(app: Asking, browser: httpx2.Client) -> None:
    first = ask(browser)
    second = browser.post("/v1/ask", json={"question": SHIP}, headers={"X-Request-ID": first["id"]}).json()
    assert second["id"] == first["id"]
    number = browser.get(f"/page/trajectory/{first['id']}").headers["location"].rpartition("/")[2]
    assert browser.get(f"/api/episode/{number}").json()["question"] == TRAVEL
    assert HOSTILE in second["answer"]


def test_a_declined_question_says_what_is_missing_and_tells_the_guess_apart(tmp_path: Path) -> None:
    with asking(tmp_path, settings={"thresholds": {"decline_below": 0.99}}) as running, running.browser() as client:
        told = ask(client, "Who approves the purple limit?")
    assert told["outcome"] == "abstained"
    assert told["answer"] is None
    assert told["best_guess"] == "the head of finance"
    assert told["missing"] == ["purple"]
    assert told["nearest"]
    assert told["why"].startswith("Searched once, ")
    assert mentions(told["would_change"], "document", "purple") and "--" not in told["would_change"]
