"""What the check of written sentences keeps, removes and cites."""

from __future__ import annotations

import pytest

from beliefrag.answering.sentences import AnswerWriter, split_written
from beliefrag.types import CitationRole, Passage

FRAM = Passage("fram", "Fram", "The polar ship Fram was designed by Colin Archer. It was built in 1892.", "fram.md")
ARCHER = Passage("archer", "Colin Archer", "Colin Archer was born in Larvik. He did not study in Norway.", "archer.md")
QUESTION = "In which town was the designer of the Fram born?"


def write() -> AnswerWriter:
    return AnswerWriter(QUESTION, "Larvik", [FRAM, ARCHER], None)


@pytest.mark.parametrize(
    "sentence",
    [
        "Colin Archer was born in Larvik.",
        "The designer of the Fram, Colin Archer, was born in Larvik.",
        "The Fram was built in 1892 and designed by Colin Archer.",
        "Archer did not study in Norway.",
    ],
)
def test_a_sentence_that_stands_in_the_evidence_is_kept(sentence: str) -> None:
    checked = write().check(sentence)
    assert checked is not None and checked.support >= 0.7 and checked.cites


@pytest.mark.parametrize(
    ("sentence", "added"),
    [
        ("Colin Archer was born in Larvik in 1832.", "a number"),
        ("Colin Archer of the Fram was born in Oslo.", "a name"),
        ("Colin Archer was not born in Larvik.", "a negation, but the other way round"),
        ("The ship was painted white by a famous sailor of the navy.", "other words"),
    ],
)
def test_a_sentence_with_what_the_evidence_lacks_is_left_out(sentence: str, added: str) -> None:
    writer = AnswerWriter(QUESTION, "Larvik", [FRAM, Passage("a", "Colin Archer", "He was born in Larvik.")], None)
    assert writer.check(sentence) is None, added
    assert (writer.left_out, writer.text) == (1, "")


def test_each_sentence_cites_what_it_rests_on_and_shares_a_quote_with_the_short_answer() -> None:
    writer = write()
    first, second = writer.check("Colin Archer was born in Larvik."), writer.check("The Fram was built in 1892.")
    assert first is not None and second is not None
    assert "Larvik" in writer.citations[first.cites[0]].quote
    assert "1892" in writer.citations[second.cites[0]].quote
    spans = [(each.passage_id, each.span) for each in writer.citations]
    assert len(spans) == len(set(spans))
    assert all(each.role is not CitationRole.RELATED for each in writer.citations)
    assert writer.text == "Colin Archer was born in Larvik. The Fram was built in 1892."


def test_what_was_not_shown_supports_nothing() -> None:
    start = ARCHER.text.index("He did")
    shown = {"fram": ((0, len(FRAM.text)),), "archer": ((0, start),)}
    writer = AnswerWriter(QUESTION, "Larvik", [FRAM, ARCHER], shown)
    assert writer.check("Colin Archer did not study in Norway.") is None
    assert writer.check("Colin Archer was born in Larvik.") is not None


def test_a_sentence_is_given_once_and_a_repeat_counts_as_nothing() -> None:
    writer = write()
    assert writer.check("Colin Archer was born in Larvik.") is not None
    assert writer.check("Colin Archer was born in Larvik.") is None
    assert (len(writer.sentences), writer.left_out) == (1, 0)


def test_scripts_without_spaces_are_checked_by_their_characters() -> None:
    passage = Passage("z", "", "弗拉姆号由科林·阿彻设计。它建于1892年。")
    writer = AnswerWriter("弗拉姆号是谁设计的？", "科林·阿彻", [passage], None)
    assert writer.check("弗拉姆号由科林·阿彻设计。") is not None
    assert writer.check("弗拉姆号由科林·阿彻于1905年设计。") is None


def test_lines_and_sentences_are_checked_one_by_one() -> None:
    assert split_written("The passage states that it is 28 m high. Dr. Holm built it.\n- It stands.") == [
        "It is 28 m high.",
        "Dr. Holm built it.",
        "- It stands.",
    ]
