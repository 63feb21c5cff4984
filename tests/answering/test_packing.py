"""Packing keeps to its limit, loses nothing silently, and shows both ends of a bridge."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.answering.packing import LEAST_WORDS, PackedPassage, find_sentences, pack_passages, read_sentences
from beliefrag.retrieval.documents import count_words
from beliefrag.types import Passage

FILM = Passage(
    "film",
    "Doctor Strange (2016 film)",
    "Doctor Strange is a film about a surgeon. It was shot in Nepal. It was directed by Scott Derrickson. "
    "The music is by Michael Giacchino. The costumes took two years to make and were shown in a museum afterwards.",
)
MAN = Passage(
    "man",
    "Scott Derrickson",
    "Scott Derrickson is an American filmmaker. He lives in Los Angeles. He was born in Denver, Colorado. "
    "His films are often about horror and the devil. Critics have written much about them over the years.",
)
OTHER = Passage("other", "Nepal", "Nepal is a country in Asia. Its capital is Kathmandu. It has high mountains. " * 3)
QUESTION = "Where was the director of Doctor Strange born?"


def _words(packed: tuple[PackedPassage, ...]) -> int:
    return sum(count_words(each.shown.title) + count_words(each.shown.text) for each in packed)


def test_a_bridge_keeps_both_ends() -> None:
    shown = {each.passage.id: each.shown.text for each in pack_passages(QUESTION, [FILM, MAN, OTHER], 45)}

    assert "directed by Scott Derrickson" in shown["film"]
    assert "born in Denver" in shown["man"]


def test_spans_point_into_the_whole_passage_and_gaps_are_marked() -> None:
    (film,) = [each for each in pack_passages(QUESTION, [FILM, MAN, OTHER], 45) if each.passage.id == "film"]

    parts = [film.passage.text[start:end] for start, end in film.spans]
    assert film.shown.text == " … ".join(parts)
    assert film.passage is FILM


@pytest.mark.parametrize(("title", "leans"), [("Safety > Keys", True), ("", True), ("Alma Vance", False)])
def test_a_pronoun_in_the_second_sentence_stands_for_a_title_but_not_for_headings(title: str, leans: bool) -> None:
    text = "The head of the office is Alma Vance. She keeps the keys of the boathouse. She is old."
    passage = Passage("p", title, text)
    read = read_sentences("Who keeps the keys?", [passage], [find_sentences(text)])
    assert [one.leans_back for one in read.sentences] == [False, leans, True]


def test_a_pronoun_brings_what_it_stands_for() -> None:
    passage = Passage(
        "p",
        "Ships",
        "Many ships were built there in the old days of sail. The Vasa was a warship of the king. "
        "It sank in Stockholm on its maiden voyage. Other harbours had other ships and other kings and other stories.",
    )
    (packed,) = pack_passages("What sank in Stockholm on a maiden voyage?", [passage], 22)

    assert "The Vasa was a warship" in packed.shown.text


def test_scores_weigh_passages() -> None:
    one = Passage("one", "", "The bridge is long and was built by many. " * 4)
    two = Passage("two", "", "The bridge is wide and was built by few. " * 4)

    best = [
        pack_passages("Who built the bridge?", [one, two], 20, scores=scores) for scores in ((9.0, 1.0), (1.0, 9.0))
    ]

    assert [each.passage.id for packed in best for each in packed] == ["one", "two"]


def test_scripts_without_spaces_are_packed() -> None:
    text = "東京は日本の首都である。人口は約千四百万人である。富士山は日本で一番高い山である。" * 3
    packed = pack_passages("日本で一番高い山は何か", [Passage("p", "日本", text)], 30)

    assert "富士山" in packed[0].shown.text
    assert _words(packed) <= 30


def test_the_first_words_stand_in_where_no_sentence_fits() -> None:
    passage = Passage("p", "", f"{'word ' * 39}end. {'more ' * 40}")
    (packed,) = pack_passages("Anything?", [passage], 20)

    assert packed.shown.text == ("word " * 20).strip()


def test_lines_are_sentences_of_their_own() -> None:
    text = "--recursive\nCopies folders too. And all in them.\n- a point without a stop"

    assert [text[start:end] for start, end in find_sentences(text)] == [
        "--recursive",
        "Copies folders too.",
        "And all in them.",
        "- a point without a stop",
    ]


_TEXT = st.text(st.sampled_from("ab .!?\n(日本。…'[]<>9") | st.characters(codec="utf-8"), max_size=300)


@settings(max_examples=150, deadline=None)
@given(_TEXT, st.lists(st.tuples(_TEXT, _TEXT), max_size=4), st.integers(LEAST_WORDS, 80))
def test_the_limit_is_never_passed_and_words_are_never_lost_silently(
    question: str, texts: list[tuple[str, str]], limit: int
) -> None:
    passages = [Passage(str(number), title, text) for number, (title, text) in enumerate(texts)]

    packed = pack_passages(question, passages, limit)

    assert _words(packed) <= limit
    assert bool(packed) == any(count_words(passage.text) for passage in passages)
    assert packed == pack_passages(question, passages, limit)
    for each in packed:
        assert all(start < end for start, end in each.spans)
        assert list(each.spans) == sorted(each.spans)


def test_parts_of_a_shortened_text_are_found_in_the_whole_one() -> None:
    whole = "It rained. Ada built it. Nobody came. She was born in Oslo."
    cut = Passage("p", "Bridge", "Ada built it. She was born in Oslo.")
    both = PackedPassage(cut, ((0, len(cut.text)),)).locate_in(whole)
    assert [whole[start:end] for start, end in both.spans] == ["Ada built it.", "She was born in Oslo."]
    assert both.passage == Passage("p", "Bridge", whole)
    last = PackedPassage(cut, ((14, len(cut.text)),)).locate_in(whole)
    assert [whole[start:end] for start, end in last.spans] == ["She was born in Oslo."]
