from __future__ import annotations

import pytest

from beliefrag.bench.runner import episodes_for


@pytest.mark.parametrize(("calls", "episodes"), [(1, 1), (3, 3), (4, 5), (8, 10), (32, 40)])
def test_a_quarter_more_episodes_than_calls_are_under_way(calls: int, episodes: int) -> None:
    assert episodes_for(calls) == episodes
