"""Samples and partitions: the same everywhere, and growing without forgetting."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.runs.partitions import Partition, partition, sample


@dataclass(frozen=True)
class Named:
    id: str


IDS = st.lists(st.text(min_size=1, max_size=12), unique=True, min_size=1, max_size=40)


@given(IDS, st.integers(1, 50), st.integers(1, 50), st.integers(0, 5), st.randoms())
def test_a_sample_ignores_order_and_grows_by_appending(ids: list[str], n: int, m: int, seed: int, rng: object) -> None:
    questions = [Named(name) for name in ids]
    shuffled = list(questions)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    small, large = sorted((n, m))
    first = sample(questions, large, seed)
    assert sample(shuffled, large, seed) == first
    assert sample(questions, small, seed) == first[:small]
    assert len(first) == min(large, len(ids)) == len(set(first))


def test_a_sample_is_the_same_on_every_machine() -> None:
    questions = [Named(f"q{number}") for number in range(1000)]
    assert [question.id for question in sample(questions, 5, seed=0)] == EXPECTED
    assert sample(questions, 5, seed=0) != sample(questions, 5, seed=1)


def test_a_sample_needs_a_size_and_unique_ids() -> None:
    with pytest.raises(ValueError, match="at least one"):
        sample([Named("a")], 0)
    with pytest.raises(ValueError, match="unique"):
        sample([Named("a"), Named("a")], 1)


def test_partitions_are_forty_thirty_thirty() -> None:
    parts = Counter(partition(f"question-{number}") for number in range(20_000))
    assert [parts[part] / 20_000 for part in Partition] == pytest.approx([0.40, 0.30, 0.30], abs=0.012)


def test_the_salt_decides_and_is_fixed() -> None:
    ids = [f"q{number}" for number in range(8)]
    assert [str(partition(name)) for name in ids] == FIXED


EXPECTED = ["q12", "q461", "q847", "q390", "q597"]
FIXED = ["xsel", "xfit", "xsel", "xfit", "xsel", "xsel", "xhold", "xfit"]
