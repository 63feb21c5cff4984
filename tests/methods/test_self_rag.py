from pathlib import Path
from typing import Any

import pytest

from beliefrag.methods.self_rag import SelfRag
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Paris")
YES, NO = says("trigger", "Yes."), says("trigger", "no")


MORE = says("query_writer", "more", repeat=True)
VAGUE = says("trigger", "Nobody knows for sure")


@pytest.mark.parametrize(
    ("lines", "done", "used", "reason"),
    [
        ((NO,), ["ANSWER"], {"trigger": 1, "answer": 1}, "no"),
        ((YES, YES, YES, MORE), ["RETRIEVE"] * 3 + ["STOP"], {"trigger": 3, "query_writer": 2, "answer": 1}, "budget"),
        # SUFFICIENT ends it even after a yes.
        (
            (YES, YES, says("query_writer", "SUFFICIENT")),
            ["RETRIEVE", "RETRIEVE", "ANSWER"],
            {"trigger": 2, "query_writer": 1, "answer": 1},
            "nothing left to search",
        ),
        # A reply that is neither yes nor no, twice, means yes.
        ((VAGUE, VAGUE, NO), ["RETRIEVE", "ANSWER"], {"trigger": 3, "answer": 1}, "no"),
    ],
)
async def test_the_trigger_decides_whether_to_search(
    tmp_path: Path, lines: tuple[dict[str, Any], ...], done: list[str], used: dict[str, int], reason: str
) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"), hits("c"))
    result = await play(script(tmp_path, *lines, ANSWER), retriever, method=SelfRag())
    assert (actions(result), calls(result)) == (done, used)
    assert reason in why(result)


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


async def test_the_probability_of_yes_is_compared_with_the_threshold_where_the_model_gives_one(tmp_path: Path) -> None:
    # The word is no, but yes is likelier than the threshold: the original retrieves here.
    unsure = says("trigger", "no", logprobs={"no": 0.7, "yes": 0.3})
    sure = says("trigger", "no", logprobs={"no": 0.9, "yes": 0.1})
    result = await play(script(tmp_path, unsure, sure, ANSWER), PlannedRetriever(hits("a")), method=SelfRag())
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert mentions(why(result), "yes 0.10", "not above 0.20")
    result = await play(script(tmp_path, unsure, ANSWER), PlannedRetriever(hits("a")), method=SelfRag(threshold=0.5))
    assert actions(result) == ["ANSWER"]
