"""Answer metrics, against independent implementations of the official evaluation rules."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.bench.metrics import (
    accepted_answers,
    agrees,
    answer_row_recall,
    covers,
    evidence_recall,
    exact_match,
    recall_per_row_read,
    score_answer,
    score_episode,
    token_f1,
)
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.record import Episode, EpisodeKey, Failure, Outcome, to_json_line
from beliefrag.types import NO_ANSWER, Question
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict


def squad_normal(s: str) -> str:
    """Return the rules of the SQuAD v1.1 evaluation, step by step, character by character."""
    lowered = s.lower()
    bare = "".join(character for character in lowered if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def squad_f1(prediction: str, truth: str) -> float:
    said, right = squad_normal(prediction).split(), squad_normal(truth).split()
    left = list(right)
    same = 0
    for word in said:
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = 1.0 * same / len(said), 1.0 * same / len(right)
    return (2 * precision * recall) / (precision + recall)


def hotpot_f1(prediction: str, truth: str) -> float:
    said, right = squad_normal(prediction), squad_normal(truth)
    if said in ["yes", "no", "noanswer"] and said != right:
        return 0.0
    if right in ["yes", "no", "noanswer"] and said != right:
        return 0.0
    return squad_f1(prediction, truth)


def best(metric: Callable[[str, str], float], prediction: str, golds: list[str]) -> float:
    return max(metric(prediction, gold) for gold in golds)


CASES = [
    ("The Beatles", ["Beatles"]),
    ("a an the", ["the"]),
    ("Andrew Lloyd-Webber, and Tim Rice!", ["Andrew Lloyd Webber and Tim Rice"]),
    ("new york new york", ["New York"]),
    ("New York", ["New York, New York"]),
    ("to be or not to be", ["be to be"]),
    ("São Paulo", ["Sao Paulo", "São Paulo"]),
    ("“quoted” — text", ["quoted text", "“quoted” text"]),
    ("“the” end", ["“” end"]),
    ("ΑΘΗΝΑ", ["Αθηνα"]),
    ("İstanbul", ["istanbul"]),
    ("東京", ["東京"]),
    ("yes", ["yes"]),
    ("Yes.", ["yes"]),
    ("yes it is", ["yes"]),
    ("no", ["No Doubt"]),
    ("No Doubt", ["no"]),
    ("noanswer", ["noanswer"]),
    ("noanswer here", ["noanswer"]),
    ("", ["something"]),
    ("something", [""]),
    ("", [""]),
    ("!!!", ["?"]),
    ("1,000", ["1000", "one thousand"]),
    ("the man in the high castle", ["x", "y z", "The Man in the High Castle", "castle"]),
    ("  spaced\tout\nwords ", ["spaced out words"]),
]


@pytest.mark.parametrize(("prediction", "golds"), CASES)
def test_the_metrics_agree_with_the_official_rules(prediction: str, golds: list[str]) -> None:
    assert token_f1(prediction, golds) == pytest.approx(best(hotpot_f1, prediction, golds), abs=1e-12)
    assert exact_match(prediction, golds) == any(squad_normal(prediction) == squad_normal(gold) for gold in golds)


WORDS = st.lists(st.sampled_from(["the", "a", "Yes", "no", "cat", "cat!", "Ünï", "9", ",", "noanswer"]), max_size=6)


@given(WORDS.map(" ".join), st.lists(WORDS.map(" ".join), min_size=1, max_size=4))
def test_the_metrics_agree_with_the_official_rules_on_anything(prediction: str, golds: list[str]) -> None:
    assert token_f1(prediction, golds) == pytest.approx(best(hotpot_f1, prediction, golds), abs=1e-12)
    assert exact_match(prediction, golds) == any(squad_normal(prediction) == squad_normal(gold) for gold in golds)


@pytest.mark.parametrize(
    ("prediction", "gold", "found"),
    [
        ("It was the Eiffel Tower in Paris.", "eiffel tower", True),
        ("nothing", "no", False),
        ("in 2012", "12", False),
        ("Germany", "man", False),
        ("born on May 11, 1900", "May 11", True),
        ("tower of Eiffel", "eiffel tower", False),
        ("", "x", False),
        ("the", "the", False),
    ],
)
def test_cover_looks_for_whole_words(prediction: str, gold: str, found: bool) -> None:
    assert covers(prediction, Gold((gold,))) is found


def test_cover_wants_every_part_of_an_answer() -> None:
    gold = Gold(("Scheinert", "D. Scheinert", "Kwan"), answer_groups=(("Scheinert", "D. Scheinert"), ("Kwan",)))
    assert covers("Daniel Kwan and Daniel Scheinert", gold)
    assert not covers("Daniel Kwan", gold)


def test_a_part_of_an_answer_is_no_exact_match() -> None:
    gold = Gold(("May 11", "11 May", "12"), answer_groups=(("May 11", "11 May"), ("12",)))
    assert accepted_answers(gold) == ("May 11 12", "11 May 12")
    assert not exact_match("12", accepted_answers(gold))
    assert token_f1("May 11, 12", accepted_answers(gold)) == 1.0


def test_evidence_recall_is_the_share_of_supporting_passages_retained() -> None:
    assert evidence_recall(["p1", "p9", "p9"], ("p1", "p2")) == 0.5
    assert evidence_recall([], ("p1",)) == 0.0
    assert evidence_recall(["p1"], None) is None
    assert evidence_recall(["p1"], ()) is None


def test_rows_of_a_set_are_counted_once_and_by_column() -> None:
    rows = ["Pinot Noir | 2008", "Pinot Noir | 2008", "Syrah | 2009"]
    assert answer_row_recall("In 2008 it was Pinot Noir.", rows) == 0.5
    assert answer_row_recall("2008: Pinot Noir; 2009: Syrah", rows) == 1.0
    assert answer_row_recall("Syrah", rows) == 0.0


def test_recall_per_row_read_gives_the_figures_of_the_paper() -> None:
    assert recall_per_row_read(0.145, 9.73) == pytest.approx(14.90, abs=0.005)
    assert recall_per_row_read(0.152, 22.98) == pytest.approx(6.61, abs=0.005)
    with pytest.raises(ValueError, match="rows that were read"):
        recall_per_row_read(0.1, 0)


OVERLAP = ("exact_match", "f1", "cover")


def test_an_abstention_scores_zero_and_keeps_its_evidence_recall() -> None:
    scores = score_answer(None, Gold(("x",), ("p1", "p2")), ["p1"])
    assert [scores[name] for name in (*OVERLAP, "evidence_recall")] == [0.0, 0.0, 0.0, 0.5]
    assert score_answer(None, Gold(("x",), is_set=True), [])["answer_row_recall"] == 0.0


def test_a_failure_is_never_scored() -> None:
    failed = Episode(
        method="m", question=Question("Who?", "q"), outcome=Outcome.FAILED, error=Failure(cause="c", message="Who?")
    )
    scored = score_episode(failed, LabelledQuestion(Question("Who?", "q"), Gold(("x",))), EpisodeKey("d", "m", "q", 0))
    assert scored.metrics == {} and not scored.finished
    assert scored.message == "[question]", "no text of the benchmark is kept"


def test_a_set_has_row_recall_in_place_of_answer_overlap() -> None:
    scores = score_answer("Syrah", Gold(("Syrah", "Merlot"), ("r1",), is_set=True), ["r1"])
    assert [scores[name] for name in OVERLAP] == [None] * 3
    assert (scores["answer_row_recall"], scores["evidence_recall"]) == (0.5, 1.0)


async def test_a_whole_episode_is_scored_on_what_it_retained_at_the_end(tmp_path: Path) -> None:
    """Passages that were dropped on the way do not count, although they were retrieved."""
    doubtful = verdict(0.2, 0.8, 0.8, unhelpful=[2])
    sure = verdict(0.95, 0.0, 0.05)
    model = script(
        tmp_path,
        doubtful,
        {"purpose": "rewriter", "reply": "another query"},
        {"purpose": "query_writer", "reply": "another query"},
        sure | {"repeat": True},
        {"purpose": "answer", "reply": "Paris"},
    )
    result = await play(model, PlannedRetriever(hits("a", "b"), hits("c")))
    result = result.model_copy(update={"question": Question("Which?", "q")})
    assert result.steps[-1].evidence == ("a", "c")
    gold = LabelledQuestion(result.question, Gold(("Paris",), ("a", "b", "c", "d")))
    scored = score_episode(result, gold, EpisodeKey("d", result.method, "q", 0))
    assert (scored.metrics["f1"], scored.metrics["evidence_recall"]) == (1.0, 0.5)
    assert "Which?" not in to_json_line(scored), "no text of the benchmark is kept"


@pytest.mark.parametrize(
    ("answer", "golds", "right"),
    [
        ("Ada Holm", ("Ada Holm",), True),
        ("16", ("In 16 of 29 symptomatic cases",), True),
        ("Paris", ("In 16 of 29 symptomatic cases",), False),
        (
            "The bridge was closed because the rent rose",
            ("It was closed because the rent of the land rose by 40 %",),
            True,
        ),
        ("No", ("the virus has an envelope",), None),
        ("No", ("no",), True),
        ("anything", (NO_ANSWER,), False),
        ("Oslo", (NO_ANSWER, "Oslo"), None),
        ("Rome", (NO_ANSWER, "Oslo"), False),
    ],
)
def test_an_answer_agrees_with_a_short_gold_answer_or_says_what_a_long_one_says(
    answer: str, golds: tuple[str, ...], right: bool | None
) -> None:
    assert agrees(answer, "Why was the bridge closed?", Gold(golds)) is right
