import math

import pytest

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.integrations.foreign import foreign_passage, measured_scale, to_hits
from beliefrag.types import Passage
from tests.support.episodes import PlannedRetriever, hits

A, B, C = (Passage(name, "", name) for name in "abc")


def test_scores_are_kept_in_the_order_of_the_library() -> None:
    found = to_hits([(A, 0.9), (B, 0.95), (C, 0.1)], 2, scores_needed=True)
    assert [(hit.passage.id, hit.score) for hit in found] == [("a", 0.9), ("b", 0.95)]


def test_one_missing_score_makes_ranks_of_all() -> None:
    found = to_hits([(A, 0.9), (B, None), (C, 0.1)], 5, scores_needed=False)
    assert [hit.score for hit in found] == [1, 1 / 2, 1 / 3]


def test_a_passage_that_comes_twice_is_one_hit() -> None:
    assert [hit.passage.id for hit in to_hits([(A, 3.0), (A, 2.0), (B, 1.0)], 2, scores_needed=True)] == ["a", "b"]


@pytest.mark.parametrize(("score", "problem"), [(None, "no score"), (math.nan, "finite"), (math.inf, "finite")])
def test_what_cannot_be_compared_with_a_scale_is_an_error(score: float | None, problem: str) -> None:
    with pytest.raises(RetrievalError, match=problem):
        to_hits([(A, score)], 5, scores_needed=True)


def test_a_measured_scale_is_mean_and_spread_of_the_scores_of_the_queries() -> None:
    retriever = PlannedRetriever(hits("a", "b", score=3.0), hits("c", score=7.0))
    scale = measured_scale(retriever, ["one", "two"])
    assert scale.location == pytest.approx(4.0)
    assert scale.scale == pytest.approx(math.sqrt(14 / 3))
    assert retriever.queries == ["one", "two"]


def test_a_scale_cannot_be_measured_on_nothing() -> None:
    with pytest.raises(SettingsError, match="no spread"):
        measured_scale(PlannedRetriever(hits("a")), ["one"])


def make(text: str, identifier: str | None = None, **metadata: object) -> Passage:
    return foreign_passage(text, metadata, identifier, ["title", "file_name"])


def test_a_text_without_an_id_has_the_same_id_always_and_another_text_another() -> None:
    assert make("alpha").id == make("alpha", source="elsewhere").id
    assert len({make("alpha").id, make("beta").id, make("alpha", title="T").id}) == 3
    assert make("alpha", "mine").id == "mine"


def test_title_and_source_are_single_clean_lines_and_other_kinds_of_metadata_are_left() -> None:
    passage = make("a\x00b \ud800", file_name="two\nlines", title=7, source=["list"])
    assert (passage.title, passage.source) == ("two lines", "")
    assert passage.text == "a b \ufffd"
