"""Intervals to the last digit, as the code that made the published results gave them on the same values."""

from __future__ import annotations

import numpy as np

from beliefrag.runs.statistics import Estimate, Floats, estimate_from_resamples, resample_means, resample_weights
from benchmarks.decide.numbers import share_on_front

STATES = np.array([((place * 7) % 13) / 12 for place in range(60)])
QUESTIONS = [f"q{place // 3:02d}" for place in range(60)]


def wave(n: int, step: int, low: float = 0.0, high: float = 1.0) -> dict[str, float]:
    return {f"q{k:03d}": low + (high - low) * (((k * step) % 17) / 16) for k in range(n)}


def numbers(estimate: Estimate) -> tuple[float, float | None, float | None]:
    return estimate.value, estimate.low, estimate.high


def test_states_of_one_question_are_drawn_together() -> None:
    drawn = np.concatenate([w @ STATES / w.sum(axis=-1) for w in resample_weights(QUESTIONS)])
    assert numbers(estimate_from_resamples(float(STATES.mean()), drawn)) == (0.488889, 0.420799, 0.562535)


def test_questions_are_drawn_within_their_dataset() -> None:
    datasets = ["a" if place < 24 else "b" for place in range(60)]
    drawn = np.concatenate([w @ STATES / w.sum(axis=-1) for w in resample_weights(QUESTIONS, datasets)])
    assert numbers(estimate_from_resamples(float(STATES.mean()), drawn)) == (0.488889, 0.41941, 0.556944)


def test_a_ratio_of_means() -> None:
    table = np.array([[a, b] for a, b in zip(wave(33, 3).values(), wave(33, 5, 3, 40).values(), strict=True)])
    means = np.concatenate([table.mean(axis=0)[None, :], resample_means(table)])
    ratios = 1_000 * means[:, 0] / means[:, 1]
    assert numbers(estimate_from_resamples(float(ratios[0]), ratios[1:])) == (23.02749, 17.75197, 29.608692)


def test_shares_on_the_pareto_front() -> None:
    def table(n: int, step: int, other: int, around: int, divisor: float) -> Floats:
        return np.array([[((k * step + m * other) % around) / divisor for m in range(4)] for k in range(n)])

    shares = share_on_front(
        {"b": (table(30, 3, 5, 11, 0.1), table(30, 2, 3, 7, 6)), "a": (table(21, 4, 5, 11, 0.1), table(21, 5, 3, 7, 6))}
    )
    assert shares == [0.5345, 0.5745, 0.5965, 0.4935]
