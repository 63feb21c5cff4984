"""A damaged reply is never given out as true: not after an edit, not after a flipped bit, not from an older store."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from beliefrag.errors import BeliefRAGError, ReplayMiss, SettingsError
from beliefrag.models.cache import CachedModel, DamagedReplyError, ReplyStore, export_lines, import_replies, reply_key
from beliefrag.models.protocol import ChatReply
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
    assert f"{reply_key(cache.identity, ask())[:12]} is damaged" in caplog.text
    assert (await cache.chat(ask())).cached
    assert gated.asked == 2
    await cache.aclose()


async def test_a_replay_counts_a_damaged_reply_as_missing_and_logs_why(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gated = Gated()
    gated.gate.set()
    live = CachedModel(gated, path)
    await live.chat(ask())
    await live.aclose()
    edit(path, "UPDATE replies SET created = 1")
    replay = CachedModel(gated, path, replay=True)
    with pytest.raises(ReplayMiss):
        await replay.chat(ask())
    assert "is damaged" in caplog.text
    assert len(replay.missing_keys) == 1
    await replay.aclose()


def test_an_exported_line_that_was_edited_is_refused(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "other"))
    with ReplyStore(filled, read_only=True) as store:
        lines = list(export_lines(store))
    file = tmp_path / "replies.jsonl"
    file.write_bytes(b"".join([*lines[:2], lines[2].replace(b"reply 3", b"reply 4")]))
    with pytest.raises(SettingsError, match="Line 3 was changed"):
        import_replies(file)
    before_there_were_seals = json.loads(lines[0])
    del before_there_were_seals["seal"]
    file.write_bytes(b"".join([json.dumps(before_there_were_seals).encode() + b"\n", *lines[1:]]))
    assert import_replies(file).added == len(REPLIES), "nothing of the damaged file was taken"


@pytest.mark.parametrize("found_when", ["opened", "read"])
def test_a_damaged_file_is_set_aside_and_what_lies_on_whole_pages_is_copied(
    filled: Path, found_when: str, caplog: pytest.LogCaptureFixture
) -> None:
    size = 4096
    whole = filled.read_bytes()
    text = b"reply 1 " if found_when == "opened" else b"reply 100 reply 100"
    place = whole.index(text) // size * size
    filled.write_bytes(whole[:place] + b"\xff" * size + whole[place + size :])
    before = filled.read_bytes()
    with ReplyStore(filled) as store:
        found = {key: store.get(key) for key in REPLIES}
        kept = list(store)
    assert 150 <= len(kept) < 200
    assert all(
        reply is None or dataclasses.replace(reply, cached=False) == REPLIES[key] for key, reply in found.items()
    )
    assert all(dataclasses.replace(stored.reply, cached=False) == REPLIES[stored.key] for stored in kept)
    (aside,) = filled.parent.glob("replies.sqlite.damaged-*[0-9]")
    assert aside.read_bytes() == before
    assert caplog.text.count("was damaged") == 1
    assert f"{len(kept)} readable replies" in caplog.text
    assert not [file.name for file in filled.parent.iterdir() if ".new" in file.name]


def test_a_replay_leaves_a_damaged_file_alone_and_says_what_to_do(filled: Path) -> None:
    filled.write_bytes(b"x" * 9_000)
    with pytest.raises(SettingsError, match="without replay"):
        ReplyStore(filled, read_only=True)
    assert sorted(file.name for file in filled.parent.iterdir()) == ["replies.sqlite", "replies.sqlite.lock"]
    assert filled.read_bytes() == b"x" * 9_000


@pytest.mark.parametrize(
    ("damage", "share"),
    [
        (lambda data: data[: len(data) // 2], 0.25),
        (lambda data: bytes(100) + data[100:], 1),
        (lambda data: data[100:], 1),
    ],
)
def test_a_file_that_lost_a_part_keeps_the_replies_of_the_rest(
    filled: Path, damage: Callable[[bytes], bytes], share: float
) -> None:
    filled.write_bytes(damage(filled.read_bytes()))
    with ReplyStore(filled) as store:
        kept = [key for key in REPLIES if store.get(key) is not None]
    assert len(kept) >= share * len(REPLIES)
    assert not list(filled.parent.glob("*.patched"))
