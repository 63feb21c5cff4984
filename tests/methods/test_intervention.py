"""Interventions change answerability and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from beliefrag.methods.intervention import (
    FrozenAnswerability,
    MatchedState,
    MethodWithIntervention,
    PermutedAnswerability,
)
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.record import Episode, Step
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.reading import actions, says

WEAK = verdict(0.1, 0.9, 0.9)
GOOD = verdict(0.95, 0.05, 0.05)
# Searching is always worth it here, so that an episode goes on until it may answer.
EAGER = Thresholds(answer=0.55, retrieval_value=0.05)


def searches() -> PlannedRetriever:
    return PlannedRetriever(hits("a", "b"), hits("c", "d"), hits("e", "f"))


async def played(folder: Path, intervention: FrozenAnswerability | PermutedAnswerability | None) -> Episode:
    """Weak evidence after the first search, good evidence after the second."""
    model = script(folder, WEAK, GOOD, GOOD, says("query_writer", "next", repeat=True), says("answer", "it"))
    own = published_method(ScoreScale(20.0, 8.0), EAGER)
    return await play(model, searches(), method=MethodWithIntervention(own, intervention) if intervention else own)


def without_answerability(step: Step) -> Step:
    """Return a step without answerability, the comparisons that show it, and what depends on the clock."""
    compared = tuple(each for each in step.comparisons if each.name != "answerability")
    return step.model_copy(update={"answerability": None, "comparisons": compared, "at": 0.0, "calls": ()})


async def test_a_frozen_score_stays_at_the_first_value_that_rests_on_evidence(tmp_path: Path) -> None:
    live, frozen = await played(tmp_path, None), await played(tmp_path, FrozenAnswerability())
    lived = [step.answerability for step in live.steps]
    kept = [step.answerability for step in frozen.steps]
    # Before the first search there is no evidence, and the value is the calibration's constant.
    assert kept == [lived[0], *[lived[1]] * (len(kept) - 1)]
    assert actions(live) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert actions(frozen) == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "STOP"]


async def test_up_to_the_first_changed_decision_nothing_but_answerability_differs(tmp_path: Path) -> None:
    low = PermutedAnswerability({0: (MatchedState("other", 0.1),)})
    live, permuted = await played(tmp_path, None), await played(tmp_path, low)
    changed = next(k for k, pair in enumerate(zip(actions(live), actions(permuted), strict=False)) if len({*pair}) > 1)
    assert changed == 2
    one, other = live.steps, permuted.steps
    assert [without_answerability(s) for s in one[:changed]] == [without_answerability(s) for s in other[:changed]]
    # The state where they part is measured alike too: only what is decided there differs.
    for name in ("diagnostics", "belief", "retrieval_value", "tokens", "flagged", "attempt"):
        assert getattr(one[changed], name) == getattr(other[changed], name)
    assert one[1].answerability != other[1].answerability == 0.1


async def test_a_permuted_value_comes_from_another_question_of_the_same_round(tmp_path: Path) -> None:
    states = {
        1: (MatchedState("", 0.11), MatchedState("x", 0.22), MatchedState("y", 0.33)),
        2: (MatchedState("x", 0.44),),
    }
    result = await played(tmp_path, PermutedAnswerability(states))
    values = [step.answerability for step in result.steps]
    # The question of these tests has the id "", so that 0.11 is its own.
    assert values[1] in {0.22, 0.33}
    # Nobody searched three times: the latest round with a match stands in.
    assert values[2:] == [0.44, 0.44]


async def test_draws_depend_on_seed_question_and_step_alone(tmp_path: Path) -> None:
    states = {1: tuple(MatchedState(f"q{k}", k / 1000) for k in range(500))}
    values = Counter()  # type: ignore[var-annotated]
    for seed in (0, 0, 1):
        result = await played(tmp_path, PermutedAnswerability(states, seed))
        values[tuple(step.answerability for step in result.steps[1:])] += 1
    assert sorted(values.values()) == [1, 2]
    assert all(len(set(drawn)) == len(drawn) for drawn in values)
