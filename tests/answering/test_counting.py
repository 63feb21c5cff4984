"""Which questions are about a whole collection, and which counts nobody stated."""

from __future__ import annotations

import pytest

from beliefrag.answering.counting import asks_for_all, is_own_count
from beliefrag.types import Passage

READ = [Passage("a", "Fleet", "The fleet has three ships. It was founded in 1892.")]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("List all ships of the fleet.", True),
        ("How many ships are there?", True),
        ("Compare the Fram and the Maud.", True),
        ("Who designed the Fram?", False),
        ("Wie viele Schiffe gibt es?", False),
    ],
)
def test_questions_that_count_list_or_compare_are_about_the_collection(question: str, expected: bool) -> None:
    assert asks_for_all(question) is expected


@pytest.mark.parametrize(
    ("question", "answer", "own"),
    [
        ("How many ships are there?", "3 ships", False),
        ("How many ships are there?", "three", False),
        ("How many ships are there?", "7", True),
        ("How many ships are there?", "many", False),
        ("When was it founded?", "1893", False),
    ],
)
def test_a_count_that_no_passage_states_is_the_models_own(question: str, answer: str, own: bool) -> None:
    assert is_own_count(question, answer, READ) is own
