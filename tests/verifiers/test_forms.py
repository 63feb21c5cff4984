from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.errors import ModelError
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.prompts import Prompts
from beliefrag.types import Observation, Passage, Question
from beliefrag.verifiers import build_verifier
from tests.support.episodes import script

PASSAGES = [Passage("first", "One", "text one"), Passage("second", "Two", "text two")]


class Observed:
    """A desk whose calls are kept, and the observation it came to."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.repairs: list[dict[str, int]] = []

    def finished(self, request: ChatRequest, reply: ChatReply, repairs: object) -> None:
        self.requests.append(request)
        self.repairs.append(dict(repairs))  # type: ignore[call-overload]


async def observe(
    tmp_path: Path, form: str, *lines: dict[str, Any], question: str = "Which?", passages: Sequence[Passage] = PASSAGES
) -> tuple[Observation, Observed]:
    kept = Observed()
    calls = ModelCalls(
        Meter(script(tmp_path, *lines)),
        Prompts.load(),
        build_verifier(form),
        CallRecorder(lambda purpose: None, kept.finished),
    )
    observation = await calls.verify(Question(question), passages)
    assert observation is not None
    return observation, kept


def line(**reply: object) -> dict[str, Any]:
    full = {"unhelpful_doc_ids": [], "support": 0.5, "conflict": 0.0, "gap": 0.5, "uncertainty": 0.5}
    return {"purpose": "verifier", "reply": full | reply}


async def test_unknown_ids_are_ignored_and_counted(tmp_path: Path) -> None:
    observation, kept = await observe(tmp_path, "structured", line(unhelpful_doc_ids=[0, 3, "2", "second", -1, None]))
    assert observation.unhelpful == ("second",)
    assert kept.repairs == [{"unknown_ids": 5}]


async def test_scores_outside_are_clamped_and_counted(tmp_path: Path) -> None:
    observation, kept = await observe(tmp_path, "structured", line(support=1.7, gap=-0.2))
    assert (observation.support, observation.gap) == (1.0, 0.0)
    assert kept.repairs == [{"clamped": 2}]


@pytest.mark.parametrize("value", ["high", None, True, [0.5], float("nan"), int("9" * 400)])
async def test_a_score_that_is_no_number_is_asked_for_again(tmp_path: Path, value: object) -> None:
    observation, kept = await observe(tmp_path, "structured", line(support=value), line(support=0.4))
    assert observation.support == 0.4
    assert kept.repairs == [{"asked_again": 1}, {}]
    assert "support is not a number" in kept.requests[1].messages[-1].content


async def test_graded_scores_are_tenths(tmp_path: Path) -> None:
    reply = line(unhelpful_doc_ids=[1], support=7, conflict=1, gap=10, uncertainty=0)
    observation, kept = await observe(tmp_path, "graded", reply)
    assert (observation.support, observation.conflict, observation.gap) == (0.7, 0.1, 1.0)
    assert kept.requests[0].schema is not None
    assert kept.requests[0].schema["properties"]["support"] == {"type": "integer"}


async def test_the_schema_lists_the_ids_first_and_only_those_shown(tmp_path: Path) -> None:
    _, kept = await observe(tmp_path, "structured", line())
    schema = kept.requests[0].schema
    assert schema is not None
    assert next(iter(schema["properties"])) == "unhelpful_doc_ids"
    assert schema["properties"]["unhelpful_doc_ids"]["items"]["enum"] == [1, 2]


def yes(probability: float, match: str) -> dict[str, Any]:
    odds = {"yes": probability * 0.9, "no": (1 - probability) * 0.9, "maybe": 0.1}
    return {"purpose": "verifier", "match": match, "reply": "yes", "logprobs": odds}


DRAFT: dict[str, Any] = {
    "purpose": "verifier",
    "match": "answer alone",
    "reply": "New York",
    "logprobs": [{"token": "New", "p": 0.8}, {"token": " York", "p": 0.4}],
}
WHOLE: list[dict[str, Any]] = [DRAFT, yes(0.9, "prove"), yes(0.7, "every fact")]


def helps(first: float, second: float) -> list[dict[str, Any]]:
    alone = "{}</passage>\n\nQuestion: Which?\n\nDoes this passage"
    return [yes(first, alone.format("text one")), yes(second, alone.format("text two"))]


@pytest.mark.parametrize(("agree", "conflict"), [(0.3, 0.4), (0.5, 0.0), (0.9, 0.0)])
async def test_probabilities_are_read_from_the_odds_of_yes_against_no(
    tmp_path: Path, agree: float, conflict: float
) -> None:
    observation, kept = await observe(tmp_path, "probability", *helps(0.8, 0.6), *WHOLE, yes(agree, "same answer"))
    assert observation.support == pytest.approx(0.9)
    assert observation.gap == pytest.approx(0.3)
    assert observation.conflict == pytest.approx(conflict)
    assert observation.uncertainty == pytest.approx(0.6)
    assert observation.unhelpful == ()
    assert observation.draft == "New York"
    assert "Proposed answer: New York" in kept.requests[3].messages[-1].content


async def test_a_passage_that_does_not_help_is_flagged_and_one_voice_cannot_conflict(tmp_path: Path) -> None:
    observation, kept = await observe(tmp_path, "probability", *helps(0.8, 0.2), *WHOLE)
    assert observation.unhelpful == ("second",)
    assert observation.conflict == 0.0
    assert len(kept.requests) == 5


@pytest.mark.parametrize(
    ("odds", "flagged"), [((0.2, 0.3), ()), ((0.2, 0.45), ("first",)), ((0.6, 0.9), ()), ((0.45, 0.9), ("first",))]
)
async def test_only_passages_clearly_behind_the_best_are_flagged(
    tmp_path: Path, odds: tuple[float, float], flagged: tuple[str, ...]
) -> None:
    lines = [*helps(*odds), *WHOLE, yes(0.9, "same answer")]
    observation, _ = await observe(tmp_path, "probability", *lines)
    assert observation.unhelpful == flagged


def form(*odds: float, quotes: str = '"') -> dict[str, Any]:
    """Return a filled form, token by token, with the probability of yes in each slot."""
    tokens: list[dict[str, Any]] = [{"token": "{", "p": 1.0}]
    for name, p in zip(("proved", "complete"), odds, strict=True):
        word, other = ("yes", "no") if p >= 0.5 else ("no", "yes")
        top = {f"{quotes}{word}": max(p, 1 - p), f"{quotes}{other}": min(p, 1 - p)}
        before = "" if quotes else '"'
        tokens += [{"token": f'"{name}": {before}', "p": 1.0}]
        tokens += [{"token": f"{quotes}{word}", "p": max(p, 1 - p), "top": top}, {"token": '", ', "p": 1.0}]
    tokens += [{"token": "}", "p": 1.0}]
    return {"purpose": "verifier", "reply": "".join(token["token"] for token in tokens), "logprobs": tokens}


DRAFT = {"purpose": "verifier", "reply": "Ada", "logprobs": [{"token": "Ada", "p": 0.8}]}


@pytest.mark.parametrize(
    ("name", "lines", "draft"),
    [("probability", [*helps(0.8, 0.2), *WHOLE], "New York"), ("slots", [DRAFT, form(0.7, 0.4)], "Ada")],
)
async def test_what_was_asked_once_in_an_episode_is_not_paid_for_again(
    tmp_path: Path, name: str, lines: list[dict[str, Any]], draft: str
) -> None:
    kept = Observed()
    meter = Meter(script(tmp_path, *lines))
    calls = ModelCalls(meter, Prompts.load(), build_verifier(name), CallRecorder(lambda purpose: None, kept.finished))
    first = await calls.verify(Question("Which?"), PASSAGES)
    assert first is not None and first.draft == draft
    paid = meter.usage
    assert await calls.verify(Question("Which?"), PASSAGES) == first
    assert await calls.answer(Question("Which?"), PASSAGES) == draft
    assert meter.usage == paid


@pytest.mark.parametrize("form", ["probability", "slots"])
async def test_a_model_without_probabilities_is_told_so(tmp_path: Path, form: str) -> None:
    with pytest.raises(ModelError, match=f"no token probabilities.*{form}"):
        await observe(tmp_path, form, {"purpose": "verifier", "reply": "yes", "repeat": True})


@pytest.mark.parametrize("quotes", ['"', ""])
async def test_slots_reads_every_score_from_the_odds_in_one_form(tmp_path: Path, quotes: str) -> None:
    observation, kept = await observe(tmp_path, "slots", DRAFT, form(0.7, 0.4, quotes=quotes))
    assert len(kept.requests) == 2
    assert observation.support == pytest.approx(0.7)
    assert observation.gap == pytest.approx(0.6)
    assert observation.uncertainty == pytest.approx(0.2)
    assert observation.draft == "Ada"
    assert observation.conflict == 0.0
    assert "Draft answer: Ada" in kept.requests[1].messages[-1].content


ELM_QUESTION = "Where was the designer of the Elm bridge born?"
ELM_TEXTS = {
    "Elm bridge": "The Elm bridge was designed by Ada Holm in the year 1901.",
    "Ada Holm": "Ada Holm, who designed bridges, was born in Larvik.",
    "Weather": "Rain falls on most days of autumn, and snow falls on some days of winter, in the hills.",
    "Bread": "Bread is made of flour, water, salt and yeast, and it is baked for an hour in a hot oven of stone.",
}


@pytest.mark.parametrize(
    ("order", "proved", "flagged"),
    [
        (["Elm bridge", "Ada Holm", "Weather", "Bread"], 0.5, ("Weather", "Bread")),
        (["Elm bridge", "Ada Holm", "Weather", "Bread"], 0.6, ()),
        (["Weather", "Ada Holm", "Bread", "Elm bridge"], 0.5, ("Bread",)),
    ],
    ids=["those that say nothing", "none where the draft is settled", "none of the two that the search liked best"],
)
async def test_slots_finds_passages_that_do_not_help_without_asking(
    tmp_path: Path, order: list[str], proved: float, flagged: tuple[str, ...]
) -> None:
    passages = [Passage(title, title, ELM_TEXTS[title]) for title in order]
    observation, _ = await observe(
        tmp_path, "slots", DRAFT, form(proved, 0.4), question=ELM_QUESTION, passages=passages
    )
    assert observation.unhelpful == flagged


async def test_the_form_of_slots_shows_the_sentences_nearest_to_question_and_draft(tmp_path: Path) -> None:
    passages = [
        Passage("a", "Ada Holm", "Ada Holm designed the Elm bridge. " + "She liked her garden very much. " * 40),
        Passage("b", "Larvik", "Ada was born in Larvik. " + "Boats lie in the harbour of the town. " * 40),
    ]
    _, kept = await observe(tmp_path, "slots", DRAFT, form(0.7, 0.4), question=ELM_QUESTION, passages=passages)
    drafted, judged = (request.messages[-1].content for request in kept.requests)
    assert all(passage.text.strip() in drafted for passage in passages)
    assert "designed the Elm bridge" in judged and "born in Larvik" in judged
    assert len(judged.split()) < len(drafted.split()) / 2


async def test_a_form_with_an_empty_slot_is_asked_for_again(tmp_path: Path) -> None:
    lacking = {"purpose": "verifier", "reply": "{}", "logprobs": [{"token": "{}", "p": 1.0}]}
    observation, kept = await observe(tmp_path, "slots", DRAFT, lacking, form(0.7, 0.4))
    assert observation.support == pytest.approx(0.7)
    assert kept.repairs == [{}, {"asked_again": 1}, {}]
