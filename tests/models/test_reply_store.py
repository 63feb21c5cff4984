from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
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


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "browser.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE history (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="is not ours"):
        ReplyStore(path)
    assert path.read_bytes() == before


def test_a_cache_of_another_version_is_refused_with_both_versions(path: Path) -> None:
    ReplyStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(SettingsError, match=r"version 7, not 2"):
        ReplyStore(path)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(SettingsError, match="reply cache"):
        ReplyStore(tmp_path, read_only=read_only)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="reply cache"):
        ReplyStore(tmp_path / "file" / "replies.sqlite", read_only=read_only)


def test_reading_only_needs_a_file_and_never_writes(path: Path) -> None:
    with pytest.raises(SettingsError, match="No reply cache exists at"):
        ReplyStore(path, read_only=True)
    assert not path.parent.exists()
    with ReplyStore(path) as store:
        store.put("k", "m", REPLY)
    with ReplyStore(path, read_only=True) as store:
        assert store.get("k") == REPLY
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.put("j", "m", REPLY)


def test_processes_that_make_the_file_at_the_same_time_share_it(path: Path) -> None:
    children = [child(path, name, 15) for name in "abcd"]
    assert [one.wait(300) for one in children] == [0] * 4
    for one in children:
        assert one.stdout is not None
        one.stdout.close()
    with ReplyStore(path) as store:
        assert store.count() == {"child": 60}


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
