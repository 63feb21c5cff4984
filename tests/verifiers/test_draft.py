"""The readings of a drafted answer, worked by hand."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.errors import ModelError
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import TokenProbability
from beliefrag.prompts import Prompts
from beliefrag.types import Observation, Passage, Question
from beliefrag.verifiers import Look, VerifierForm, build_verifier, judge_alike
from beliefrag.verifiers.reading import measure_confidence, observe_draft
from tests.support.episodes import script
from tests.support.reading import says

BRIDGE = Passage("1", "Elm bridge", "The Elm bridge was designed by Ada Holm. It is old.")
HOLM = Passage("2", "Ada Holm", "Ada Holm was born in Torsby. She died in Oslo.")
WHERE = "Where was the designer of the Elm bridge born?"


def token(text: str, p: float, **others: float) -> TokenProbability:
    top = [(text, math.log(p)), *((f" {other}", math.log(q)) for other, q in others.items())]
    return TokenProbability(text, math.log(p), tuple(top))


def observe(
    answer: str,
    *,
    question: str = WHERE,
    passages: Sequence[Passage] = (BRIDGE, HOLM),
    scores: Sequence[float] = (0.9, 0.6),
    beyond: float = 0.0,
) -> Observation:
    return observe_draft(question, answer, 0.5, Look(passages, passages, scores, beyond))


def test_confidence_is_the_mean_of_the_least_and_the_typical_probability_of_a_content_word() -> None:
    torsby, oslo = [token(" Tors", 0.8), token("by", 0.5)], token(" Oslo", 0.9)
    assert measure_confidence("Torsby", torsby) == pytest.approx(0.4)
    assert measure_confidence("Torsby Oslo", [*torsby, oslo]) == pytest.approx((0.4 + 0.6) / 2)
    assert measure_confidence("in Torsby", [token("in", 0.1), *torsby]) == pytest.approx(0.4)
    assert measure_confidence("of", [token("of", 0.7)]) == pytest.approx(0.7)
    assert measure_confidence("東京", [token("東", 0.4), token("京", 0.9)]) == pytest.approx((0.4 + 0.6) / 2)


def test_a_long_answer_is_not_less_sure_because_it_is_long() -> None:
    short, long = [token(" c", 0.5), token(" b", 0.9)], [token(" c", 0.5), *[token(" b", 0.9)] * 30]
    assert measure_confidence("c b", long) > measure_confidence("c b", short)


def test_a_draft_is_about_half_as_sure_where_the_model_thought_of_giving_no_answer() -> None:
    def confidence(*tokens: TokenProbability) -> float:
        return measure_confidence("Torsby", tokens)

    assert confidence(token(" Torsby", 0.8, Unknown=0.009)) == pytest.approx(0.8 * 0.55)
    assert confidence(token(" Torsby", 0.8, None_=0.1)) == pytest.approx(0.8), "no such word"
    later = confidence(token(" Torsby", 0.8), token(",", 0.8, Not=0.1))
    assert later == pytest.approx(0.8), "only the first token says whether an answer is given at all"


def test_no_is_an_answer_to_a_question_of_yes_or_no() -> None:
    assert measure_confidence("yes", [token("yes", 0.8, No=0.1)]) == pytest.approx(0.8)
    assert measure_confidence("Norway", [token("Norway", 0.8, No=0.1)]) < 0.5


def test_support_grows_with_the_relevance_of_the_passages_that_hold_the_draft() -> None:
    likely, unlikely = observe("Torsby", scores=(0.9, 0.6)), observe("Torsby", scores=(0.9, 0.2))
    assert likely.support - unlikely.support == pytest.approx((0.6 - 0.2) / 2)
    both = observe("Holm, Torsby", scores=(0.9, 0.6))
    assert both.support > ((0.9 + 0.6) / 2 + 0.5) / 2, "one sentence has both words, in another order"
    assert observe("Torsby, Lund").support == pytest.approx(observe("Torsby").support / 2), "half of it is nowhere"
    assert observe("Paris").support == 0.0


def test_support_grows_with_what_stands_around_the_draft() -> None:
    # "born" stands in the sentence of Torsby and not in that of Oslo.
    assert observe("Torsby").support > observe("Oslo").support > 0.5 * 0.6 + 0.5 * 0.49


def test_a_draft_that_only_repeats_the_question_stands_nowhere() -> None:
    choice = "Which is older, the Elm bridge or Ada Holm?"
    assert observe("Elm bridge").support == pytest.approx(0.5 * (0.9 + 0.9 + 0.9 + 0.6) / 4)
    assert observe("Elm bridge", question=choice).support > observe("Elm bridge").support


def test_a_yes_is_supported_by_what_the_evidence_covers_of_the_question() -> None:
    covered = observe("yes", question="Was Ada Holm born in Torsby?")
    assert covered.support > 0.75
    assert observe("yes", question="Did Per Lund live in Rome?").support == pytest.approx(0.0)


def test_the_gap_is_what_the_search_holds_likely_and_left_behind() -> None:
    assert observe("Torsby", beyond=0.4).gap == pytest.approx(0.4)
    assert observe("Torsby").gap == 0.0


def test_passages_conflict_that_say_different_things_of_the_same_part_of_the_question() -> None:
    first = Passage("1", "", "The 2021 award went to Ada Holm.")
    same = Passage("2", "", "Ada Holm won the 2021 award.")
    other = Passage("3", "", "Per Lund won the 2021 award.")
    elsewhere = Passage("4", "", "Per Lund lives in Oslo.")

    def conflict(*passages: Passage, scores: Sequence[float] = (0.8, 0.8)) -> float:
        return observe("Ada Holm", question="Who got the 2021 award?", passages=passages, scores=scores).conflict

    assert conflict(first, same) == 0.0
    assert conflict(first, elsewhere) == 0.0
    assert conflict(first, other) > 0.3
    unlikely = conflict(first, other, scores=(0.8, 0.2))
    assert unlikely == pytest.approx(conflict(first, other) / 4), "a passage that is hardly relevant contradicts little"


def test_nothing_to_read_is_read_without_an_error() -> None:
    nothing = Passage("1", "", "")
    for question, answer in (("?", "x"), ("", ""), ("the", "the"), ("?", "yes")):
        seen = observe_draft(question, answer, 0.5, judge_alike([nothing]))
        assert seen.support == 0.0 and seen.conflict == 0.0 and seen.gap == 0.0


async def verify(folder: Path, line: dict[str, object], form: VerifierForm) -> Observation:
    calls = ModelCalls(
        Meter(script(folder, line)), Prompts.load(), form, CallRecorder(lambda purpose: None, lambda *_: None)
    )
    found = await calls.verify(Question(WHERE), [BRIDGE, HOLM])
    assert found is not None
    return found


async def test_one_call_gives_the_draft_and_all_scores(tmp_path: Path) -> None:
    line = says("read", "Torsby", logprobs={"Torsby": 0.7, "Oslo": 0.2})
    seen = await verify(tmp_path, line, build_verifier("draft"))
    assert seen.draft == "Torsby" and seen.uncertainty == pytest.approx(0.3)
    assert seen.support > 0.5


async def test_no_uncertainty_is_made_up_where_nothing_says_how_sure_an_answer_is(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="token probabilities"):
        await verify(tmp_path, says("read", "Torsby"), build_verifier("draft"))


async def test_a_model_without_probabilities_says_how_sure_it_is_and_what_is_missing(tmp_path: Path) -> None:
    stated = {"missing": "where Ada Holm was born", "answer": "Torsby", "sure": 7}
    seen = await verify(tmp_path, says("read", stated), build_verifier("stated"))
    assert seen.draft == "Torsby" and seen.uncertainty == pytest.approx(0.3)
    assert seen.gap >= 0.5
    whole = await verify(tmp_path, says("read", stated | {"missing": "nothing"}), build_verifier("stated"))
    assert whole.gap < 0.5
