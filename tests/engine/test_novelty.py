"""What a search counts as new: passages that the episode had before are repetitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.record import Episode
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict
from tests.support.reading import says

ANSWER = says("answer", "Paris")


def last_novelty(result: Episode) -> float:
    """The novelty of the last search."""
    return [step.search for step in result.steps if step.search][-1].novelty


async def test_a_search_that_returns_what_was_dropped_before_is_less_new(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        verdict(0.3, 0.7, 1.0, unhelpful=[2]),
        says("rewriter", "other words"),
        verdict(0.95, 0.05, 0.05),
        ANSWER,
    )
    result = await play(model, PlannedRetriever(hits("a", "b"), hits("b", "c")))
    second = [step.search for step in result.steps if step.search][1]
    assert (second.added, second.refused) == (("c",), ("b",))
    # One of the two passages is a repetition, though it is not taken back; the other shares no word with what is held.
    assert last_novelty(result) == pytest.approx(0.5)
