"""The comparison that decides: its episodes are replayed from the committed replies, and its page follows from them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.models.cache import ReplyStore, import_replies
from beliefrag.settings import cache_dir
from beliefrag.types import Action
from benchmarks.decide.__main__ import main
from benchmarks.decide.episodes import EpisodeRow, read_rows, write_rows
from benchmarks.decide.numbers import collect_numbers
from benchmarks.decide.replay import take_first
from benchmarks.decide.replies import find_used_replies, write_replies
from benchmarks.decide.tables import MARK, format_tables
from benchmarks.find.mixed_corpus import data_folder

RESULTS = Path(__file__).parents[2] / "docs" / "results"
REPLIES = RESULTS / "decide_replies.jsonl.gz"
EPISODES = RESULTS / "decide_episodes.csv"
DATA = data_folder().absolute()
SET = "musique"
QUESTIONS = 5
needs_data = pytest.mark.skipif(not (DATA / SET).exists(), reason="the benchmark data is not here (BELIEFRAG_DATA)")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BELIEFRAG_DATA", str(DATA))


@pytest.fixture
def part(tmp_path: Path) -> list[EpisodeRow]:
    """Every committed run on the first questions of one set."""
    rows = take_first([row for row in read_rows(EPISODES) if row.dataset == SET], QUESTIONS)
    assert len(rows) >= 2 * QUESTIONS
    write_rows(rows, tmp_path / "part.csv")
    return rows


def read_replies(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def replay(like: Path, out: Path) -> int:
    return main(["replay", "--replies", str(REPLIES), "--like", str(like), "--out", str(out)])


@needs_data
def test_the_replies_of_a_run_are_written_without_others_and_as_the_same_bytes_from_any_cache(
    tmp_path: Path, part: list[EpisodeRow], capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows([row for row in part if row.run == "linked_packed"], tmp_path / "one_run.csv")
    assert replay(tmp_path / "one_run.csv", tmp_path / "out") == 0
    assert main(["replies", "--out", str(tmp_path / "out"), "--file", str(tmp_path / "first.gz")]) == 0
    written = read_replies(tmp_path / "first.gz")
    committed = {line["key"]: line for line in read_replies(REPLIES)}
    keys = [line["key"] for line in written]
    assert keys == sorted(set(keys)) and len(keys) < len(committed)
    assert all(line["reply"]["text"] == committed[line["key"]]["reply"]["text"] for line in written)
    assert all(set(line) == {"key", "model", "created", "reply", "seal"} for line in written)
    (cache_dir() / "replies.sqlite").unlink()
    assert import_replies(tmp_path / "first.gz").added == len(keys)
    folders = sorted((tmp_path / "out").iterdir())
    write_replies(find_used_replies(folders, [DATA]).replies, tmp_path / "second.gz")
    assert (tmp_path / "first.gz").read_bytes() == (tmp_path / "second.gz").read_bytes()

    # An episode whose reply is gone is named, and nothing is written.
    with ReplyStore(cache_dir() / "replies.sqlite") as store:
        store._db.execute("DELETE FROM replies WHERE key = ?", (keys[0],))
    capsys.readouterr()
    assert main(["replies", "--out", str(tmp_path / "out"), "--file", str(tmp_path / "third.gz")]) == 1
    assert "a reply is not in the cache" in capsys.readouterr().err
    assert not (tmp_path / "third.gz").exists()


@needs_data
def test_a_table_that_was_altered_is_not_what_the_replies_give(
    tmp_path: Path, part: list[EpisodeRow], capsys: pytest.CaptureFixture[str]
) -> None:
    few = [row for row in part if row.run == "linked_packed"]
    better = replace(few[0], f1=0.987)
    cheaper = replace(few[1], tokens=1, outcome="abstained")
    unknown = replace(few[2], question="nobody asked this")
    write_rows([better, cheaper, unknown, *few[3:]], tmp_path / "altered.csv")
    assert replay(tmp_path / "altered.csv", tmp_path / "out") == 1
    told = capsys.readouterr()
    assert f"{len(few) - 3} of {len(few)} episodes are equal" in told.out
    assert f"{' '.join(better.key)}: f1 0.987 is now {few[0].f1}" in told.err
    assert f"{' '.join(cheaper.key)}: outcome abstained is now {few[1].outcome}, tokens 1 is now" in told.err
    assert f"{' '.join(unknown.key)}: missing in the replay" in told.err


def test_all_committed_numbers_and_tables_follow_from_the_committed_episodes() -> None:
    numbers = collect_numbers(read_rows(EPISODES))
    committed = json.loads((RESULTS / "decide.json").read_text("utf-8"))
    assert list(leaves(committed)) == pytest.approx(list(leaves(json.loads(json.dumps(numbers)))))
    assert (RESULTS / "decide.md").read_text("utf-8").partition(MARK)[2].strip() == format_tables(numbers)


def leaves(held: object) -> Iterator[object]:
    """Yield all values of a tree in order, with the names on the way."""
    if isinstance(held, dict):
        for name, below in held.items():
            yield name
            yield from leaves(below)
    elif isinstance(held, list):
        for below in held:
            yield from leaves(below)
    else:
        yield held


def test_the_committed_episodes_hold_no_texts() -> None:
    for row in read_rows(EPISODES):
        assert set((row.actions or "").split()) <= set(Action)
        parts = dict(each.split("=") for each in (row.tokens_by_purpose or "").split())
        assert sum(map(int, parts.values())) == row.tokens == row.tokens_in + row.tokens_out


def test_a_table_of_episodes_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = read_rows(EPISODES)
    write_rows(rows, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == EPISODES.read_bytes()
