"""Each reason for which an index cannot be written has its own remedy, also where the engine hides the reason."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from beliefrag.errors import CorpusError
from beliefrag.retrieval import IndexUnusable, IndexWriter
from beliefrag.retrieval.store import explain_write_errors
from beliefrag.types import Passage

KILLED = (
    "An error occurred in a thread: 'An index writer was killed.. A worker thread encountered an error (io::Error most "
    "likely) or panicked.'"
)
AGAIN = "then index the documents again: what was committed is kept."
REMEDIES = [
    (errno.ENOSPC, f"Free some space or name a folder on another disk, {AGAIN}"),
    (errno.EDQUOT, f"Free some space or name a folder on another disk, {AGAIN}"),
    (
        errno.EFBIG,
        "Free some space, raise the limit on the size of a file (ulimit -f) or name a folder on another disk, " + AGAIN,
    ),
    (errno.EACCES, "Check its permissions, or name a folder that can be written to."),
    (errno.EPERM, "Check its permissions, or name a folder that can be written to."),
    (errno.EROFS, "Check its permissions, or name a folder that can be written to."),
    (errno.ENOTDIR, "A file is in the way: name a folder."),
    (errno.EEXIST, "A file is in the way: name a folder."),
    (errno.EIO, "Check free space and permissions, then run again: what was committed is kept."),
]


def explain(index: Path, problem: Exception) -> CorpusError:
    with pytest.raises(CorpusError) as raised, explain_write_errors(index):
        raise problem
    return raised.value


@pytest.mark.parametrize(("number", "remedy"), REMEDIES)
def test_each_error_of_the_system_has_its_remedy(tmp_path: Path, number: int, remedy: str) -> None:
    words = os.strerror(number)
    quoted = f'OpenWriteError(IoError {{ io_error: Os {{ code: {number}, kind: Other, message: "{words}" }} }})'
    for problem in (OSError(number, words), ValueError(quoted), ValueError(f"'{words} (os error {number})'")):
        error = explain(tmp_path, problem)
        assert error.message == f"The index {tmp_path} cannot be written: {words}."
        assert error.remedy == remedy


def test_an_index_in_the_cache_folder_is_moved_by_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    remedy = explain(tmp_path / "indexes" / "0123", OSError(errno.ENOSPC, "No space left on device")).remedy
    assert remedy == f"Free some space or set BELIEFRAG_CACHE_DIR to a folder on another disk, {AGAIN}"


@pytest.mark.parametrize("problem", [ValueError(KILLED), OSError("12800 requested and 0 written")])
@pytest.mark.parametrize(("number", "remedy"), REMEDIES[:6])
def test_where_the_engine_hides_the_reason_a_small_write_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, number: int, remedy: str
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("beliefrag.retrieval.store.os.fsync", refuse)
    error = explain(tmp_path, problem)
    assert error.message == f"The index {tmp_path} cannot be written: {os.strerror(number)}."
    assert error.remedy == remedy


def test_where_the_small_write_succeeds_the_disk_is_doubted(tmp_path: Path) -> None:
    error = explain(tmp_path, ValueError(KILLED))
    assert error.message == f"The index {tmp_path} cannot be written: the disk is full or failing."
    assert error.remedy == f"Free some space or name a folder on another disk, {AGAIN}"
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_not_taken_for_a_damaged_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        writer.add([Passage("a", "", "a lighthouse")])

    def refuse(_: str) -> None:
        raise ValueError('Os { code: 28, kind: StorageFull, message: "No space left on device" }')

    monkeypatch.setattr("beliefrag.retrieval.writer.tantivy.Index", type("Full", (), {"open": refuse}))
    with pytest.raises(CorpusError, match="No space left on device") as raised:
        IndexWriter(tmp_path / "index")
    # An index that cannot be used is removed from the cache and built again.
    assert not isinstance(raised.value, IndexUnusable)
