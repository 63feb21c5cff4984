"""What moves bring is worked out from recorded states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.decide.moves import find_moves, format_moves
from tests.support.planted_states import planted, with_moves


def test_each_move_stands_beside_the_first_read_of_its_question(tmp_path: Path) -> None:
    collection = with_moves(planted(tmp_path, questions=20))
    made = list(find_moves(collection.trajectories))
    assert {each.move for each in made} == {"reason", "search"} and len(made) == 40
    by_question = {each.question_id: each.states for each in collection.trajectories}
    for each in made:
        _, read, reasoned, searched = by_question[each.question]
        after = reasoned if each.move == "reason" else searched
        assert each.sure == pytest.approx(1 - read.diagnostics.uncertainty, abs=1e-6)
        assert (each.first, each.after) == (read.scores["f1"], after.scores["f1"])
        assert each.likelier == min((read, after), key=lambda state: state.diagnostics.uncertainty).scores["f1"]
        assert each.tokens == 100


def test_a_search_that_brought_no_read_is_not_counted(tmp_path: Path) -> None:
    collection = with_moves(planted(tmp_path, questions=3))
    unread = [
        replace(each, states=(*each.states[:-1], replace(each.states[-1], scores={})))
        for each in collection.trajectories
    ]
    assert {each.move for each in find_moves(unread)} == {"reason"}


def test_the_table_counts_what_moves_turned_right_and_wrong(tmp_path: Path) -> None:
    one = next(find_moves(with_moves(planted(tmp_path, questions=1)).trajectories))
    turned = [
        replace(one, question=str(number), sure=0.2, first=first, after=after, likelier=after)
        for number, (first, after) in enumerate([(0.0, 1.0), (0.0, 0.0), (1.0, 0.0)])
    ]
    row = format_moves(turned).splitlines()[2]
    assert row.startswith("| reason | 0.0 to 0.3 | 3 | 0.333 | 0.333 | +0.000 (")
    assert row.endswith("| 0.333 | 1 of 2 | 1 of 1 | 100 |")
