from __future__ import annotations

import pytest

from beliefrag.models.protocol import count_pieces, cut_at_stop


@pytest.mark.parametrize(
    ("stop", "text"),
    [((), "a b c b"), (("b",), "a "), (("c", "b"), "a "), (("c", "d"), "a b "), (("a",), ""), (("d",), "a b c b")],
)
def test_a_text_ends_at_the_first_of_its_stop_texts(stop: tuple[str, ...], text: str) -> None:
    assert cut_at_stop("a b c b", stop) == text


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 1), (2, 1), (3, 2), (5, 3), (99, 3)])
def test_a_piece_that_reaches_across_the_end_is_counted(length: int, count: int) -> None:
    assert count_pieces(["ab", "cd", "e"], length) == count
    assert count_pieces([b"ab", b"cd", b"e"], length) == count


def test_nothing_is_spelt_by_no_pieces() -> None:
    assert count_pieces([], 3) == 0
