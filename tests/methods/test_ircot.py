from pathlib import Path

import pytest

from beliefrag.methods.ircot import IrCot
from beliefrag.methods.reasoning import concludes, first_sentence
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Torsby")


async def test_each_sentence_of_the_reasoning_is_the_next_query(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    model = script(
        tmp_path,
        says("reasoner", "Next sentence: The bridge was designed by Ada Holm. She was born in Oslo."),
        says("reasoner", "So the answer is: Torsby."),
        ANSWER,
    )
    result = await play(model, retriever, method=IrCot())
    assert (result.outcome, result.answer) == ("answered", "Torsby")
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    # One sentence at a time: what the model ran on to say is not kept.
    assert retriever.queries == ["Which?", "The bridge was designed by Ada Holm."]
    assert calls(result) == {"reasoner": 2, "answer": 1}
    first, second = prompts(result, "reasoner")
    assert "Reasoning so far: none\n" in first
    assert "Reasoning so far: The bridge was designed by Ada Holm.\n" in second
    assert "alphab" in second


@pytest.mark.parametrize(
    ("replies", "searches", "outcome", "reason"),
    [
        (("So the answer is: Oslo.",), 1, "answered", "reached an answer"),
        (("She was born in Torsby, so the answer is: Torsby.",), 1, "answered", "reached an answer"),
        (("Ada Holm built it.", "Ada Holm built it."), 2, "answered", "repeats itself"),
        (("One.", "Two."), 3, "stopped", "within the budget"),
        (("...", "..."), 1, "answered", "ended early"),
    ],
)
async def test_the_reasoning_ends_and_the_shared_reader_has_the_last_word(
    tmp_path: Path, replies: tuple[str, ...], searches: int, outcome: str, reason: str
) -> None:
    model = script(tmp_path, *(says("reasoner", reply) for reply in replies), ANSWER)
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(model, retriever, method=IrCot())
    assert (result.outcome, result.answer, len(retriever.queries)) == (outcome, "Torsby", searches)
    assert calls(result)["reasoner"] == len(replies)
    assert mentions(why(result), reason)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ("Dr. J. Holm was born in Oslo. He died.", "Dr. J. Holm was born in Oslo."),
        ('"It is in Oslo."', "It is in Oslo."),
        ("The next sentence: It is.", "It is."),
    ],
)
def test_the_first_sentence_is_found(reply: str, sentence: str) -> None:
    assert first_sentence(reply) == sentence


@pytest.mark.parametrize(
    "sentence", ["So the answer is: x.", "so the answer is x", "The answer is: x", "Thus, the final answer is x"]
)
def test_a_conclusion_is_known_by_its_words_wherever_they_stand(sentence: str) -> None:
    assert concludes(sentence)
    # The original's exit asks for no more than these words either.
    assert concludes(f"Some say that {sentence}")
    assert not concludes("The answers are in the archive, where the only answer isolates a fact.")
