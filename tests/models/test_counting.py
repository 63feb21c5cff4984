from __future__ import annotations

import pytest

from beliefrag.models.cost import count_prompt, count_tokens
from beliefrag.models.protocol import Message


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t", 0),
        ("Paris", 1),
        ("Private Music", 2),
        ("Ringo Starr's label?", 6),
        ("internationalisation", 3),
        ("1997", 4),
        ("snake_case", 3),
        ("髙見山", 3),
        ('{"support": 0.5}', 9),
    ],
)
def test_letters_count_by_sevens_and_everything_else_one_by_one(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_a_chat_template_adds_four_tokens_to_each_message() -> None:
    assert count_prompt([Message("system", "Answer."), Message("user", "Paris")]) == (2 + 4) + (1 + 4)


def test_counting_a_long_text_without_spaces_takes_no_time() -> None:
    assert count_tokens("a" * 700_000) == 100_000
