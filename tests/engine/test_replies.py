import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.errors import ReplyError
from beliefrag.prompts import Repairs, read_answer, read_json_object, read_line

OBJECT = {"support": 0.5, "unhelpful_doc_ids": [1]}
TEXT = json.dumps(OBJECT)


def test_plain_json_needs_no_repair() -> None:
    repairs = Repairs()
    assert read_json_object(TEXT, repairs) == OBJECT
    assert repairs == {}


@pytest.mark.parametrize(
    "reply",
    [
        f"```json\n{TEXT}\n```",
        f"Here is my verdict:\n{TEXT}\nI hope it helps.",
        f"{TEXT} trailing words",
        TEXT.replace("}", ",}"),
        TEXT.replace('"', "'"),
    ],
)
def test_what_is_plainly_meant_is_repaired_and_counted(reply: str) -> None:
    repairs = Repairs()
    assert read_json_object(reply, repairs) == OBJECT
    assert repairs == {"repaired": 1}


def test_thinking_before_the_object_is_passed_over() -> None:
    repairs = Repairs()
    assert read_json_object(f'<think>maybe {{"support": 1}}</think>\n{TEXT}', repairs) == OBJECT
    assert repairs == {}


def test_a_broken_object_longer_than_any_verdict_is_refused_without_an_attempt_to_repair_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[str] = []
    monkeypatch.setattr("json_repair.loads", attempts.append)
    with pytest.raises(ReplyError, match=r"long JSON .*broken"):
        read_json_object("{" + "'a': 1, " * 2_000 + "}", Repairs())
    assert attempts == []


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no idea",
        "[1, 2]",
        "0.5",
        f"{TEXT} or rather {TEXT}",
        '"text"',
        "null",
        TEXT.rstrip("}"),
        '{"support": 0.9, "gap": 0.',
        "[" * 100_000,
        '{"support": ' + "9" * 5_000 + "}",
        f"<think>{TEXT}",
        '{"```json```1}',  # the library that repairs JSON fails an assertion of its own on it
    ],
)
def test_what_is_not_one_object_is_refused(reply: str) -> None:
    repairs = Repairs()
    with pytest.raises(ReplyError):
        read_json_object(reply, repairs)
    assert repairs == {}


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("Ringo Starr band", "Ringo Starr band"),
        ("\n\n  Ringo Starr band  \nand more", "Ringo Starr band"),
        ('"Ringo Starr band"', "Ringo Starr band"),
        ("Query: Ringo Starr band", "Ringo Starr band"),
        ("```\nRingo Starr band\n```", "Ringo Starr band"),
        ("<think>hm</think>Ringo Starr band", "Ringo Starr band"),
        ('"A" or "B"', '"A" or "B"'),
    ],
)
def test_a_query_is_the_first_line_with_words(reply: str, query: str) -> None:
    assert read_line(reply) == query


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("Answer: Paris", "Paris"),
        ("The answer: Paris", "Paris"),
        ("“Paris”", "Paris"),
        ("Paris\nFrance", "Paris France"),
        ("1920–1939", "1920–1939"),
        ("List‹String›", "List<String>"),
        ('AC/DC\'s "Back in Black"', 'AC/DC\'s "Back in Black"'),
    ],
)
def test_an_answer_is_bare(reply: str, answer: str) -> None:
    assert read_answer(reply) == answer


@pytest.mark.parametrize("reply", ["", "  \n", "...", "```\n```", "<think>only thought</think>", "<think>and thought"])
def test_a_reply_without_words_is_no_answer_and_no_query(reply: str) -> None:
    with pytest.raises(ReplyError):
        read_answer(reply)
    with pytest.raises(ReplyError):
        read_line(reply)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for read in (read_answer, read_line, lambda reply: read_json_object(reply, Repairs())):
        try:
            read(text)
        except ReplyError:
            continue
