"""Finding episodes: every filter, every order, page by page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from beliefrag.web.view import RunSource
from beliefrag.web.view.index import (
    ORDERS,
    EpisodeFilter,
    Neighbours,
    Row,
    action_patterns,
    find_neighbours,
    list_episodes,
    list_same_question,
)
from tests.web.view.conftest import Played


@pytest.fixture(scope="module")
def source(played: Played) -> Iterator[RunSource]:
    opened = RunSource(played.run, [played.data])
    yield opened
    opened.close()


def found(source: RunSource, **wanted: object) -> list[Row]:
    total, rows = list_episodes(source.index, EpisodeFilter.model_validate({"limit": 500, **wanted}))
    assert total == len(rows)
    return rows


def test_all_episodes_are_there_with_question_and_numbers(source: RunSource) -> None:
    rows = found(source)
    assert len(rows) == 24
    first = next(row for row in rows if (row["question_id"], row["method"]) == ("north-q0", "static"))
    assert first["question"] == "Where was the builder of ship north0 born?"
    assert (first["answer"], first["f1"], first["correctness"]) == ("Larvik", 1.0, "right")
    assert first["actions"] == "RETRIEVE ANSWER"


def test_words_are_sought_in_question_answer_gold_answer_id_and_error(source: RunSource) -> None:
    assert {row["question_id"] for row in found(source, text="SHIP north0")} == {"north-q0"}
    assert {row["answer"] for row in found(source, text="larvik")} == {"Larvik"}
    # Nobody answered Molde: it is the gold answer.
    assert {(row["question_id"], row["gold"]) for row in found(source, text="MOLDE")} == {
        ("north-q2", "Molde"),
        ("south-q2", "Molde"),
    }
    assert {row["question_id"] for row in found(source, text="../../etc")} == {"../../etc/passwd"}
    assert [row["outcome"] for row in found(source, text="TransportError")] == ["failed"]
    assert found(source, text="%") == []
    assert found(source, text="'; DROP TABLE episodes; --") == []


def test_each_filter_leaves_out_what_it_should(source: RunSource) -> None:
    assert {row["method"] for row in found(source, method="static")} == {"static"}
    assert {row["dataset"] for row in found(source, dataset="south")} == {"south"}
    assert len(found(source, outcome="failed")) == 1
    assert {row["correctness"] for row in found(source, correctness="partly")} == {"partly"}
    assert len(found(source, actions="verify rewrite")) == 1
    assert found(source, actions="VER") == []
    tokens = sorted(row["tokens"] for row in found(source))
    middle = tokens[len(tokens) // 2]
    assert len(found(source, least_tokens=middle)) == sum(each >= middle for each in tokens)
    assert len(found(source, most_tokens=middle)) == sum(each <= middle for each in tokens)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_pages_in_any_order_neither_repeat_nor_lose_an_episode(source: RunSource, order: str, direction: str) -> None:
    wanted = EpisodeFilter.model_validate({"order": order, "direction": direction, "limit": 5})
    pages = [list_episodes(source.index, wanted.model_copy(update={"offset": at})) for at in range(0, 25, 5)]
    ids = [row["id"] for _, page in pages for row in page]
    assert len(ids) == len(set(ids)) == 24


def test_what_has_no_value_comes_last_in_both_directions(source: RunSource) -> None:
    for direction in ("up", "down"):
        values = [row["f1"] for row in found(source, order="f1", direction=direction)]
        assert values[-1] is None
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=direction == "down")


def test_an_episode_knows_its_neighbours_in_the_listing_and_its_rivals(source: RunSource) -> None:
    rows = found(source, method="beliefrag", order="tokens")
    middle = find_neighbours(source.index, EpisodeFilter(method="beliefrag", order="tokens"), rows[1]["id"])
    assert middle == Neighbours(place=2, total=len(rows), previous=rows[0]["id"], next=rows[2]["id"])
    outside = find_neighbours(source.index, EpisodeFilter(method="static"), rows[1]["id"])
    assert (outside.place, outside.previous, outside.next) == (0, None, None)
    rivals = list_same_question(source.index, rows[0]["id"])
    assert {row["method"] for row in rivals} == {"no_rag", "static", "beliefrag"}
    assert len({row["question_id"] for row in rivals}) == 1


def test_patterns_of_actions_are_counted(source: RunSource) -> None:
    counted = {row["actions"]: row["episodes"] for row in action_patterns(source.index)}
    assert sum(counted.values()) == 24
    assert counted["ANSWER"] == 8


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_list_by_questions_keeps_each_question_together_on_one_page(
    source: RunSource, order: str, direction: str
) -> None:
    wanted = EpisodeFilter.model_validate({"order": order, "direction": direction, "by": "question", "limit": 3})
    pages = [list_episodes(source.index, wanted.model_copy(update={"offset": at})) for at in range(0, 9, 3)]
    assert {total for total, _ in pages} == {8}
    rows = [row for _, page in pages for row in page]
    questions = [(row["dataset"], row["question_id"]) for row in rows]
    assert len({row["id"] for row in rows}) == len(rows) == 24
    assert len(list(itertools.groupby(questions))) == 8
    assert [len(page) for _, page in pages] == [9, 9, 6]
    second = find_neighbours(source.index, wanted, rows[1]["id"])
    assert (second.previous, second.next) == (rows[0]["id"], rows[2]["id"])


def test_questions_are_ordered_by_their_best_or_their_least_episode(source: RunSource) -> None:
    _, rows = list_episodes(source.index, EpisodeFilter(order="f1", direction="down", by="question", limit=2))
    assert {row["question_id"] for row in rows} == {"north-q0", "south-q0"}
