from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.retrieval.documents import split_sentences


@pytest.mark.parametrize(
    "whole",
    [
        "Dr. Watson met J. R. R. Tolkien at 5 p.m. on the pier.",
        "The U.S. Senate met e.g. Mr. Smith and Mrs. Jones of Acme Inc. London.",
        "See Fig. 3, No. 7 and vol. 12 of the report.",
        "It costs 3.14 dollars, i.e. next to nothing.",
        "He wrote to Prof. Dr. A. Meier vs. St. Gallen.",
        "They waited... and waited for the version 2.0 release.",
    ],
)
def test_abbreviations_initials_and_numbers_do_not_end_a_sentence(whole: str) -> None:
    assert list(split_sentences(whole)) == [whole]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Go." Then he left. (It rained.) Good.', ['He said "Go."', "Then he left.", "(It rained.)", "Good."]),
        ("The answer is no. He left.", ["The answer is no.", "He left."]),
        ("Really?! Yes… Perhaps.", ["Really?!", "Yes…", "Perhaps."]),
        ("¿Qué? ¡No! Sí.", ["¿Qué?", "¡No!", "Sí."]),
        ("文です。次です！「か？」はい。", ["文です。", "次です！", "「か？」", "はい。"]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("यह वाक्य है। दूसरा वाक्य।", ["यह वाक्य है।", "दूसरा वाक्य।"]),
        ("It was 1999. 2000 came next.", ["It was 1999.", "2000 came next."]),
        ("", []),
        ("   ", []),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_would_say(text: str, expected: list[str]) -> None:
    assert list(split_sentences(text)) == expected


@given(st.text(st.sampled_from("ab A.?!。 \"'()…\nU"), max_size=80))
def test_together_the_sentences_are_the_text(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
