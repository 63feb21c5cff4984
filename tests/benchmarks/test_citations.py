"""The measure of citations: what is compared, and that runs from before citations are cited now."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from beliefrag.demo import load_passages, load_questions
from benchmarks.citations import CitedShares, measure_citations, measure_run

RECORDED = Path(__file__).parent.parent / "recorded" / "run"


def test_cited_passages_are_compared_with_those_that_support() -> None:
    assert measure_citations(["a", "b"], ["a", "b", "c"], ["a", "b"]) == CitedShares(1.0, 1.0, 1.0, 1.0, 2 / 3)
    assert measure_citations(["a", "c"], ["a", "c"], ["a", "b"]) == CitedShares(0.0, 0.5, 0.5, 0.0, 0.5)
    assert measure_citations([], ["b", "a"], ["a", "b"]) == CitedShares(0.0, 0.0, 0.0, 1.0, 1.0)


def test_answers_of_a_run_without_citations_are_cited_now(tmp_path: Path) -> None:
    folder = tmp_path / "demo_set"
    folder.mkdir()
    questions = [
        {"id": each.id, "question": each.question, "answers": each.answers, "supporting": each.supporting}
        for each in load_questions()
        if each.answers
    ]
    passages = [{"id": each.id, "title": each.title, "text": each.text} for each in load_passages()]
    for name, rows in (("questions", questions), ("corpus", passages)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    run = tmp_path / "run"
    run.mkdir()
    lines = gzip.decompress((RECORDED / "episodes.jsonl.gz").read_bytes()).splitlines()
    # The server of the recording knew no answer: here Static is right about every question.
    right = {each["id"]: each["answers"][0] for each in questions}
    with (run / "episodes.jsonl").open("w", encoding="utf-8") as file:
        for record in map(json.loads, lines):
            if record["method"] == "static":
                record["answer"] = right[record["question_id"]]
                record["metrics"]["f1"] = 1.0
                file.write(json.dumps(record) + "\n")
    ((key, found),) = measure_run(run, tmp_path).items()
    assert key == ("demo_set", "static") and len(found) == 5
    assert any(shares.all_cited == 1.0 for shares in found.values())
    assert all(shares.all_cited <= shares.all_read for shares in found.values())
