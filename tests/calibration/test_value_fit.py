"""The fit of the retrieval value: what it is fitted on, and where its quality comes from."""

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import Artifact
from beliefrag.calibration.examples import Examples, StateCollection, label_searches
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.fitting import fit_value
from beliefrag.calibration.replay import consults_retrieval_value
from beliefrag.policy import FittedValue, LogisticAnswerability
from beliefrag.runs.partitions import Partition
from beliefrag.runs.states import State, read_trajectories
from beliefrag.types import Action, Belief, Diagnostics
from tests.support.planted_states import change, planted, write_run


def test_a_planted_retrieval_value_is_recovered(tmp_path: Path) -> None:
    truth = FittedValue(intercept=0.5, rounds=-0.8, novelty=1.5, sufficiency=-1.0)
    draw = random.Random(2)
    searches = label_searches(planted(tmp_path, questions=3000).trajectories, "f1")
    pairs = []
    for each in searches.each:
        x = each.state
        p = truth.probability(rounds=x.rounds, novelty=x.diagnostics.novelty, sufficiency=x.belief.sufficiency)
        pairs.append(replace(each, positive=draw.random() < p))
    found, idle = fit_value(Examples(pairs))
    assert idle == ()
    assert (found.intercept, found.rounds) == pytest.approx((0.5, -0.8), abs=0.3)
    assert (found.novelty, found.sufficiency) == pytest.approx((1.5, -1.0), abs=0.5)


def test_a_search_at_the_end_of_a_correction_says_nothing_about_the_value_of_a_search(tmp_path: Path) -> None:
    _, (trajectory, *_) = read_trajectories(write_run(tmp_path, questions=1))
    before, after = (
        change(s, scores={"f1": right}) for s, right in zip(trajectory.states[:2], (0.0, 1.0), strict=True)
    )
    corrected = change(before, actions=(Action.RETRIEVE, Action.VERIFY, Action.REWRITE))
    found = [label_searches([replace(trajectory, states=(each, after))], "f1") for each in (before, corrected)]
    assert [len(each) for each in found] == [1, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"flagged": 1},
        {"belief": Belief(0.3, 0.5, 0.6, 0.5, 0.5, 0.1)},
        {"belief": Belief(0.3, 0.2, 0.1, 0.5, 0.5, 0.1)},
    ],
    ids=["flagged passages", "conflict", "low reliability"],
)
@pytest.mark.parametrize("rewritten", [False, True])
def test_where_the_policy_would_correct_nobody_asks_what_a_search_is_worth(
    tmp_path: Path, changes: dict[str, Any], rewritten: bool
) -> None:
    collection = planted(tmp_path, questions=1)
    trajectory = collection.trajectories[0]
    never = LogisticAnswerability(-9.0, Diagnostics(0, 0, 0, 0, 0, 0, 0))
    calm = change(
        trajectory.states[1], scores={"f1": 0.0}, legal=tuple(Action), correction_fits=True, actions=(Action.RETRIEVE,)
    )
    after = change(trajectory.states[2], scores={"f1": 1.0})

    def count(before: State) -> int:
        states = [before, after]
        if rewritten:
            # After the rewriting a correction fits no more; what counts is the state at which it was decided on.
            later = change(before, actions=(*before.actions, Action.REWRITE), correction_fits=False)
            states = [change(before, action=Action.REWRITE), later, after]
        searched = replace(trajectory, states=tuple(states))
        return len(label_searches([searched], "f1", partial(consults_retrieval_value, answerability=never)))

    assert count(calm) == 1
    assert count(change(calm, **changes)) == 0
    assert count(change(calm, **changes, correction_fits=False)) == 1


def searches_that_are_weighed(collection: StateCollection, artifact: Artifact, part: Partition) -> Examples:
    """Return the searches of one part from states at which the policy does not answer, worked out from the artifact."""
    function = artifact.answerability
    return Examples(
        pair
        for pair in label_searches(collection.trajectories, "f1").select_part(part).each
        if function.probability(pair.state.diagnostics, pair.state.belief.sufficiency) < 0.5
    )


def test_the_retrieval_value_is_fitted_on_searches_from_states_at_which_the_policy_asks_for_it(tmp_path: Path) -> None:
    collection = planted(tmp_path, questions=400)
    artifact = fit_artifact(collection, "f1")
    assert artifact.fit is not None and artifact.fit.retrieval_value is not None
    every = label_searches(collection.trajectories, "f1")
    for part in Partition:
        weighed = searches_that_are_weighed(collection, artifact, part)
        assert artifact.fit.retrieval_value.counts[part.value] == weighed.count
        # From some states the policy answers, though the answer is wrong: what a search is worth there nobody asks.
        assert 0 < len(weighed) < len(every.select_part(part))
    own = searches_that_are_weighed(collection, artifact, Partition.XFIT)
    assert artifact.retrieval_value == fit_value(own)[0]
    assert artifact.retrieval_value != fit_value(every.select_part(Partition.XFIT))[0]
    assert artifact.fit.retrieval_value.base_rate == pytest.approx(own.rate, abs=1e-6)
