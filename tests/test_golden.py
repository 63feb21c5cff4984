"""What the package computes equals the golden files of tests/golden."""

import pytest

from benchmarks import golden
from tests.support.benchmark_files import ABSENT, BENCHMARKS

FIRST = {"replay": 10}
"""Questions of each set that are enough here; `python -m benchmarks.golden check` takes all."""


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_DATA", str(BENCHMARKS.absolute()))


@pytest.mark.parametrize("name", [name for name, part in golden.PARTS.items() if not part.needs_data])
def test_a_part_without_benchmark_files_is_unchanged(name: str) -> None:
    assert golden.check_part(name) == []


@pytest.mark.data
@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason=ABSENT)
@pytest.mark.parametrize("name", [name for name, part in golden.PARTS.items() if part.needs_data])
def test_a_part_with_benchmark_files_is_unchanged(name: str) -> None:
    assert golden.check_part(name, FIRST.get(name)) == []


def test_a_difference_is_named_by_item_and_field() -> None:
    frozen: golden.Items = {"a": {"f1": 0.5, "ids": ["p1"]}, "b": {"f1": 1.0}}
    computed: golden.Items = {"a": {"f1": 0.5 + 1e-12, "ids": ["p2"]}}
    assert list(golden.compare_items(frozen, computed, 1e-9)) == ["a: ids was ['p1'] and is now ['p2']", "b: missing"]
