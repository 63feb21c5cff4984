"""A part of the comparison is replayed from the committed replies, without a model."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from beliefrag.models.reply_store import ReplyStore, import_lines
from beliefrag.paths import cache_dir
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.run_files import read_summaries
from benchmarks.decide.runs import RUNS, make_run
from benchmarks.decide.tables import collect_numbers
from benchmarks.decide.unanswerable import write_unanswerable
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


def test_unanswerable_questions_lack_their_support_and_nothing_else(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(400)]
    questions = [{"id": each, "question": "?", "answers": ["x"], "supporting": [f"p{each}"]} for each in ids]
    passages = [{"id": f"p{each}", "text": "x"} for each in ids]
    source = tmp_path / "source"
    source.mkdir()
    for name, rows in (("questions", questions), ("corpus", passages)):
        with gzip.open(source / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    assert write_unanswerable(source, tmp_path / "out", 7) == 7
    with gzip.open(tmp_path / "out" / "questions.jsonl.gz", "rt") as lines:
        asked = [json.loads(line) for line in lines]
    with gzip.open(tmp_path / "out" / "corpus.jsonl.gz", "rt") as lines:
        left = {json.loads(line)["id"] for line in lines}
    assert len(asked) == 7 and len(left) == 393
    assert all(partition(question["id"]) is Partition.XFIT for question in asked)
    assert not left & {f"p{question['id']}" for question in asked}


def test_the_committed_numbers_say_how_many_questions_they_rest_on() -> None:
    numbers = json.loads((RESULTS / "decide.json").read_text("utf-8"))
    page = (RESULTS / "decide.md").read_text("utf-8")
    for row in numbers["rows"]:
        for one in row["datasets"].values():
            assert one["n"] >= 10 and one["f1"]["low"] <= one["f1"]["value"] <= one["f1"]["high"]
            assert f"{one['f1']['value']:.3f}" in page


def test_every_committed_mean_is_that_of_the_committed_episodes() -> None:
    numbers = json.loads((RESULTS / "decide.json").read_text("utf-8"))
    values = defaultdict(list)
    with (RESULTS / "decide_episodes.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            values[row["run"], row["method"], row["dataset"]].append((float(row["f1"]), float(row["tokens"])))
    for row in numbers["rows"]:
        for dataset, one in row["datasets"].items():
            scores, tokens = zip(*values[row["run"], row["method"], dataset], strict=True)
            assert (one["n"], one["f1"]["value"]) == (len(scores), pytest.approx(fmean(scores), abs=1e-3))
            assert one["tokens"]["value"] == pytest.approx(fmean(tokens))
