from pathlib import Path
from typing import Any

import pytest

from beliefrag.engine.controller import Method
from beliefrag.methods.flare import Flare
from beliefrag.methods.uncertainty_gate import UncertaintyGate
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Torsby")


def drafted(**words: float) -> dict[str, Any]:
    """Return a drafted sentence, each word with its probability; `_` stands for a full stop after it."""
    tokens = [{"token": (" " if i else "") + w.replace("_", "."), "p": p} for i, (w, p) in enumerate(words.items())]
    return says("draft", "".join(str(token["token"]) for token in tokens), logprobs=tokens)


SURE = drafted(Ada=0.9, Holm=0.9, built=0.95, it_=1.0)
DOUBTFUL = drafted(Holm=0.9, was=0.95, born=0.6, near=0.39, Oslo_=0.1)
END = drafted(So=0.9, the=0.9, answer=0.9, is_=0.9)


async def test_confident_sentences_cause_no_search(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    result = await play(script(tmp_path, SURE, END, ANSWER), retriever, method=Flare())
    assert result.outcome == "answered"
    assert retriever.queries == ["Which?"]
    assert calls(result) == {"draft": 2, "answer": 1}
    assert "Reasoning so far: Ada Holm built it.\n" in prompts(result, "draft")[1]


async def test_a_doubtful_sentence_is_searched_for_without_its_doubtful_words(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(script(tmp_path, DOUBTFUL, SURE, END, ANSWER), retriever, method=Flare())
    assert retriever.queries == ["Which?", "Holm was born"]
    step = result.steps[1]
    assert step.comparisons[0].name == "least token probability"
    assert step.comparisons[0].value == pytest.approx(0.1)
    # The doubtful sentence is not kept: it is drafted again in view of what was found.
    assert "Reasoning so far: none\n" in prompts(result, "draft")[1]
    assert "alphab" in prompts(result, "draft")[1]


async def test_a_sentence_drafted_again_is_kept_whatever_its_probability(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    again = drafted(Holm=0.9, came=0.2, from_=0.2)
    result = await play(script(tmp_path, DOUBTFUL, again, END, ANSWER), retriever, method=Flare())
    assert len(retriever.queries) == 2
    assert "Reasoning so far: Holm came from.\n" in prompts(result, "draft")[2]


PIECES = says(
    "draft",
    "Holm lived.",
    logprobs=[{"token": "Ho", "p": 0.9}, {"token": "lm", "p": 0.2}, {"token": " lived.", "p": 0.9}],
)


@pytest.mark.parametrize(
    ("draft", "queries"),
    [
        (drafted(Near=0.1, Oslo_=0.1), ["Near Oslo."]),  # no word is sure: all are searched for
        (drafted(Ada=0.9, did_=0.9, Later=0.1, more_=0.1), []),  # only the first sentence counts
        (PIECES, ["lived."]),  # a word is as sure as its least likely token
    ],
)
async def test_a_query_has_the_sure_words_of_the_first_sentence(
    tmp_path: Path, draft: dict[str, Any], queries: list[str]
) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    await play(script(tmp_path, draft, END, ANSWER), retriever, method=Flare())
    assert retriever.queries[1:] == queries


@pytest.mark.parametrize(("method", "purpose"), [(Flare(), "draft"), (UncertaintyGate(), "gate")])
async def test_a_model_without_token_probabilities_is_told_apart_in_one_clear_error(
    tmp_path: Path, method: Method, purpose: str
) -> None:
    result = await play(script(tmp_path, says(purpose, "Ada.")), PlannedRetriever(hits("a")), method=method)
    assert (result.outcome, result.cause) == ("failed", "ModelError")
    assert "no token probabilities" in result.message and repr(method.name) in result.message


async def test_the_text_stays_within_its_length_and_the_rounds(tmp_path: Path) -> None:
    lines = [drafted(Fact=0.9, **{f"number{i}_": 0.9}) for i in range(9)]
    result = await play(script(tmp_path, *lines, ANSWER), PlannedRetriever(hits("a")), method=Flare(sentences=3))
    assert calls(result)["draft"] == 3
    doubts = [drafted(Holm=0.5, **{f"was{i}_": 0.5}) for i in range(9)]
    result = await play(script(tmp_path, *doubts, ANSWER), PlannedRetriever(hits("a")), method=Flare())
    assert result.outcome == "stopped"
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "STOP"]


async def test_a_text_that_repeats_itself_ends_however_doubtful(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(script(tmp_path, DOUBTFUL, DOUBTFUL, DOUBTFUL, ANSWER), retriever, method=Flare())
    assert len(retriever.queries) == 2
    assert "repeats itself" in why(result)
