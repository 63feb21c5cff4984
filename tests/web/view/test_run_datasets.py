"""Datasets beside a run: recognised by what is in them, not by their name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from beliefrag.bench.own_questions import OwnDocuments
from beliefrag.cli import main
from beliefrag.runs.record import RunRecord
from beliefrag.web.view import RunSource
from beliefrag.web.view.index import EpisodeFilter, list_episodes
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.schema import NotAvailable
from tests.support.bench_runs import write_script
from tests.support.messages import mentions
from tests.web.view.conftest import Played


@pytest.fixture
def data(played: Played, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played.data, tmp_path / "data"))


def datasets(played: Played, *folders: Path) -> RunDatasets:
    return RunDatasets(folders, RunRecord.read(played.run).datasets)


def test_a_dataset_is_found_by_its_folder_or_in_a_folder_of_datasets(played: Played) -> None:
    for folder in (played.data, played.data / "north"):
        assert datasets(played, folder).get("north").questions["north-q0"].gold.answers == ("Larvik",)


def test_gold_of_another_dataset_of_the_same_name_is_not_shown(played: Played, data: Path) -> None:
    file = data / "north" / "questions.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace("Larvik", "Oslo"), encoding="utf-8")
    with pytest.raises(NotAvailable, match="gold answers than"):
        datasets(played, data).get("north")


def test_passages_of_another_corpus_are_not_shown_but_its_gold_is(played: Played, data: Path) -> None:
    file = data / "north" / "corpus.jsonl"
    more = {"id": "extra", "title": "More", "text": "Another passage."}
    file.write_text(file.read_text(encoding="utf-8") + json.dumps(more) + "\n", encoding="utf-8")
    found = datasets(played, data).get("north")
    assert found.passages == {}
    assert "passages are not shown" in found.note
    assert found.questions["north-q0"].gold.answers == ("Larvik",)


def test_a_dataset_that_is_not_here_is_said_with_what_to_do(played: Played, tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="BELIEFRAG_DATA"):
        datasets(played, tmp_path, tmp_path / "nothing").get("north")


@pytest.fixture
def own_run(cache: Path, tmp_path: Path) -> Path:
    """A run over somebody's own questions and documents, which lie in `own` beside it."""
    home = tmp_path / "own"
    (home / "docs").mkdir(parents=True)
    (home / "docs" / "fram.md").write_text("# Fram\n\nThe Fram was designed by Colin Archer.\n", encoding="utf-8")
    (home / "asked.csv").write_text("question,answers\nWho designed the Fram?,Colin Archer\n", encoding="utf-8")
    what = ("--questions", str(home / "asked.csv"), "--docs", str(home / "docs"), "--out", str(tmp_path / "run"))
    main(["bench", "run", *what, "--methods", "static", "--model", write_script(tmp_path), "--no-judge", "--yes"])
    return tmp_path / "run"


def own(home: Path) -> OwnDocuments:
    return OwnDocuments(home / "asked.csv", (home / "docs",))


def test_a_run_over_own_documents_shows_questions_gold_answers_and_passages(own_run: Path, tmp_path: Path) -> None:
    source = RunSource(own_run, own=own(tmp_path / "own"))
    episode = source.episode(1)
    _, (row,) = list_episodes(source.index, EpisodeFilter(text="colin archer"))
    source.close()
    assert (episode.question, row["question"]) == ("Who designed the Fram?",) * 2
    assert episode.gold is not None
    assert episode.gold.answers == ("Colin Archer",)
    (passage,) = episode.passages.values()
    assert "The Fram was designed by Colin Archer." in (passage.text if passage else "")
    assert episode.notes == ()
    # The run can be given away: it names no folder.
    assert str(own_run.parent / "own").encode() not in (own_run / "run.json").read_bytes()


def test_own_documents_that_were_moved_are_named_to_the_viewer(own_run: Path, tmp_path: Path) -> None:
    moved = (tmp_path / "own").rename(tmp_path / "moved")
    source = RunSource(own_run)
    episode = source.episode(1)
    source.close()
    assert episode.question is None
    assert "--questions" in episode.notes[0]
    source = RunSource(own_run, own=own(moved))
    assert source.episode(1).question == "Who designed the Fram?"
    source.close()


def test_own_documents_that_were_changed_are_not_taken_for_those_of_the_run(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / "docs" / "fram.md").write_text("# Fram\n\nSomebody else did.\n", encoding="utf-8")
    source = RunSource(own_run, own=own(tmp_path / "own"))
    episode = source.episode(1)
    source.close()
    assert episode.question == "Who designed the Fram?"
    assert set(episode.passages.values()) == {None}
    assert mentions(episode.notes[0], "corpus", "passages are not shown")
