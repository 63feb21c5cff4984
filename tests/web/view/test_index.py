"""The index of a run: whole, incremental, and made again where the file is another one."""

from __future__ import annotations

import shutil
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
from beliefrag.web.view.index import RunIndex
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


def test_an_episode_is_read_by_where_its_line_lies(folder: Path, tmp_path: Path) -> None:
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    assert [index.episode(number) for number, _ in ids(index)] == records(folder)
    assert index.episode(10_000) is None


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


def test_half_a_surrogate_pair_in_an_answer_stops_nothing(folder: Path, tmp_path: Path) -> None:
    append(folder, renamed(records(folder)[0], "half", answer="a\ud800b"))
    index = RunIndex(folder, tmp_path / "index.sqlite")
    index.refresh()
    found = index.rows("SELECT id, answer FROM episodes WHERE question_id = 'half'")[0]
    assert found["answer"] == "a?b"
    read = index.episode(found["id"])
    assert read is not None and read.answer == found["answer"]


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


def test_where_nothing_can_be_written_the_index_is_in_memory(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    index = RunIndex(folder, tmp_path / "file" / "index.sqlite")
    index.refresh()
    assert len(ids(index)) == len(records(folder))


def test_a_run_that_has_not_begun_has_no_episodes(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, tmp_path / "index.sqlite")
    assert index.refresh() == 0
    assert index.episodes() == {}
