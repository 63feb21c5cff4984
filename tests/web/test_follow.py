"""A running server follows its documents: it answers from what they are now, and never from one that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.retrieval import index_paths
from tests.support.serving import Served, opened, served, wait_for


def sources(server: Served) -> set[str]:
    reply = server.ask()
    return {source["source"] for source in reply.json()["sources"]} if reply.status_code == 200 else {reply.text}


def test_new_moved_and_deleted_documents_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "travel.md").write_text("Travel above the limit is approved by the head of finance.")
    with served(*opened(tmp_path, docs=[docs]), docs=[docs]) as server:
        server.service.follow([docs], None)
        opened_at = server.service.updated_at
        wait_for(lambda: server.service.updated_at > opened_at)
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.")
        wait_for(lambda: "new.md" in sources(server))
        (docs / "new.md").rename(docs / "moved.md")
        (docs / "travel.md").unlink()
        wait_for(lambda: sources(server) == {"moved.md"})
        (docs / "moved.md").unlink()
        wait_for(lambda: "no_documents" in sources(server).pop())
        (docs / "back.md").write_text("The board approves travel above the limit.")
        wait_for(lambda: sources(server) == {"back.md"})


def test_a_server_of_an_index_takes_in_its_commits(tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "travel.md").write_text("Travel above the limit is approved by the head of finance.")
    index_paths([docs], index)
    with served(*opened(tmp_path, index=index), index=index) as server:
        server.service.follow(None, index)
        opened_at = server.service.updated_at
        wait_for(lambda: server.service.updated_at > opened_at)
        (docs / "new.md").write_text("Who approves travel above the limit? The board does.")
        index_paths([docs], index)
        wait_for(lambda: "new.md" in sources(server))
