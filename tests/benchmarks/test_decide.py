"""A part of the comparison is replayed from the committed replies, without a model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from beliefrag.models.reply_store import ReplyStore, import_lines
from beliefrag.paths import cache_dir
from beliefrag.runs.store import read_summaries
from benchmarks.decide.runs import RUNS, make_run
from benchmarks.decide.tables import collect_numbers
from benchmarks.find.mixed_corpus import data_folder

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DATA = data_folder().absolute()
SET = "musique"
QUESTIONS = 5


@pytest.mark.skipif(not (DATA / SET).exists(), reason="the benchmark data is not here (BELIEFRAG_DATA)")
def test_a_part_of_the_comparison_is_replayed_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BELIEFRAG_DATA", str(DATA))
    cache_dir().mkdir(parents=True)
    replies = gzip.decompress((RESULTS / "decide_replies.jsonl.gz").read_bytes())
    with ReplyStore(cache_dir() / "replies.sqlite") as store:
        assert import_lines(replies.splitlines(keepends=True), store).added > 100
    run = make_run(RUNS["linked_packed"], QUESTIONS, tmp_path, datasets=[SET], replay=True)
    found = read_summaries(run.folder)
    assert len(found) == 2 * QUESTIONS
    assert all(summary.finished for summary in found.values()), "a reply is missing: the prompts or the ranking changed"
    rows = {row["method"]: row for row in collect_numbers(tmp_path)["rows"]}
    assert rows["lean"]["datasets"][SET]["f1"]["value"] == rows["static"]["datasets"][SET]["f1"]["value"]


def test_the_committed_numbers_say_how_many_questions_they_rest_on() -> None:
    numbers = json.loads((RESULTS / "decide.json").read_text("utf-8"))
    page = (RESULTS / "decide.md").read_text("utf-8")
    for row in numbers["rows"]:
        for one in row["datasets"].values():
            assert one["n"] >= 10 and one["f1"]["low"] <= one["f1"]["value"] <= one["f1"]["high"]
            assert f"{one['f1']['value']:.3f}" in page
