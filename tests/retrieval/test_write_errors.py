"""Each reason for which an index cannot be written has its own remedy."""

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
REMEDIES = [
    (errno.ENOSPC, "Free some space"),
    (errno.EDQUOT, "Free some space"),
    (errno.EFBIG, "Free some space"),
    (errno.EACCES, "Check its permissions"),
    (errno.EROFS, "Check its permissions"),
    (errno.ENOTDIR, "A file is in the way"),
    (errno.EIO, "Check free space and permissions"),
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
        assert error.remedy.startswith(remedy)


@pytest.mark.parametrize("problem", [ValueError(KILLED), OSError("12800 requested and 0 written")])
def test_where_the_engine_hides_the_reason_the_disk_is_doubted(tmp_path: Path, problem: Exception) -> None:
    error = explain(tmp_path, problem)
    assert error.message == f"The index {tmp_path} cannot be written: the disk is full or failing."
    assert error.remedy.startswith("Free some space")


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
