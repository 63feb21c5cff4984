"""Differences, ties and confidences of a run, against values worked by hand and against `bench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from beliefrag.bench.benchmark import compare
from beliefrag.record import EpisodeSummary, Outcome
from beliefrag.runs.record import RunRecord
from beliefrag.types import Question, Usage
from beliefrag.web.view import RunSource
from beliefrag.web.view.run_page import RunAnalysis, analyse_run
from tests.web.view.conftest import Played


@pytest.fixture
def record(played: Played) -> RunRecord:
    return RunRecord.read(played.run)


def summary(method: str, number: int, f1: float, tokens: int, outcome: str = "answered") -> EpisodeSummary:
    return EpisodeSummary(
        dataset="north",
        method=method,
        question=Question("", f"q{number}"),
        outcome=Outcome(outcome),
        metrics={"f1": f1, "judge": None},
        usage=Usage(tokens_in=tokens),
    )


def analyse(
    record: RunRecord, episodes: Sequence[EpisodeSummary], answerability: Sequence[float | None] = ()
) -> RunAnalysis:
    known = {e.key: p for e, p in zip(episodes, answerability, strict=False) if p is not None}
    return analyse_run(record, {each.key: each for each in episodes}, known)


def test_differences_are_those_of_bench_compare(played: Played) -> None:
    source = RunSource(played.run)
    found = source.analysis()
    source.close()
    assert found.reference == "beliefrag"
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
    (difference,) = analyse(record, episodes).differences
    assert difference.f1.difference.questions == 25
    assert difference.f1.is_clear
    assert difference.tokens.difference.value == 5


def test_a_method_that_is_not_clearly_worse_is_a_tie(record: RunRecord) -> None:
    best = [summary("beliefrag", number, float(number % 2 == 0), 10) for number in range(40)]
    close = [summary("static", number, float(number % 2 == 1 and number > 1), 5) for number in range(40)]
    worse = [summary("no_rag", number, 0.0, 5) for number in range(40)]
    assert analyse(record, [*best, *close, *worse]).ties["north"] == ("beliefrag", "static")
    few = [each for each in (*best, *worse) if int(each.key.question_id[1:]) < 5]
    assert analyse(record, few).ties["north"] == ("beliefrag", "no_rag")


def test_confidence_is_read_from_answers_and_abstentions_are_not_answered(record: RunRecord) -> None:
    episodes = [summary("beliefrag", number, f1, 1) for number, f1 in enumerate((1.0, 1.0, 0.4, 0.0))]
    episodes.append(summary("beliefrag", 4, 0.0, 1, "abstained"))
    episodes.append(summary("static", 0, 1.0, 1))
    found = analyse(record, episodes, (0.95, 0.85, 0.85, 0.15, 0.05, None))
    assert found.right_by == "f1"
    own = next(each for each in found.confidences if each.dataset == "north")
    assert [each.method for each in found.confidences if each.dataset == "north"] == ["beliefrag"]
    assert (own.answers, own.declined) == (4, 1)
    bins = [(each.predicted, each.observed, each.states) for each in own.bins]
    assert bins == [(0.15, 0.0, 1), (0.85, 0.5, 2), (0.95, 1.0, 1)]
    # One of five is answered at the strictest threshold, four at the most lenient; of these two are wrong.
    curve = [(round(coverage, 2), round(risk, 2)) for coverage, risk, _, _ in own.curve]
    assert curve == [(0.2, 0.0), (0.6, 0.33), (0.8, 0.5)]
    assert all(low <= risk <= high for _, risk, low, high in own.curve)
    assert own.calibration_error == pytest.approx((0.15 + 2 * 0.35 + 0.05) / 4, abs=1e-3)


def test_a_run_without_confidences_or_without_episodes_has_none(record: RunRecord) -> None:
    assert analyse(record, [summary("static", 0, 1.0, 1)]).confidences == ()
    empty = analyse(record, [])
    assert (empty.differences, empty.ties, empty.confidences) == ((), {}, ())


def test_an_analysis_is_computed_again_when_the_run_has_grown(played: Played, tmp_path: Path) -> None:
    lines = (played.run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run.json").write_bytes((played.run / "run.json").read_bytes())
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines[:4]))
    source = RunSource(tmp_path)
    before = source.state
    few = source.analysis()
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines))
    assert source.state != before
    assert source.analysis() != few
    assert source.index.stored_result("RunAnalysis", source.state) == source.analysis().model_dump_json()
    source.close()
