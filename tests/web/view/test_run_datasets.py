"""Datasets beside a run: recognised by what is in them, not by their name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from beliefrag.cli import main
from beliefrag.runs.record import RunRecord
from beliefrag.web.view import RunSource
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.schema import NotAvailable
from tests.support.bench_runs import BORROWED, records, write_script
from tests.support.study_data import write_snippets
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


def test_prompts_need_the_cache_that_the_run_was_made_with(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    source = RunSource(played.run, [played.data])
    absent = source.prompts(1).absent
    source.close()
    assert "cannot be rebuilt here" in absent


def test_a_run_with_false_passages_is_shown_with_them_and_its_prompts_are_made_again(
    cache: Path, tmp_path: Path
) -> None:
    data, run = write_snippets(tmp_path), tmp_path / "run"
    told = ("--counterfactual", "0.4", "--split", "fact", "--methods", "static", "--no-judge", "--yes", *BORROWED)
    main(["bench", "run", "--data", str(data), "--model", write_script(tmp_path), "--out", str(run), *told])
    source = RunSource(run, [data])
    episode, prompts = source.episode(1), source.prompts(1)
    source.close()
    assert episode.notes == ()
    assert any("wrong" in name and passage.text for name, passage in episode.passages.items())
    assert prompts.absent == ""
    assert any("wrong" in line["injected"]["counterfactual"][0] for line in records(run))


def test_prompts_that_would_come_out_differently_are_not_shown(played: Played, tmp_path: Path, data: Path) -> None:
    run = Path(shutil.copytree(played.run, tmp_path / "run"))
    file = run / "episodes.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    first, second = [place for place, line in enumerate(lines) if line["calls"]][:2]
    lines[first]["calls"][0]["reply"] = "something else"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = RunSource(run, [data])
    assert "went another way" in source.prompts(first + 1).absent
    assert source.prompts(second + 1).absent == ""
    source.close()
