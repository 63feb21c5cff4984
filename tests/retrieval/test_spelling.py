"""Slips of typing in questions are corrected by the words of the passages."""

import pytest

from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage

_TEXT = "The head of finance in Washington approves the reimbursement of travel. Her brain, Peter, is independent."


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Who apporves travle?", "Who approves travel?"),
        ("Who is in Washignton?", "Who is in Washington?"),
        ("indepndent or indeppendent?", "independent or independent?"),
        ("an indapendent head", "an independent head"),
        ("Who is Brian, who is Petre?", "Who is Brian, who is Petre?"),  # short names are often other names
        ("the trial of a cactus", "the trial of a cactus"),
        ("approval of WASHINGTON_HEDA", "approval of WASHINGTON_HEDA"),
    ],
)
def test_an_unknown_word_is_read_as_the_word_that_it_is_a_slip_for(typed: str, meant: str) -> None:
    assert Bm25Index.in_memory([Passage("p", "Travel", _TEXT)]).correct_words(typed) == meant
