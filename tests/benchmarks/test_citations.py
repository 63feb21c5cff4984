"""The measure of citations: what is compared, and how a run without citations is cited."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from beliefrag.demo import load_passages, load_questions
from beliefrag.record import Episode, Outcome
from beliefrag.runs.run_files import episode_line
from beliefrag.types import Question
from benchmarks.citations import CitedShares, measure_citations, measure_run


def test_cited_passages_are_compared_with_those_that_support() -> None:
    assert measure_citations(["a", "b"], ["a", "b", "c"], ["a", "b"]) == CitedShares(1.0, 1.0, 1.0, 1.0, 2 / 3)
    assert measure_citations(["a", "c"], ["a", "c"], ["a", "b"]) == CitedShares(0.0, 0.5, 0.5, 0.0, 0.5)
    assert measure_citations([], ["b", "a"], ["a", "b"]) == CitedShares(0.0, 0.0, 0.0, 1.0, 1.0)


def test_the_citations_of_a_run_are_compared_with_its_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "demo_set"
    folder.mkdir()
    questions = [each for each in load_questions() if each.answers][:5]
    rows = [
        {"id": each.id, "question": each.question, "answers": each.answers, "supporting": each.supporting}
        for each in questions
    ]
    passages = [{"id": each.id, "title": each.title, "text": each.text} for each in load_passages()]
    for name, lines in (("questions", rows), ("corpus", passages)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    run = tmp_path / "run"
    run.mkdir()
    played = (
        Episode(
            dataset="demo_set",
            method="static",
            question=Question("", each.id),
            outcome=Outcome.ANSWERED,
            answer=each.answers[0],
            metrics={"f1": 1.0},
            sources=(*each.supporting, passages[0]["id"]),
        )
        for each in questions
    )
    (run / "episodes.jsonl").write_bytes(b"".join(map(episode_line, played)))
    ((key, found),) = measure_run(run, tmp_path).items()
    assert key == ("demo_set", "static") and len(found) == 5
    assert any(shares.all_cited == 1.0 for shares in found.values())
    assert all(shares.all_cited <= shares.all_read for shares in found.values())
