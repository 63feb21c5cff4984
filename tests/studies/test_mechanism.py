"""Ablations and interventions: what was planted is found, what was not is not, and unlike runs are not compared."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from beliefrag.methods.intervention import MatchedState
from beliefrag.policy import Thresholds
from beliefrag.record import EpisodeSummary
from beliefrag.studies import Recording, StudyContext, StudyResult
from beliefrag.studies.mechanism import ABLATIONS, INTERVENTIONS, MechanismStudy, match_states
from tests.support.messages import mentions
from tests.support.studied import episode, recording, rows_of, state, trajectory

QUESTIONS = 40


def played(share: float, dataset: str) -> list[EpisodeSummary]:
    """Return episodes of which a share is right."""
    found = []
    for k in range(QUESTIONS):
        right = k < share * QUESTIONS
        base = episode("beliefrag", f"q{k}", float(right), 1000, dataset=dataset)
        metrics = {**base.metrics, "rounds": 1.0 + k % 2}
        found.append(base.model_copy(update={"metrics": metrics}))
    return found


def made(shares: dict[str, float], changes: dict[str, dict[str, Any]] | None = None) -> dict[str, Recording]:
    """Return a recording for each run of the study, with planted accuracy."""
    found = {}
    for variant in (*ABLATIONS, *INTERVENTIONS):
        thresholds = {**asdict(Thresholds()), **variant.run.thresholds}
        episodes = [e for d in ("d", "e") for e in played(shares.get(variant.name, 0.5), d)]
        own = {"thresholds": thresholds, **(changes or {}).get(variant.name, {})}
        found[variant.run.name] = recording(episodes=episodes, **own)
    return found


def worked_out(recordings: dict[str, Recording]) -> StudyResult:
    return MechanismStudy().analyse(recordings, StudyContext())


def test_a_planted_loss_is_found_and_what_is_alike_is_not_clear() -> None:
    result = worked_out(made({"full": 0.7, "no correction": 0.4, "no verification": 0.7, "prune only": 0.6}))
    differences = rows_of(result, "ablations_differences", "dataset", "name")
    lost = differences["mean", "no correction"]["accuracy difference"]
    assert lost.value == pytest.approx(-0.3)
    assert lost.high < 0
    same = differences["mean", "no verification"]["accuracy difference"]
    assert (same.value, same.low, same.high) == (0, None, None)
    assert mentions(result.findings[0], "no correction", "full", "accuracy -0.300")
    assert "not clear: accuracy" not in result.findings[0]
    values = {each.what: each for each in result.paper_values}
    full = values["Multi-hop accuracy, full controller"]
    assert full.theirs == 0.68
    assert full.ours is not None and full.ours.value == pytest.approx(0.7)
    assert len(values) == 10


def test_ablations_of_a_run_without_a_part_are_not_compared() -> None:
    changes = {"full": {"thresholds": {**asdict(Thresholds()), "correct_flagged": False}}}
    result = worked_out(made({}, changes=changes))
    assert "correct_flagged" in result.findings[0]
    assert not result.tables


def test_states_match_by_dataset_and_round_and_need_evidence() -> None:
    live = recording(
        [
            trajectory("a", state(rounds=0, retained=0, answerability=0.4), state(rounds=1, answerability=0.6)),
            trajectory("b", state(rounds=1, answerability=0.7), state(rounds=2, answerability=0.8)),
            trajectory("c", state(rounds=1, answerability=0.9), dataset="e"),
        ]
    )
    assert match_states(live, "d") == {
        1: (MatchedState("a", 0.6), MatchedState("b", 0.7)),
        2: (MatchedState("b", 0.8),),
    }


def test_interventions_are_made_at_the_papers_threshold_and_after_the_live_run() -> None:
    assert {variant.run.thresholds["answer"] for variant in INTERVENTIONS} == {0.55}
    permuted = INTERVENTIONS[1].run
    assert permuted.after == (INTERVENTIONS[0].run.name,)
    assert permuted.make_intervention is not None
    live = recording([trajectory("a", state(rounds=1, answerability=0.6))], seed=3)
    assert permuted.make_intervention("d", {INTERVENTIONS[0].run.name: live}).identity.startswith(
        "permuted, seed 3, states "
    )
