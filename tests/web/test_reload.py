"""A reload opens the passages again with the same settings and drops no question."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beliefrag.opening import assemble
from beliefrag.retrieval import index_paths
from beliefrag.settings import Settings
from beliefrag.web.http.http_app import reload_passages
from beliefrag.web.limits import ServerLimits
from beliefrag.web.service import AnswerService
from tests.support.serving import REPLY, opened, served, wait_for

TOKEN = "a-token-that-is-long-enough"
KEY = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "travel.md").write_text("Travel above the limit is approved by the head of finance.", encoding="utf-8")
    return folder


def sources(reply: Any) -> set[str]:
    return {source["source"] for source in reply.json()["sources"]}


def test_reload_reads_changed_documents_again_and_needs_the_token(tmp_path: Path, docs: Path) -> None:
    with served(*opened(tmp_path, docs=[docs]), token=TOKEN, docs=[docs]) as server, server.client() as client:
        assert client.post("/v1/reload").status_code == 401
        assert client.post("/v1/reload", headers=KEY).json()["changed"] is False
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
        assert "new.md" not in sources(server.ask(headers=KEY)), "documents are read again only on request"
        assert client.post("/v1/reload", headers=KEY).json()["changed"] is True
        assert "new.md" in sources(server.ask(headers=KEY))


def test_running_questions_finish_on_the_index_that_they_began_with(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    index_paths([docs], index)
    with (
        served(*opened(tmp_path, seconds=0.7, index=index), index=index) as server,
        ThreadPoolExecutor(4) as pool,
        server.client() as client,
    ):
        running = [pool.submit(server.ask) for _ in range(4)]
        wait_for(lambda: server.service.admission.in_flight == 4)
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
        index_paths([docs], index)
        assert client.post("/v1/reload").json()["changed"] is True
        replies = [each.result() for each in running]
        assert "new.md" in sources(server.ask())
    assert [reply.status_code for reply in replies] == [200] * 4
    assert all(sources(reply) == {"travel.md"} for reply in replies)


@pytest.mark.parametrize("method", ["lean", "beliefrag"])
async def test_retriever_and_packing_stay_the_same_after_a_reload(tmp_path: Path, docs: Path, method: str) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps(REPLY), encoding="utf-8")
    chosen = {"borrow": "published", "method": method, "cache": False, "answer_style": "short"}
    settings = Settings.model_validate({"model": f"scripted:{script}", **chosen})
    service = AnswerService(assemble(settings, docs=[docs]), settings, ServerLimits(budget=settings.budget))
    before = service.assembly.harness
    (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
    for _ in range(2):
        await reload_passages(service, [docs], None, {})
        now = service.assembly.harness
        assert now.retriever is not before.retriever
        assert now.retriever.identity == before.retriever.identity
        assert now.pack == before.pack
    await service.aclose()


def test_a_web_page_cannot_request_a_reload(tmp_path: Path, docs: Path) -> None:
    with (
        served(*opened(tmp_path, docs=[docs]), docs=[docs]) as server,
        server.client(headers={"Origin": "https://evil.example"}) as client,
    ):
        assert client.post("/v1/reload").status_code == 403


def test_an_index_that_cannot_be_opened_leaves_the_old_one_in_use(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    index_paths([docs], index)
    with served(*opened(tmp_path, index=index), index=index) as server, server.client() as client:
        index.rename(tmp_path / "moved")
        assert client.post("/v1/reload").status_code == 503
        assert server.ask().status_code == 200
