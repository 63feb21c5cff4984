from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.bench.metrics import score_episode
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.calibration import load_artifact
from beliefrag.calibration.replay import ReplayedEnding, UnrecordedStep, replay_policy
from beliefrag.methods import MethodInputs
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.state_collector import collect_states
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.record import Episode, EpisodeKey
from beliefrag.runs.states import Trajectory, trajectory_of
from beliefrag.types import Action, Budget, Question
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.reading import actions, says

SCALE = ScoreScale(20.0, 8.0)
FIT = load_artifact("published").calibration(SCALE)
MIDDLING = verdict(0.2, 0.9, 0.9)
FLAGGED = verdict(0.5, 0.5, 0.5, unhelpful=[2])
LINES = (
    says("query_writer", "the next query", repeat=True),
    says("rewriter", "other words", repeat=True),
    says("answer", "it", repeat=True),
)


def searches() -> PlannedRetriever:
    return PlannedRetriever(hits("a", "b"), hits("c", "d"), hits("e", "f"))


def recording(result: Episode) -> Trajectory:
    labelled = LabelledQuestion(Question(result.question.text, "q"), Gold(("it",)))
    return trajectory_of(score_episode(result, labelled, EpisodeKey("d", "survey", "q", 0)), Budget())


async def surveyed(tmp_path: Path, verifier: dict[str, object], thresholds: Thresholds = Thresholds()) -> Trajectory:
    model = script(tmp_path, {**verifier, "repeat": True}, *LINES)
    survey = collect_states("survey", SCALE, MethodInputs(thresholds=thresholds))
    return recording(await play(model, searches(), method=survey))


@pytest.mark.parametrize("verifier", [verdict(0.9, 0.1, 0.1), MIDDLING, FLAGGED])
async def test_a_walk_ends_where_and_at_the_cost_that_a_real_episode_does(
    tmp_path: Path, verifier: dict[str, object]
) -> None:
    thresholds = Thresholds(retrieval_value=0.05)
    model = script(tmp_path, {**verifier, "repeat": True}, *LINES)
    real = await play(model, searches(), method=published_method(SCALE, thresholds))
    ended = replay_policy(await surveyed(tmp_path, verifier), FIT.answerability, FIT.retrieval_value, thresholds)
    assert isinstance(ended, ReplayedEnding)
    assert [*map(str, ended.state.actions), str(ended.action)] == actions(real)
    assert ended.tokens == real.usage.tokens
    assert ended.answerability == pytest.approx(real.answerability)


async def test_a_correction_that_nobody_recorded_leaves_the_record(tmp_path: Path) -> None:
    plain = await surveyed(tmp_path, FLAGGED, Thresholds(correct_flagged=False))
    left = replay_policy(plain, FIT.answerability, FIT.retrieval_value)
    assert left == UnrecordedStep(plain.states[1], Action.VERIFY)


async def test_another_reason_to_rewrite_leaves_the_record(tmp_path: Path) -> None:
    flagged = await surveyed(tmp_path, FLAGGED)
    verify = flagged.states[1]
    assert verify.action is Action.VERIFY
    other = replace(
        flagged,
        states=(
            flagged.states[0],
            replace(verify, step=verify.step.model_copy(update={"reason": "something else"})),
            *flagged.states[2:],
        ),
    )
    assert isinstance(replay_policy(other, FIT.answerability, FIT.retrieval_value), UnrecordedStep)


async def test_an_end_where_no_answer_was_tried_is_not_known(tmp_path: Path) -> None:
    model = script(tmp_path, {**verdict(0.9, 0.1, 0.1), "repeat": True}, *LINES)
    # The structured verifier drafts nothing, so BeliefRAG's own episode has no answers on trial.
    own = recording(await play(model, searches(), method=BeliefRAGMethod(FIT)))
    assert isinstance(replay_policy(own, FIT.answerability, FIT.retrieval_value), UnrecordedStep)
