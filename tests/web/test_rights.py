"""A token reads what its groups may read. What it may not read must not show in any way; these tests try to see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from beliefrag.errors import SettingsError
from beliefrag.opening import assemble_by_groups
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.rights import select_readable
from beliefrag.settings import AccessRules, PathRule, Settings, TokenRule
from beliefrag.types import Passage
from beliefrag.web.auth import read_readers
from beliefrag.web.http import HttpContext, create_app
from beliefrag.web.limits import ServerLimits
from beliefrag.web.mcp.mcp_app import create_mcp_app
from beliefrag.web.service import AnswerService
from tests.support.serving import REPLY, SURE

SECRET = ("91,000", "pay.md", "a year", "needs travel")
"""Words of hidden documents that no question has: a reply may repeat the words of its question."""
STAFF, TWIN, PEOPLE, NOBODY = (
    {"Authorization": f"Bearer {name}-token-of-some-length"} for name in ("staff", "twin", "people", "no")
)
QUESTIONS = [
    "Who approves travel to Zanzibar?",
    "What is the pay in Zanzibar?",
    "travel",
    "merger",
    "Travel Policy Pay Scale",
]
FILTERS = [None, "file=pay.md", "not file=nothing", "type=md or file=pay*", "team!=x", "title=*", "language=en"]


def write_documents(folder: Path, *, hidden: bool = True) -> None:
    (folder / "docs" / "people").mkdir(parents=True)
    (folder / "docs" / "travel.md").write_text(
        "# Travel Policy\n\nTravel above the limit is approved by the head of finance. See [Pay Scale](people/pay.md)."
    )
    (folder / "docs" / "rows.jsonl").write_text('{"id": "1", "text": "Travel by train is paid."}\n')
    if hidden:
        (folder / "docs" / "people" / "pay.md").write_text(
            "# Pay Scale\n\nTravel Policy: pay in Zanzibar is 91,000 a year. Travel travel travel before the merger."
        )
        (folder / "docs" / "people" / "rows.jsonl").write_text('{"id": "1", "text": "The merger needs travel."}\n')


def settings_of(folder: Path) -> Settings:
    for name in TOKENS:
        (folder / f"{name}.token").write_text(f"{name}-token-of-some-length\n")
    script = folder / "served.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in (SURE, REPLY)))
    tokens = [TokenRule(folder / f"{name}.token", groups) for name, groups in TOKENS.items()]
    paths = (
        PathRule(str(folder / "docs" / "people"), ("people",)),
        PathRule(str(folder / "docs" / "**.*"), ("staff", "people")),
    )
    return Settings(
        model=f"scripted:{script}", borrow="published", verifier="structured", retriever="linked",
        answer_style="short",
        access=AccessRules(tuple(tokens), paths),
    )  # fmt: skip


TOKENS: Mapping[str, tuple[str, ...]] = {
    "staff": ("staff",), "twin": ("staff",), "people": ("staff", "people"), "no": ("others",),
}  # fmt: skip


def make_app(folder: Path) -> tuple[FastAPI, AnswerService]:
    settings = settings_of(folder)
    service = AnswerService(
        assemble_by_groups(settings, docs=[folder / "docs"]), settings, ServerLimits(budget=settings.budget)
    )
    context = HttpContext(service, docs=[folder / "docs"])
    return create_app(context, readers=read_readers(settings.access.tokens, "127.0.0.1")), service


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))


async def send(app: FastAPI, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.post(path, json=body, headers=headers)


def attacks(question: str, where: str | None) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    limited = {"where": where} if where else {}
    message = [{"role": "user", "content": question}]
    return [
        ("/v1/search", {"query": question, "k": 20, **limited}, {}),
        ("/v1/ask", {"question": question, "settings": limited}, {}),
        ("/v1/ask", {"question": question, "settings": limited}, {"Accept": "text/event-stream"}),
        ("/v1/chat/completions", {"model": "beliefrag", "messages": message}, {}),
    ]


async def test_nothing_of_a_hidden_document_is_in_any_reply(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    for question in QUESTIONS:
        for where in FILTERS:
            for path, body, more in attacks(question, where):
                reply = await send(app, path, body, STAFF | more)
                assert reply.status_code == 200
                # The link to it is in the words of a document that staff may read.
                told = reply.text.lower().replace("people/pay.md", "").replace("file=pay.md", "")
                assert not [word for word in SECRET if word in told], (path, question, where)
    seen = await send(app, "/v1/search", {"query": "pay in Zanzibar"}, PEOPLE)
    assert "91,000" in seen.text
    assert (await send(app, "/v1/search", {"query": "travel"}, NOBODY)).json() == {"passages": []}


async def test_replies_are_those_of_a_server_that_never_had_the_hidden_documents(tmp_path: Path) -> None:
    write_documents(tmp_path / "a")
    write_documents(tmp_path / "b", hidden=False)
    (with_hidden, _), (without, _) = make_app(tmp_path / "a"), make_app(tmp_path / "b")
    for question in QUESTIONS:
        for where in FILTERS:
            body = {"query": question, "k": 20, **({"where": where} if where else {})}
            replies = [await send(app, "/v1/search", body, STAFF) for app in (with_hidden, without)]
            # Scores, order, ids and how each was found.
            assert replies[0].json() == replies[1].json()
            assert replies[0].json()["passages"] or where in ("file=pay.md", "title=*") or question == "merger"


async def test_a_reload_tells_only_of_changes_that_the_token_may_read(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    before = (await send(app, "/v1/reload", {}, STAFF)).json()
    (tmp_path / "docs" / "people" / "new.md").write_text("A new secret about travel to Zanzibar.")
    assert (await send(app, "/v1/reload", {}, STAFF)).json() == before
    assert "new secret" in (await send(app, "/v1/search", {"query": "Zanzibar secret"}, PEOPLE)).text
    assert "new secret" not in (await send(app, "/v1/search", {"query": "Zanzibar secret"}, STAFF)).text


async def test_folders_cannot_be_guessed_through_a_filter(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    for guess in (f"path={tmp_path}/*", "path=/nowhere/*", "not path=people/*"):
        reply = await send(app, "/v1/search", {"query": "travel", "where": guess}, PEOPLE)
        assert reply.status_code == 422
        assert str(tmp_path) not in reply.text


async def test_without_one_of_the_tokens_there_is_no_search_and_no_passage(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, service = make_app(tmp_path)
    for headers in ({}, {"Authorization": "Bearer staff"}, {"Authorization": "Basic staff-token-of-some-length"}):
        assert (await send(app, "/v1/search", {"query": "travel"}, headers)).status_code == 401
    # A part of the server that forgets to look at the token has nothing to give away.
    assert not service.assembly.harness.retriever.search("travel", 5)
    assert not service.assembly_for({}).harness.retriever.search("travel", 5)


def test_the_first_rule_decides_and_a_copy_is_shown_as_what_may_be_read() -> None:
    index = Bm25Index.in_memory(
        [Passage("1~0123abcd", "", "Travel.", "/d/open/a.md"), Passage("2", "", "Pay.", "/d/open/closed/b.md")]
    )
    rules = [PathRule("/d/*/closed", ("few",)), PathRule("/d/open", ("few", "all"))]
    assert [each.id for each in select_readable(index, rules, frozenset({"all"}))] == ["1"]
    assert len(select_readable(index, rules, frozenset({"few"}))) == 2
    assert (
        select_readable(index, [PathRule("/d/op", ("all",)), PathRule("/d/*.md", ("all",))], frozenset({"all"})) == []
    )


def test_tokens_must_be_distinct(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("the-same-token-for-two")
    with pytest.raises(SettingsError, match="another file"):
        read_readers([TokenRule(tmp_path / "a", ("x",)), TokenRule(tmp_path / "b", ("y",))], "127.0.0.1")


async def test_an_agent_searches_what_its_token_may_read(tmp_path: Path) -> None:
    write_documents(tmp_path)
    _, service = make_app(tmp_path)
    tokens = {f"{name}-token-of-some-length": frozenset(groups) for name, groups in TOKENS.items()}
    app = create_mcp_app(service, readers=tokens)
    told = {}
    async with app.router.lifespan_context(app):
        for name in TOKENS:
            headers = {"Authorization": f"Bearer {name}-token-of-some-length"}
            transport = httpx2.ASGITransport(app=app)
            async with (
                httpx2.AsyncClient(transport=transport, headers=headers, base_url="http://localhost") as http,
                Client(streamable_http_client("http://localhost/mcp", http_client=http)) as client,
            ):
                told[name] = str(await client.call_tool("search", {"query": "travel pay in Zanzibar", "k": 20}))
    assert "91,000" in told["people"]
    assert "head of finance" in told["staff"]
    assert "91,000" not in told["staff"] + told["no"]
    assert "finance" not in told["no"]


async def test_earlier_turns_of_others_bring_no_passages(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    first = (await send(app, "/v1/ask", {"question": "What is the pay in Zanzibar?"}, PEOPLE)).json()
    assert "91,000" in str(first["sources"])
    turn = {"id": first["id"], "question": "What is the pay in Zanzibar?", "answer": "It is known."}
    for question in ("Why is it?", "And how much is it there?"):
        reply = await send(app, "/v1/ask", {"question": question, "history": [turn]}, STAFF)
        assert "91,000" not in reply.text


async def test_a_client_finds_nothing_of_what_others_asked_in_histories_and_caches(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    question = "Who approves travel above the limit?"
    await send(app, "/v1/ask", {"question": question}, STAFF | {"X-Request-ID": "1"})
    follow_up: dict[str, Any] = {"question": "Who of finance approves travel above the limit?"}
    follow_up["history"] = [{"id": "1", "question": question, "answer": ""}]
    own, others = [(await send(app, "/v1/ask", follow_up, token)).json() for token in (STAFF, TWIN)]
    assert ("an earlier answer" in own["why"], "an earlier answer" in others["why"]) == (True, False)
    again = (await send(app, "/v1/ask", {"question": question}, TWIN)).json()
    assert (again["usage"]["calls"] > 0, again["usage"]["cached_calls"]) == (True, 0)


async def test_slips_are_not_corrected_by_words_that_a_token_may_not_read(tmp_path: Path) -> None:
    write_documents(tmp_path)
    app, _ = make_app(tmp_path)
    question = {"question": "Who needs travel before the megrer?"}
    told = [(await send(app, "/v1/ask", question, token)).json()["standalone"] for token in (PEOPLE, STAFF)]
    assert ("merger" in told[0], told[1]) == (True, "")
