from __future__ import annotations

import math

import pytest

from beliefrag.models.protocol import ChatReply, TokenProbability, count_pieces, cut_at_stop, have_same_probabilities


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


def reply(*tokens: tuple[str, float], **top: float) -> ChatReply:
    alternatives = tuple((token, math.log(p)) for token, p in top.items())
    said = tuple(TokenProbability(token, math.log(p), alternatives) for token, p in tokens)
    return ChatReply("".join(token for token, _ in tokens), 1, len(tokens), 0.0, tokens=said)


def test_a_probability_that_moves_by_less_than_a_thousandth_is_the_same() -> None:
    assert have_same_probabilities(reply(("yes", 0.8)), reply(("yes", 0.8009)))
    assert not have_same_probabilities(reply(("yes", 0.8)), reply(("yes", 0.802)))


def test_what_is_nearly_impossible_may_be_so_by_any_factor() -> None:
    assert have_same_probabilities(reply(("yes", 1e-5)), reply(("yes", 1e-9)))


def test_the_alternatives_count_too() -> None:
    assert not have_same_probabilities(reply(("yes", 0.6), yes=0.6, no=0.3), reply(("yes", 0.6), yes=0.6, no=0.2))
    assert not have_same_probabilities(reply(("yes", 0.6), yes=0.6, no=0.3), reply(("yes", 0.6), yes=0.6, maybe=0.02))


def test_alternatives_that_change_places_at_the_end_of_the_list_are_no_difference() -> None:
    assert have_same_probabilities(reply(("yes", 0.9), yes=0.9, no=0.0301), reply(("yes", 0.9), yes=0.9, nay=0.0302))


def test_probabilities_on_one_side_alone_are_a_difference() -> None:
    without = ChatReply("yes", 1, 1, 0.0)
    assert have_same_probabilities(without, without)
    assert not have_same_probabilities(reply(("yes", 0.8)), without)
    assert not have_same_probabilities(reply(("yes", 0.8)), reply(("ye", 0.8), ("s", 1.0)))
