from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from beliefrag.retrieval import IndexWriter, docs_index, docs_index_path
from beliefrag.retrieval.store import MANIFEST


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("The harbour was closed.")
    return folder


def test_documents_are_indexed_at_first_use_and_refreshed_later(docs: Path, tmp_path: Path) -> None:
    index, report = docs_index([docs], tmp_path / "cache")
    assert (len(index), report.files_read) == (1, 1)
    (docs / "b.txt").write_text("The tower was open.")
    index, report = docs_index([docs], tmp_path / "cache")
    assert (len(index), report.files_read, report.files_unchanged) == (2, 1, 1)
    assert [item.name for item in (tmp_path / "cache").iterdir()] == ["indexes"]


def test_the_place_depends_on_where_the_paths_lead(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(docs)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    place = docs_index_path([docs, tmp_path / "other"], tmp_path / "cache")
    assert docs_index_path(["other", "link", "docs/../docs"], tmp_path / "cache") == place
    assert docs_index_path([docs], tmp_path / "cache") != place
    assert docs_index_path([os.fsdecode(b"/\xff")], tmp_path / "cache") != place


def test_a_damaged_index_in_the_cache_is_built_anew(docs: Path, tmp_path: Path) -> None:
    index, _ = docs_index([docs], tmp_path / "cache")
    place = docs_index_path([docs], tmp_path / "cache")
    for damaged in (MANIFEST, "bm25/*.store"):
        next(place.glob(damaged)).write_bytes(b"damaged\n")
        again, report = docs_index([docs], tmp_path / "cache")
        assert again.fingerprint == index.fingerprint
        assert report.files_read == 1


def test_it_waits_for_another_process_that_refreshes_the_same_documents(docs: Path, tmp_path: Path) -> None:
    writer = IndexWriter(docs_index_path([docs], tmp_path / "cache"))
    threading.Timer(0.4, writer.close).start()
    index, _ = docs_index([docs], tmp_path / "cache")
    assert len(index) == 1
