from pathlib import Path

from beliefrag.methods import MethodInputs
from beliefrag.methods.state_collector import collect_states
from beliefrag.policy import ScoreScale
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.reading import actions, calls, says

SCALE = ScoreScale(20.0, 8.0)
GOOD = verdict(0.95, 0.05, 0.05)
QUERY = says("query_writer", "the next query", repeat=True)
ANSWERS = [says("answer", reply) for reply in ("from memory", "first", "second", "third")]


def searches() -> PlannedRetriever:
    return PlannedRetriever(hits("a", "b"), hits("c", "d"), hits("e", "f"))


async def test_a_survey_goes_on_where_beliefrag_would_answer_and_answers_at_each_state(tmp_path: Path) -> None:
    model = script(tmp_path, {**GOOD, "repeat": True}, QUERY, *ANSWERS, says("answer", "the end"))
    surveyed = await play(model, searches(), method=collect_states("survey", SCALE, MethodInputs()))
    assert actions(surveyed) == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "STOP"]
    attempts = [step.attempt for step in surveyed.steps if step.attempt]
    assert [attempt.answer for attempt in attempts] == ["from memory", "first", "second", "third"]
    assert all(attempt.tokens > 0 for attempt in attempts)
    # What is asked aside is in no cost and no budget: of the five answers only the one that ended the episode counts.
    assert calls(surveyed)["answer"] == 1
    steps = surveyed.steps
    assert steps[0].tokens == 0
    assert steps[1].diagnostics and steps[1].diagnostics.cost == steps[1].tokens / Budget().tokens
    model = script(tmp_path, GOOD, says("answer", "first"))
    assert actions(await play(model, searches(), method=published_method())) == ["RETRIEVE", "ANSWER"]
