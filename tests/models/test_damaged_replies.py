"""A damaged reply is never given out as true: not after an edit, not after a flipped bit, not from an older store."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from beliefrag.errors import BeliefRAGError, ReplayMiss, SettingsError
from beliefrag.models.protocol import ChatReply
from beliefrag.models.reply_repair import repair_store
from beliefrag.models.reply_store import DamagedReplyError, ReplyStore, export_lines, import_lines
from beliefrag.models.with_cache import CachedModel, reply_key
from tests.support.chat import Gated, ask

REPLIES = {f"{number:064x}": ChatReply(f"reply {number} " * (number % 60), number, 1, 0.5) for number in range(1, 201)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    with ReplyStore(path) as store:
        for key, reply in REPLIES.items():
            store.put(key, "m", reply)
    return path


def edit(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


def make_unsealed(path: Path) -> None:
    """Turns a store into one of version 1."""
    edit(path, "ALTER TABLE replies DROP COLUMN seal")
    edit(path, "PRAGMA user_version = 1")


@pytest.mark.parametrize(
    "change",
    [
        "reply = replace(reply, 'reply 7', 'reply 8')",
        "model = 'other'",
        "created = created + 1",
        "seal = NULL",
        "reply = CAST(x'7b22ff' AS TEXT)",
        "reply = 5",
    ],
)
def test_a_row_that_was_edited_is_not_given_out(filled: Path, change: str) -> None:
    key = f"{7:064x}"
    edit(filled, f"UPDATE replies SET {change} WHERE key = ?", key)
    with ReplyStore(filled, read_only=True) as store:
        with pytest.raises(DamagedReplyError):
            store.get(key)
        assert store.get(f"{8:064x}") == dataclasses.replace(REPLIES[f"{8:064x}"], cached=True)


def test_a_flipped_bit_anywhere_in_the_file_gives_no_other_reply(filled: Path) -> None:
    whole = filled.read_bytes()
    rng = random.Random(5)
    damaged = 0
    for _ in range(60):
        place = rng.randrange(100, len(whole))
        filled.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(8))]) + whole[place + 1 :])
        try:
            with ReplyStore(filled, read_only=True) as store:
                for key, reply in REPLIES.items():
                    try:
                        found = store.get(key)
                    except DamagedReplyError:
                        damaged += 1
                    else:
                        assert found is None or dataclasses.replace(found, cached=False) == reply
        except (BeliefRAGError, sqlite3.DatabaseError):
            continue
    assert damaged > 10


async def test_a_damaged_reply_is_asked_for_again_once_and_stored_anew(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gated = Gated()
    gated.gate.set()
    cache = CachedModel(gated, path)
    first = await cache.chat(ask())
    edit(path, "UPDATE replies SET reply = replace(reply, '\"tokens_out\":2', '\"tokens_out\":3')")
    with caplog.at_level(logging.WARNING):
        again = await cache.chat(ask())
    assert (again.text, again.cached, gated.asked) == (first.text, False, 2)
    assert reply_key(cache.identity, ask())[:12] in caplog.text
    assert (await cache.chat(ask())).cached
    assert gated.asked == 2
    await cache.aclose()


async def test_a_replay_counts_a_damaged_reply_as_missing_and_says_why(path: Path) -> None:
    gated = Gated()
    gated.gate.set()
    live = CachedModel(gated, path)
    await live.chat(ask())
    await live.aclose()
    edit(path, "UPDATE replies SET created = 1")
    replay = CachedModel(gated, path, replay=True)
    with pytest.raises(ReplayMiss, match="damaged"):
        await replay.chat(ask())
    assert len(replay.missing_keys) == 1
    await replay.aclose()


def test_a_store_of_version_1_is_sealed_when_it_is_first_written_to(filled: Path) -> None:
    make_unsealed(filled)
    edit(filled, "UPDATE replies SET reply = '{' WHERE key = ?", f"{9:064x}")
    with ReplyStore(filled, read_only=True) as store:
        assert store.get(f"{8:064x}") is not None
    with ReplyStore(filled) as store:
        assert store.get(f"{8:064x}") == dataclasses.replace(REPLIES[f"{8:064x}"], cached=True)
        with pytest.raises(DamagedReplyError):
            store.get(f"{9:064x}")
    edit(filled, "UPDATE replies SET reply = replace(reply, 'reply 8', 'reply 9')")
    with ReplyStore(filled, read_only=True) as store, pytest.raises(DamagedReplyError):
        store.get(f"{8:064x}")


def test_an_exported_line_that_was_edited_is_refused(filled: Path, tmp_path: Path) -> None:
    with ReplyStore(filled, read_only=True) as store:
        lines = list(export_lines(store))
    with ReplyStore(tmp_path / "other.sqlite") as other:
        with pytest.raises(SettingsError, match="Line 3 was changed"):
            import_lines([*lines[:2], lines[2].replace(b"reply 3", b"reply 4")], other)
        before_there_were_seals = json.loads(lines[0])
        del before_there_were_seals["seal"]
        assert import_lines([json.dumps(before_there_were_seals).encode(), *lines[1:]], other).added == len(REPLIES)


def test_a_repair_of_a_sound_file_removes_the_damaged_replies_and_no_other(filled: Path) -> None:
    edit(filled, "UPDATE replies SET reply = replace(reply, 'reply 7', 'reply 8') WHERE key = ?", f"{7:064x}")
    report = repair_store(filled)
    assert (report.kept, report.damaged, report.unreadable, report.set_aside) == (199, [f"{7:064x}"], 0, None)
    with ReplyStore(filled) as store:
        assert store.get(f"{7:064x}") is None
        assert len(list(store)) == 199


@pytest.mark.parametrize("unsealed", [False, True])
def test_a_repair_of_a_damaged_file_keeps_what_lies_on_whole_pages(filled: Path, unsealed: bool) -> None:
    if unsealed:
        make_unsealed(filled)
    size = 4096
    whole = filled.read_bytes()
    place = whole.index(b"reply 100 reply 100") // size * size
    filled.write_bytes(whole[:place] + b"\xff" * size + whole[place + size :])
    before = filled.read_bytes()
    report = repair_store(filled)
    assert 150 <= report.kept < 200
    assert report.kept + report.unreadable + len(report.damaged) >= 200
    assert report.set_aside is not None
    assert report.set_aside.read_bytes() == before
    with ReplyStore(filled) as store:
        kept = list(store)
    assert len(kept) == report.kept
    assert all(dataclasses.replace(stored.reply, cached=False) == REPLIES[stored.key] for stored in kept)
    assert [file.name for file in filled.parent.iterdir() if "rebuilt" in file.name] == []


def test_a_repair_of_a_whole_store_changes_nothing(filled: Path) -> None:
    before = filled.read_bytes()
    report = repair_store(filled)
    assert (report.kept, report.damaged, report.unreadable, report.set_aside) == (200, [], 0, None)
    assert filled.read_bytes() == before


def test_what_cannot_be_read_at_all_is_left_where_it_is(filled: Path) -> None:
    filled.write_bytes(b"x" * 9_000)
    with pytest.raises(SettingsError, match="Nothing can be read"):
        repair_store(filled)
    assert filled.read_bytes() == b"x" * 9_000
