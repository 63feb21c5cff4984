"""The readings of a drafted answer, worked by hand."""

import math
from pathlib import Path

import pytest

from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.errors import ModelError
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import TokenProbability
from beliefrag.prompts import Prompts
from beliefrag.types import Observation, Passage, Question
from beliefrag.verifiers import VerifierForm, build_verifier
from beliefrag.verifiers.draft import measure_confidence, observe_draft
from tests.support.episodes import script
from tests.support.reading import says

BRIDGE = Passage("1", "Elm bridge", "The Elm bridge was designed by Ada Holm. It is old.")
HOLM = Passage("2", "Ada Holm", "Ada Holm was born in Torsby. She died in Oslo.")
WHERE = "Where was the designer of the Elm bridge born?"


def token(text: str, p: float, **others: float) -> TokenProbability:
    top = [(text, math.log(p)), *((f" {other}", math.log(q)) for other, q in others.items())]
    return TokenProbability(text, math.log(p), tuple(top))


def observe(answer: str, *tokens: TokenProbability, question: str = WHERE) -> Observation:
    stated = measure_confidence(answer, tokens) if tokens else 0.5
    return observe_draft(question, [BRIDGE, HOLM], answer, tokens, stated)


def test_uncertainty_is_that_of_the_least_likely_token() -> None:
    seen = observe("Torsby", token(" Tors", 0.9), token("by", 0.6))
    assert seen.uncertainty == pytest.approx(0.4)
    assert seen.draft == "Torsby"


def test_a_draft_is_about_half_as_sure_where_the_model_thought_of_giving_no_answer() -> None:
    assert observe("Torsby", token(" Torsby", 0.8, Unknown=0.009)).uncertainty == pytest.approx(1 - 0.8 * 0.55)
    assert observe("Torsby", token(" Torsby", 0.8, None_=0.1)).uncertainty == pytest.approx(0.2), "no such word"
    later = observe("Torsby", token(" Torsby", 0.8), token(",", 0.9, Not=0.1))
    assert later.uncertainty == pytest.approx(0.2), "only the first token says whether an answer is given at all"


def test_no_is_an_answer_to_a_question_of_yes_or_no() -> None:
    assert observe("yes", token("yes", 0.8, No=0.1)).uncertainty == pytest.approx(0.2)
    assert observe("Norway", token("Norway", 0.8, No=0.1)).uncertainty > 0.5


def test_a_draft_that_the_evidence_holds_is_supported_by_what_stands_around_it() -> None:
    around_birth, around_death = observe("Torsby"), observe("Oslo")
    # "born" stands in the sentence of Torsby and not in that of Oslo.
    assert 0.5 <= around_death.support < around_birth.support <= 1.0
    assert observe("Paris").support == 0.0
    assert observe("Ada Lund").support == pytest.approx(0.25), "half of its words are there, the phrase is not"


def test_a_draft_that_only_repeats_the_question_is_not_supported() -> None:
    assert observe("Elm bridge").support == 0.0
    assert observe("Elm bridge", question="Which is older, the Elm bridge or Ada Holm?").support > 0.0


def test_a_yes_is_supported_by_what_the_evidence_covers_of_the_question() -> None:
    question = "Was Ada Holm born in Torsby?"
    assert observe("yes", question=question).support == pytest.approx(1.0)
    assert observe("yes", question="Did Per Lund live in Rome?").support == pytest.approx(0.0)


def test_the_gap_is_what_no_sentence_covers() -> None:
    assert observe("Torsby", question="Elm bridge").gap == pytest.approx(0.0)
    half = observe("Torsby", question="Elm volcano")
    assert 0.4 < half.gap < 1.0, "the rarer word weighs more"


def test_conflict_is_how_close_an_alternative_came_that_the_evidence_holds() -> None:
    assert observe("Torsby", token(" Torsby", 0.6, Oslo=0.3)).conflict == pytest.approx(2 * 0.3 / 0.9)
    assert observe("Torsby", token(" Torsby", 0.6, Paris=0.3)).conflict == 0.0, "no passage speaks of Paris"
    assert observe("Torsby", token(" Torsby", 0.6, the=0.3)).conflict == 0.0
    assert observe("Torsby", token(" Tors", 0.6, Torsb=0.3)).conflict == 0.0, "another spelling of the same word"
    inside = TokenProbability("by", math.log(0.6), ((" Oslo", math.log(0.3)),))
    assert observe("Torsby", token(" Tors", 0.9), inside).conflict == 0.0, "inside a word there is no other answer"
    assert observe("yes", token("yes", 0.5, no=0.5), question="Is it old?").conflict == pytest.approx(1.0)


def test_nothing_to_read_is_read_without_an_error() -> None:
    empty = observe_draft("?", [Passage("1", "", "")], "x", (), 0.5)
    assert empty.support == 0.0 and 0.0 <= empty.gap <= 1.0 and empty.conflict == 0.0


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
    assert seen.conflict == pytest.approx(2 * 0.2 / 0.9)


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
