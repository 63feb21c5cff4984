"""A new version of the index is noticed, opened beside the old one, and used without dropping a question."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.engine.assembly import Assembly, assemble
from beliefrag.retrieval import index_paths
from beliefrag.settings import Settings
from beliefrag.web.reload import IndexReloader
from beliefrag.web.request_log import json_log
from tests.support.serving import QUESTION, REPLY, SURE, Slow, served, wait_for

TOKEN = "a-token-that-is-long-enough"
KEY = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("beliefrag.web.reload._CHECK_SECONDS", 0.05)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "travel.md").write_text("Travel above the limit is approved by the head of finance.", encoding="utf-8")
    return folder


def opened(folder: Path, seconds: float = 0.0, **source: Any) -> tuple[Assembly, Settings]:
    script = folder / "served.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in (SURE, REPLY)), encoding="utf-8")
    settings = Settings(
        model=f"scripted:{script}", borrow="published", verifier="structured", cache=False, retry_seconds=0
    )
    assembly = assemble(settings, **source)
    model = Slow(assembly.model, seconds)
    harness = replace(assembly.harness, model=model)
    return replace(assembly, engine=replace(assembly.engine, model=model), harness=harness), settings


def sources(reply: Any) -> set[str]:
    return {source["source"] for source in reply.json()["sources"]}


def with_reloader(**source: Any) -> Callable[[Any], IndexReloader]:
    return lambda service: IndexReloader(service, **source)


def test_a_new_version_of_the_index_is_used_by_itself(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    index_paths([docs], index)
    with served(*opened(tmp_path, index=index), make_reloader=with_reloader(index=index)) as server:
        assert sources(server.ask()) == {"travel.md"}
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
        index_paths([docs], index)
        wait_for(lambda: "new.md" in sources(server.ask()), 20)


def test_questions_that_run_finish_on_the_index_that_they_began_with(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    index_paths([docs], index)
    with (
        served(*opened(tmp_path, 0.7, index=index), make_reloader=with_reloader(index=index)) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        before = server.service.assembly
        running = [pool.submit(server.ask) for _ in range(4)]
        wait_for(lambda: server.service.admission.in_flight == 4)
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
        index_paths([docs], index)
        wait_for(lambda: server.service.assembly is not before)
        replies = [each.result() for each in running]
    assert [reply.status_code for reply in replies] == [200] * 4
    assert all(sources(reply) == {"travel.md"} for reply in replies)


def test_reload_reads_changed_documents_again_and_needs_the_token(tmp_path: Path, docs: Path) -> None:
    with (
        served(*opened(tmp_path, docs=[docs]), token=TOKEN, make_reloader=with_reloader(docs=[docs])) as server,
        server.client() as client,
    ):
        assert client.post("/v1/reload").status_code == 401
        assert client.post("/v1/reload", headers=KEY).json()["changed"] is False
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.", encoding="utf-8")
        assert "new.md" not in sources(server.ask(headers=KEY)), "documents are read again only when asked"
        assert client.post("/v1/reload", headers=KEY).json()["changed"] is True
        assert "new.md" in sources(server.ask(headers=KEY))


def test_a_web_page_cannot_ask_for_a_reload(tmp_path: Path, docs: Path) -> None:
    with (
        served(*opened(tmp_path, docs=[docs]), make_reloader=with_reloader(docs=[docs])) as server,
        server.client(headers={"Origin": "https://evil.example"}) as client,
    ):
        assert client.post("/v1/reload").status_code == 403


def test_an_index_that_cannot_be_opened_leaves_the_old_one_in_use(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    index_paths([docs], index)
    log = io.StringIO()
    with json_log(log), served(*opened(tmp_path, index=index), make_reloader=with_reloader(index=index)) as server:
        with pytest.MonkeyPatch.context() as patch, server.client() as client:

            def fails(*_: Any, **__: Any) -> None:
                raise RuntimeError(QUESTION)

            patch.setattr("beliefrag.web.reload.reopen_passages", fails)
            (docs / "new.md").write_text("More.", encoding="utf-8")
            index_paths([docs], index)
            wait_for(lambda: "old one is kept" in log.getvalue())
            assert server.ask().status_code == 200
            assert client.get("/readyz").status_code == 200
        threading.Event().wait(0.3)
    assert log.getvalue().count("old one is kept") == 1, "each version is tried once"
    assert QUESTION not in log.getvalue()
