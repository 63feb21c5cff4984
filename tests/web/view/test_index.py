"""The index of a run: whole, incremental, rebuilt for another file; and the lists of episodes read from it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.record import Episode, Outcome
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import episode_line, read_summaries
from beliefrag.runs.summary import summarise, summarise_episodes
from beliefrag.types import Question
from beliefrag.web.view import RunSource
from beliefrag.web.view.index import (
    ORDERS,
    EpisodeFilter,
    Row,
    RunIndex,
    find_neighbours,
    list_episodes,
    list_same_question,
)
from tests.support.bench_runs import records
from tests.web.view.conftest import Played


@pytest.fixture
def folder(played: Played, tmp_path: Path) -> Path:
    """A run that a test may change."""
    return Path(shutil.copytree(played.run, tmp_path / "run"))


def ids(index: RunIndex) -> list[tuple[int, str]]:
    return [(row["id"], row["outcome"]) for row in index.rows("SELECT id, outcome FROM episodes ORDER BY id")]


def append(folder: Path, *episodes: Episode) -> None:
    with (folder / "episodes.jsonl").open("ab") as file:
        file.write(b"".join(map(episode_line, episodes)))


def renamed(episode: Episode, question_id: str, **changes: Any) -> Episode:
    return episode.model_copy(update={"question": Question("", question_id), **changes})


def test_the_index_holds_what_a_report_reads_from_the_file(folder: Path, tmp_path: Path) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    assert index.episodes() == read_summaries(folder)
    assert summarise_episodes(RunRecord.read(folder), index.episodes()) == summarise(folder)


def test_what_is_appended_is_taken_in_and_a_later_line_takes_the_place_of_an_earlier_one(
    folder: Path, tmp_path: Path
) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    end = index.refresh()
    failed = next(episode for episode in records(folder) if not episode.finished)
    before = ids(index)
    metrics = next(episode.metrics for episode in records(folder) if episode.finished)
    done = {"outcome": Outcome.ANSWERED, "answer": "Moss", "error": None, "metrics": metrics}
    append(folder, failed.model_copy(update=done), renamed(failed, "new"))
    assert index.refresh() > end
    after = dict(ids(index))
    assert len(after) == len(before) + 1
    number = next(number for number, outcome in before if outcome == "failed")
    assert after[number] == "answered"
    read = index.episode(number)
    assert read is not None and read.answer == "Moss"


def test_a_line_that_is_being_written_waits_for_its_end(folder: Path, tmp_path: Path) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    count = len(ids(index))
    line = episode_line(renamed(records(folder)[0], "slow"))
    with (folder / "episodes.jsonl").open("ab") as file:
        file.write(line[:100])
        file.flush()
        index.refresh()
        assert len(ids(index)) == count
        file.write(line[100:])
    index.refresh()
    assert len(ids(index)) == count + 1


@pytest.mark.parametrize("how", ["shorter", "another beginning", "another last line"])
def test_a_file_that_is_another_one_is_read_anew(folder: Path, tmp_path: Path, how: str) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    known = records(folder)
    changed = {
        "shorter": known[:3],
        "another beginning": [known[0].model_copy(update={"answer": "!" * 3000}), *known],
        "another last line": [*known[:-1], known[-1].model_copy(update={"answer": "?" * 3000})],
    }[how]
    (folder / "episodes.jsonl").write_bytes(b"".join(map(episode_line, changed)))
    index.refresh()
    assert index.episodes() == read_summaries(folder)


def test_an_index_is_kept_and_goes_on_in_another_process(folder: Path, tmp_path: Path) -> None:
    first = RunIndex(folder, tmp_path / "index.sqlite")
    first.refresh()
    first.store_questions("north", "hash", [LabelledQuestion(Question("Where?", "north-q0"), Gold(("Larvik",)))])
    first.close()
    again = RunIndex(folder, tmp_path / "index.sqlite")
    assert len(ids(again)) == len(records(folder))
    assert again.has_questions("north", "hash")
    assert not again.has_questions("north", "another hash")


def test_a_broken_line_in_the_middle_is_told_with_its_place(folder: Path, tmp_path: Path) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    with (folder / "episodes.jsonl").open("ab") as file:
        file.write(b'{"method": "static"}\n')
    with pytest.raises(RunError, match=r"byte [\d,]+ .*episodes\.jsonl.*required"):
        index.refresh()


@pytest.fixture(scope="module")
def source(played: Played) -> Iterator[RunSource]:
    opened = RunSource(played.run, [played.data])
    yield opened
    opened.close()


def found(source: RunSource, **wanted: object) -> list[Row]:
    total, rows = list_episodes(source.index, EpisodeFilter.model_validate({"limit": 500, **wanted}))
    assert total == len(rows)
    return rows


def test_words_are_sought_in_question_answer_gold_answer_id_and_error(source: RunSource) -> None:
    assert {row["question_id"] for row in found(source, text="SHIP north0")} == {"north-q0"}
    assert {row["answer"] for row in found(source, text="larvik")} == {"Larvik"}
    # Nobody answered Molde: it is the gold answer.
    assert {(row["question_id"], row["gold"]) for row in found(source, text="MOLDE")} == {
        ("north-q2", "Molde"),
        ("south-q2", "Molde"),
    }
    assert {row["question_id"] for row in found(source, text="../../etc")} == {"../../etc/passwd"}
    assert [row["outcome"] for row in found(source, text="TransportError")] == ["failed"]
    assert found(source, text="%") == []
    assert found(source, text="'; DROP TABLE episodes; --") == []


def test_each_filter_leaves_out_what_it_should(source: RunSource) -> None:
    assert {row["method"] for row in found(source, method="static")} == {"static"}
    assert {row["dataset"] for row in found(source, dataset="south")} == {"south"}
    assert len(found(source, outcome="failed")) == 1
    assert {row["correctness"] for row in found(source, correctness="partly")} == {"partly"}
    assert len(found(source, actions="verify rewrite")) == 1
    assert found(source, actions="VER") == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_pages_in_any_order_neither_repeat_nor_lose_an_episode(source: RunSource, order: str, direction: str) -> None:
    wanted = EpisodeFilter.model_validate({"order": order, "direction": direction, "limit": 5})
    pages = [list_episodes(source.index, wanted.model_copy(update={"offset": at})) for at in range(0, 25, 5)]
    ids = [row["id"] for _, page in pages for row in page]
    assert len(ids) == len(set(ids)) == 24


def test_what_has_no_value_comes_last_in_both_directions(source: RunSource) -> None:
    for direction in ("up", "down"):
        values = [row["f1"] for row in found(source, order="f1", direction=direction)]
        assert values[-1] is None
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=direction == "down")


def test_an_episode_knows_its_neighbours_in_the_listing_and_its_rivals(source: RunSource) -> None:
    rows = found(source, method="beliefrag", order="tokens")
    middle = find_neighbours(source.index, EpisodeFilter(method="beliefrag", order="tokens"), rows[1]["id"])
    assert middle == {"place": 2, "total": len(rows), "previous": rows[0]["id"], "next": rows[2]["id"]}
    outside = find_neighbours(source.index, EpisodeFilter(method="static"), rows[1]["id"])
    assert (outside["place"], outside["previous"], outside["next"]) == (0, None, None)
    rivals = list_same_question(source.index, rows[0]["id"])
    assert {row["method"] for row in rivals} == {"no_rag", "static", "beliefrag"}
    assert len({row["question_id"] for row in rivals}) == 1


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_list_by_questions_keeps_each_question_together_on_one_page(
    source: RunSource, order: str, direction: str
) -> None:
    wanted = EpisodeFilter.model_validate({"order": order, "direction": direction, "by": "question", "limit": 3})
    pages = [list_episodes(source.index, wanted.model_copy(update={"offset": at})) for at in range(0, 9, 3)]
    assert {total for total, _ in pages} == {8}
    rows = [row for _, page in pages for row in page]
    questions = [(row["dataset"], row["question_id"]) for row in rows]
    assert len({row["id"] for row in rows}) == len(rows) == 24
    assert len(list(itertools.groupby(questions))) == 8
    assert [len(page) for _, page in pages] == [9, 9, 6]
    second = find_neighbours(source.index, wanted, rows[1]["id"])
    assert (second["previous"], second["next"]) == (rows[0]["id"], rows[2]["id"])
