from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval import Bm25Index, IndexUnusable, IndexWriter
from beliefrag.retrieval.store import MANIFEST
from beliefrag.types import Passage

Restricted = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def index(tmp_path: Path, shelf: list[Passage]) -> Path:
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(shelf)
    return tmp_path / "index"


def test_an_index_in_a_read_only_directory_can_be_searched_but_not_written(
    public_folder: Path, shelf: list[Passage], without_rights: Restricted
) -> None:
    with IndexWriter(public_folder / "index") as writer:
        writer.add(shelf)
    for folder in (public_folder / "index", public_folder / "index" / "bm25"):
        folder.chmod(0o555)
        for file in folder.iterdir():
            file.chmod(0o555 if file.is_dir() else 0o444)
    with without_rights():
        opened = Bm25Index.open(public_folder / "index")
        assert opened.search("lighthouse", 1)[0].passage == shelf[0]
        assert opened.fingerprint == Bm25Index.in_memory(shelf).fingerprint
        with pytest.raises(CorpusError, match="cannot be written"):
            IndexWriter(public_folder / "index")
    for folder in (public_folder / "index", public_folder / "index" / "bm25"):
        folder.chmod(0o755)


@pytest.mark.parametrize("version", [1, 99])
def test_an_index_of_another_version_is_refused_with_both_versions(index: Path, version: int) -> None:
    manifest = index / MANIFEST
    manifest.write_bytes(manifest.read_bytes().replace(b'"beliefrag_index":3', b'"beliefrag_index":%d' % version))
    for opening in (Bm25Index.open, IndexWriter):
        with pytest.raises(IndexUnusable, match=rf"{version}\b.*\b3\b") as raised:
            opening(index)
        assert "build the index again" in raised.value.remedy


@pytest.mark.parametrize("content", [b"", b"not json\n", b'{"other": 1}\n', b'{"beliefrag_index": 3}\n', b"[]\n"])
def test_a_damaged_manifest_is_refused(index: Path, content: bytes) -> None:
    (index / MANIFEST).write_bytes(content)
    for opening in (Bm25Index.open, IndexWriter):
        with pytest.raises(IndexUnusable, match="damaged"):
            opening(index)


def test_missing_and_cut_segments_are_refused(index: Path) -> None:
    segment = next((index / "bm25").glob("*.store"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    for opening in (Bm25Index.open, IndexWriter):
        with pytest.raises(IndexUnusable, match="cannot be opened"):
            opening(index)
    segment.unlink()
    with pytest.raises(IndexUnusable, match="cannot be opened"):
        Bm25Index.open(index)
    segment.write_bytes(whole)
    assert len(Bm25Index.open(index)) == 10
    (index / "bm25" / "meta.json").unlink()
    with pytest.raises(IndexUnusable, match="files are missing"):
        Bm25Index.open(index)


def test_segments_that_do_not_match_the_manifest_are_refused(index: Path) -> None:
    head, body = (index / MANIFEST).read_bytes().splitlines()
    changed = json.loads(head)
    changed["after"]["passages"] += 1
    (index / MANIFEST).write_bytes(b"\n".join([json.dumps(changed).encode(), body, b""]))
    for opening in (Bm25Index.open, IndexWriter):
        with pytest.raises(IndexUnusable, match=r"\b10\b.*\b11\b"):
            opening(index)


def test_a_passage_damaged_on_disk_is_an_error_and_not_an_empty_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beliefrag.retrieval.writer.THREADS", 1)
    passages = [Passage(f"p{n}", "", f"text with the number {n} and some more words") for n in range(3000)]
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(passages)
    [segment] = (tmp_path / "index" / "bm25").glob("*.store")
    data = bytearray(segment.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 400] = bytes(byte ^ 0x5A for byte in data[middle : middle + 400])
    segment.write_bytes(data)
    index = Bm25Index.open(tmp_path / "index")
    with pytest.raises(RetrievalError, match="failed"):
        index.search("number", 3000)
