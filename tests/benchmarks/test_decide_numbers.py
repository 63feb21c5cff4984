"""What the comparison works out of its episodes: which rows there are, and how risk and coverage are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from beliefrag.calibration.risk import RiskSample
from benchmarks.decide.episodes import EpisodeRow
from benchmarks.decide.numbers import collect_numbers
from benchmarks.decide.probability import area_under_risk, risk_at
from benchmarks.decide.replay import ReplayStep, plan_replay
from benchmarks.decide.risk_curves import risk_coverage
from benchmarks.decide.tables import format_tables
from benchmarks.find.mixed_corpus import MULTI_HOP


def make_rows(
    run: str, method: str, dataset: str, n: int, *, f1: Sequence[float] = (1.0, 0.0), tokens: int = 400
) -> list[EpisodeRow]:
    """Return rows with these F1 in turns, and tokens that grow by one."""
    return [
        EpisodeRow(
            run=run,
            method=method,
            dataset=dataset,
            question=f"q{number:02}",
            outcome="answered",
            actions="RETRIEVE ANSWER",
            answerability=0.9 - number / 100,
            exact_match=0.0,
            f1=f1[number % len(f1)],
            cover=0.0,
            evidence_recall=1.0,
            tokens=tokens + number,
            tokens_in=tokens,
            tokens_out=number,
            tokens_by_purpose=f"answer={tokens + number}",
            calls=1,
            rounds=1.0,
            least_token=0.8 - number / 100,
        )
        for number in range(n)
    ]


def test_a_difference_is_paired_and_has_intervals_of_f1_and_tokens() -> None:
    rows = [
        row
        for dataset in MULTI_HOP
        for row in (
            *make_rows("linked_packed", "lean", dataset, 20, f1=(1.0, 0.5), tokens=100),
            *make_rows("linked", "iterative", dataset, 30, f1=(0.5, 0.5), tokens=1000),
        )
    ]
    (one,) = collect_numbers(rows)["differences"]
    assert one["n"] == dict.fromkeys(MULTI_HOP, 20)
    assert one["f1"]["value"] == pytest.approx(0.25)
    assert 0.0 < one["f1"]["low"] < one["f1"]["value"] < one["f1"]["high"]
    # Every question costs 900 tokens less, so there is no spread to tell an interval by.
    assert (one["tokens"]["value"], one["tokens"]["low"]) == (pytest.approx(-900.0), None)
    ratio = one["token_ratio"]
    assert ratio["value"] == pytest.approx(109.5 / 1009.5, abs=1e-6)
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert one["better_and_cheaper"] > 0.99


def test_a_set_with_fewer_than_ten_questions_is_in_no_table_and_a_failure_is_counted() -> None:
    rows = [row for dataset in MULTI_HOP for row in make_rows("linked_packed", "lean", dataset, 12)]
    rows += make_rows("linked", "static", "hotpotqa", 9)
    (failed,) = make_rows("linked_packed", "static", "hotpotqa", 1)
    rows.append(replace(failed, outcome="failed"))
    numbers = collect_numbers(rows)
    assert [(row["run"], row["method"]) for row in numbers["rows"]] == [("linked_packed", "lean")]
    assert numbers["too_few"] == {"Static (linked, whole passages) hotpotqa": 9}
    assert numbers["failed"] == {"Static (linked, 150 words)": 1}
    assert "fewer than 10 questions: Static (linked, whole passages) hotpotqa 9." in format_tables(numbers)


def test_the_area_under_risk_is_that_of_the_curve_also_with_ties_and_weights() -> None:
    p = np.array([0.9, 0.8, 0.8, 0.5, 0.3, 0.3, 0.3, 0.1])
    right = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    area = float(area_under_risk(p, right, np.ones(8)))
    assert area == pytest.approx(risk_coverage(RiskSample(p, right > 0)).aurc)
    drawn = np.array([0, 0, 1, 3, 3, 3, 5, 7])
    weights = np.bincount(drawn, minlength=8).astype(float)
    resampled = risk_coverage(RiskSample(p[drawn], right[drawn] > 0)).aurc
    assert area_under_risk(p, right, np.array([np.ones(8), weights])) == pytest.approx([area, resampled])


def test_the_risk_of_the_surest_half_is_counted_by_hand() -> None:
    p = np.array([0.9, 0.8, 0.7, 0.6])
    right = np.array([1.0, 0.0, 0.0, 0.0])
    assert risk_at(0.5, p, right, np.ones(4)) == pytest.approx(0.5)
    # Three answers share the border: two thirds of them are wrong, and half of the last two places count so.
    tied, correct = np.array([0.9, 0.5, 0.5, 0.5]), np.array([1.0, 1.0, 0.0, 0.0])
    assert risk_at(0.5, tied, correct, np.ones(4)) == pytest.approx((0 + 2 / 3) / 2)
    rows = risk_at(0.5, p, right, np.array([[1.0, 1.0, 1.0, 1.0], [4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]]))
    assert rows == pytest.approx([0.5, 0.0, 1.0])
    assert risk_at(1.0, p, right, np.ones(4)) == pytest.approx(0.75)


def test_a_replay_grows_each_run_to_what_each_set_and_method_has() -> None:
    rows = [
        *make_rows("linked", "static", "hotpotqa", 6),
        *make_rows("linked", "iterative", "hotpotqa", 5),
        *make_rows("linked", "static", "nq", 2),
        *make_rows("linked", "iterative", "nq", 2),
        *make_rows("linked", "static", "musique", 2),
        *make_rows("linked", "iterative", "musique", 2),
        *make_rows("bm25", "static", "nq", 1),
    ]
    assert plan_replay(rows) == [
        ReplayStep("bm25", 1, ("static",), ("nq",)),
        ReplayStep("linked", 2, ("iterative", "static"), ("musique", "nq")),
        ReplayStep("linked", 5, ("iterative",), ("hotpotqa",)),
        ReplayStep("linked", 6, ("static",), ("hotpotqa",)),
    ]


def test_the_curve_of_risk_has_the_points_and_intervals_worked_by_hand() -> None:
    p = np.array([0.9, 0.8, 0.5, 0.5])
    curve = risk_coverage(RiskSample(p, np.array([True, False, True, True]), declined=1), level=0.9)
    assert curve.threshold.tolist() == [0.9, 0.8, 0.5]
    assert curve.coverage.tolist() == [1 / 5, 2 / 5, 4 / 5]
    assert curve.risk.tolist() == [0.0, 1 / 2, 1 / 4]
    # Two of the four share the last threshold, so its error counts twice.
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 4 + 1 / 4) / 4)
    for place, (wrong, answered) in enumerate([(0, 1), (1, 2), (1, 4)]):
        exact = binomtest(wrong, answered).proportion_ci(0.9, method="exact")
        assert (curve.low[place], curve.high[place]) == pytest.approx((exact.low, exact.high))
