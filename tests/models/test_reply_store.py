from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.errors import SettingsError
from beliefrag.models.cache import ReplyStore
from beliefrag.models.protocol import ChatReply, TokenProbability

REPLY = ChatReply(
    "Zürich\u2028\n",
    tokens_in=12,
    tokens_out=3,
    seconds=1.25,
    counted_by="sevens-v1",
    tokens=(TokenProbability("Z", -0.1, (("Z", -0.1), ("B", -3.0))), TokenProbability("ürich", -9999.0)),
    cached=True,
    retries=2,
    wasted_tokens=40,
)

CHILD = """
import sys
from beliefrag.models.protocol import ChatReply
from beliefrag.models.cache import ReplyStore

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with ReplyStore(path) as store:
    for n in range(count):
        store.put(f"{name}-{n}", "child", ChatReply("x" * (n % 5000), 1, 1, 0.0))
        print(f"{name}-{n}", flush=True)
"""


def child(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "replies #1?.sqlite"


def test_a_reply_comes_back_whole_from_a_file_that_was_closed(path: Path) -> None:
    with ReplyStore(path) as store:
        assert store.get("k") is None
        assert store.put("k", "m", REPLY) == REPLY
    with ReplyStore(path) as store:
        assert store.get("k") == REPLY
        assert store.get("K") is None


@settings(max_examples=50, deadline=None)
@given(
    text=st.text(st.characters(codec=None)),
    tokens=st.none() | st.lists(st.tuples(st.text(), st.floats(max_value=0)), max_size=3),
)
def test_any_text_and_any_probability_come_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, tokens: list[tuple[str, float]] | None
) -> None:
    told = None if tokens is None else tuple(TokenProbability(t, p, ((t, p),)) for t, p in tokens)
    reply = ChatReply(text, 1, 2, 0.5, tokens=told, cached=True)
    with ReplyStore(tmp_path_factory.getbasetemp() / "any.sqlite") as store:
        key = str(time.perf_counter_ns())
        store.put(key, "m", reply)
        assert store.get(key) == reply


def test_the_first_reply_stays_and_a_later_writer_is_given_it(path: Path) -> None:
    later = ChatReply("Berne", 1, 1, 0.0)
    with ReplyStore(path) as one, ReplyStore(path) as two:
        assert one.get("k") is two.get("k") is None
        one.put("k", "m", REPLY)
        assert two.put("k", "m", later) == REPLY
        assert two.get("k") == one.get("k") == REPLY


def test_replies_can_be_read_while_another_process_writes(path: Path) -> None:
    with ReplyStore(path) as store:
        store.put("k", "m", REPLY)
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("DELETE FROM replies")
        started = time.monotonic()
        assert store.get("k") == REPLY
        assert time.monotonic() - started < 2
        writer.execute("ROLLBACK")
        writer.close()


def test_what_is_there_can_be_counted_and_listed(path: Path) -> None:
    with ReplyStore(path) as store:
        for n in range(60):
            store.put(f"{n:03}", "big" if n % 3 else "small", ChatReply("x" * 20_000, 1, 1, 0.0))
        assert store.count() == {"big": 40, "small": 20}
        entries = list(store)
        assert [entry.key for entry in entries] == [f"{n:03}" for n in range(60)]
        assert abs(entries[0].created - time.time()) < 60
        assert (entries[1].model, entries[1].reply.text) == ("big", "x" * 20_000)


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "browser.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE history (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="is not ours"):
        ReplyStore(path)
    assert path.read_bytes() == before


def test_reading_only_needs_a_file_and_never_writes(path: Path) -> None:
    with pytest.raises(SettingsError, match="no reply cache at"):
        ReplyStore(path, read_only=True)
    assert not path.parent.exists()
    with ReplyStore(path) as store:
        store.put("k", "m", REPLY)
    with ReplyStore(path, read_only=True) as store:
        assert store.get("k") == REPLY
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.put("j", "m", REPLY)


@contextmanager
def not_root() -> Iterator[None]:
    """Permissions do not hold root back, so root becomes nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_replay_reads_a_file_in_a_folder_that_cannot_be_written_to() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies.sqlite"
        with ReplyStore(path) as store:
            store.put("k", "m", REPLY)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        try:
            with not_root(), ReplyStore(path, read_only=True) as store:
                assert store.get("k") == REPLY
            for unwritable in (path, Path(folder) / "new.sqlite", Path(folder) / "new" / "replies.sqlite"):
                with not_root(), pytest.raises(SettingsError, match="cannot be") as caught:
                    ReplyStore(unwritable)
                assert "BELIEFRAG_CACHE_DIR" in caught.value.remedy
        finally:
            Path(folder).chmod(0o755)


def test_a_killed_process_loses_no_reply_that_it_reported_as_stored(path: Path) -> None:
    reported: list[str] = []
    for round_ in range(3):
        victim, survivor = child(path, f"victim{round_}", 10**9), child(path, f"survivor{round_}", 20)
        assert victim.stdout is not None
        assert survivor.stdout is not None
        reported += [victim.stdout.readline().strip() for _ in range(15 * (round_ + 1))]
        victim.kill()
        reported += victim.stdout.read().split("\n")[:-1]
        reported += survivor.communicate(timeout=300)[0].split()
        assert (victim.wait(), survivor.returncode) == (-9, 0)
        victim.stdout.close()
    assert len(reported) >= 15 + 30 + 45 + 3 * 20
    with ReplyStore(path) as store:
        assert [key for key in reported if store.get(key) is None] == []
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
