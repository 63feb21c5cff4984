"""Paired differences of a run, against values worked by hand and against `bench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from beliefrag.bench.benchmark import compare
from beliefrag.record import EpisodeSummary, Outcome
from beliefrag.runs.record import RunRecord
from beliefrag.types import Question, Usage
from beliefrag.web.view import RunSource
from beliefrag.web.view.run_page import RunDifferences, view_differences
from tests.web.view.conftest import Played


@pytest.fixture
def record(played: Played) -> RunRecord:
    return RunRecord.read(played.run)


def summary(method: str, number: int, f1: float, tokens: int) -> EpisodeSummary:
    return EpisodeSummary(
        dataset="north",
        method=method,
        question=Question("", f"q{number}"),
        outcome=Outcome.ANSWERED,
        metrics={"f1": f1, "judge": None},
        usage=Usage(tokens_in=tokens),
    )


def differences(record: RunRecord, episodes: Sequence[EpisodeSummary]) -> RunDifferences:
    return view_differences(record, {each.key: each for each in episodes})


def test_differences_are_those_of_bench_compare(played: Played) -> None:
    source = RunSource(played.run)
    found = source.differences()
    source.close()
    assert found.reference_title == "BeliefRAG"
    expected = {each.dataset: each.paired for each in compare(played.run, "beliefrag", "static").found}
    own = {each.dataset: each for each in found.differences if each.method == "static"}
    assert set(own) == {"north", "south", "mean"}
    for dataset, paired in expected.items():
        for name in ("f1", "tokens"):
            difference, estimate = paired.measures[name].difference, getattr(own[dataset], name).difference
            assert (estimate.value, estimate.low, estimate.high) == (difference.value, difference.low, difference.high)
            assert getattr(own[dataset], name).is_clear == paired.measures[name].is_clear


def test_only_questions_that_both_finished_are_compared(record: RunRecord) -> None:
    episodes = [summary("beliefrag", number, 1.0, 10) for number in range(30)]
    episodes += [summary("static", number, 0.0, 5) for number in range(25)]
    (difference,) = differences(record, episodes).differences
    assert difference.f1.difference.questions == 25
    assert difference.f1.is_clear
    assert difference.tokens.difference.value == 5


def test_methods_without_a_shared_question_are_not_compared(record: RunRecord) -> None:
    apart = [summary("beliefrag", 0, 1.0, 1), summary("static", 1, 1.0, 1)]
    for episodes in ([], apart):
        assert differences(record, episodes).differences == ()


def test_differences_are_computed_again_when_the_run_has_grown(played: Played, tmp_path: Path) -> None:
    lines = (played.run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run.json").write_bytes((played.run / "run.json").read_bytes())
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines[:4]))
    source = RunSource(tmp_path)
    before = source.state
    few = source.differences()
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines))
    assert source.state != before
    assert source.differences() != few
    assert source.index.stored_result("RunDifferences", source.state) == source.differences().model_dump_json()
    source.close()
