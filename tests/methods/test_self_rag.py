from pathlib import Path

from beliefrag.methods.self_rag import SelfRag
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Paris")
YES, NO = says("trigger", "Yes."), says("trigger", "no")


async def test_a_no_before_the_first_round_answers_closed_book(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    result = await play(script(tmp_path, NO, ANSWER), retriever, method=SelfRag())
    assert result.outcome == "answered"
    assert retriever.queries == []
    assert calls(result) == {"trigger": 1, "answer": 1}


async def test_the_trigger_is_asked_before_each_round_in_view_of_the_evidence(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"))
    model = script(tmp_path, YES, YES, NO, says("query_writer", "second"), ANSWER)
    result = await play(model, retriever, method=SelfRag())
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert retriever.queries == ["Which?", "second"]
    assert calls(result) == {"trigger": 3, "query_writer": 1, "answer": 1}
    first, second, third = prompts(result, "trigger")
    assert first.startswith("(no passages)")
    assert "alphaa" in second and "alphab" not in second
    assert "alphab" in third


async def test_when_no_round_is_left_the_trigger_is_not_asked_again(tmp_path: Path) -> None:
    model = script(tmp_path, YES | {"repeat": True}, says("query_writer", "more", repeat=True), ANSWER)
    result = await play(model, PlannedRetriever(hits("a"), hits("b"), hits("c")), method=SelfRag())
    assert result.outcome == "stopped"
    assert calls(result)["trigger"] == 3


async def test_sufficient_ends_it_even_after_a_yes(tmp_path: Path) -> None:
    model = script(tmp_path, YES, YES, says("query_writer", "SUFFICIENT"), ANSWER)
    result = await play(model, PlannedRetriever(hits("a")), method=SelfRag())
    assert result.outcome == "answered"
    assert result.usage.searches == 1
    assert "nothing left to search" in why(result)


async def test_a_reply_that_is_neither_yes_nor_no_twice_means_yes(tmp_path: Path) -> None:
    vague = says("trigger", "Nobody knows for sure")
    result = await play(script(tmp_path, vague, vague, NO, ANSWER), PlannedRetriever(hits("a")), method=SelfRag())
    assert actions(result) == ["RETRIEVE", "ANSWER"]


async def test_the_probability_of_yes_is_compared_with_the_threshold_where_the_model_gives_one(tmp_path: Path) -> None:
    # The word is no, but yes is likelier than the threshold: the original retrieves here.
    unsure = says("trigger", "no", logprobs={"no": 0.7, "yes": 0.3})
    sure = says("trigger", "no", logprobs={"no": 0.9, "yes": 0.1})
    result = await play(script(tmp_path, unsure, sure, ANSWER), PlannedRetriever(hits("a")), method=SelfRag())
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert mentions(why(result), "yes 0.10", "not above 0.20")
    result = await play(script(tmp_path, unsure, ANSWER), PlannedRetriever(hits("a")), method=SelfRag(threshold=0.5))
    assert actions(result) == ["ANSWER"]
