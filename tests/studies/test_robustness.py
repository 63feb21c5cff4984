"""Noise, false evidence and source: planted effects are found, and where nothing was planted nothing is."""

from __future__ import annotations

import random

import pytest

from beliefrag.record import EpisodeSummary, Outcome
from beliefrag.studies import Recording, StudyContext
from beliefrag.studies.robustness import (
    COMPARED,
    COUNTERFACTUAL_RUN,
    NOISE_LEVELS,
    ORDINARY_RUN,
    EvidenceSource,
    RobustnessStudy,
    auc_difference,
    compare_on_false_evidence,
    mean_auc,
    noise_run,
)
from beliefrag.studies.study import Compared
from tests.support.studied import episode, recording, rows_of, state, trajectory

QUESTIONS = 30


RATES = ("follows_false", "recovers_true", "abstained", "false_read")


def rate(found: Compared, method: str, measure: str = "follows_false") -> float:
    number = found.mean(method, measure)
    assert number is not None
    return number.value


def noisy(loss: float) -> dict[str, Recording]:
    """F1 falls by the loss with every level, for BeliefRAG by half of it."""
    return {
        noise_run(level): recording(
            episodes=[
                episode(m, f"q{k}", 0.8 - (place * loss) / (2 if m == "beliefrag" else 1) + 0.1 * (k % 2), 100)
                for m in COMPARED
                for k in range(QUESTIONS)
            ]
        )
        for place, level in enumerate(NOISE_LEVELS)
    }


def told(method: str, key: str, end: str, dataset: str = "d") -> EpisodeSummary:
    base = episode(method, key, 0.0, 100, dataset=dataset)
    metrics = {
        "f1": 0.0,
        "follows_false": float(end == "false"),
        "recovers_true": float(end == "true"),
        "false_read": 2.0 if end != "unread" else 0.0,
    }
    outcome = Outcome.ABSTAINED if end == "abstained" else Outcome.ANSWERED
    return base.model_copy(update={"outcome": outcome, "metrics": metrics})


def misled() -> Recording:
    """BeliefRAG follows on one of five questions, the others on two of five."""
    own = ("false", "true", "true", "abstained", "unread")
    others = ("false", "false", "true", "else", "else")
    return recording(
        episodes=[
            told(m, f"q{k}", (own if m == "beliefrag" else others)[k % 5]) for m in COMPARED for k in range(QUESTIONS)
        ]
    )


def ranked(signal: float, *, seed: int = 0, questions: int = 120, conflict: float = 0.1) -> Recording:
    """Return states whose answers are right by a chance that follows answerability as far as the signal goes."""
    draw = random.Random(seed)
    found = []
    for k in range(questions):
        p = draw.random()
        right = draw.random() < signal * (p > 0.5) + (1 - signal) * 0.5
        found.append(trajectory(f"q{k}", state(answerability=p, right=right, conflict=conflict)))
    return recording(found)


def everything(loss: float = 0.05, web: float = 0.3) -> dict[str, Recording]:
    clean = noisy(loss)
    name = noise_run(0.0)
    clean[name] = Recording(clean[name].run, clean[name].episodes, ranked(web, seed=1).trajectories)
    false = misled()
    lies = Recording(false.run, false.episodes, ranked(0.0, seed=2, conflict=0.8).trajectories)
    return {**clean, COUNTERFACTUAL_RUN: lies, ORDINARY_RUN: ranked(0.9, seed=3)}


def test_f1_by_level_is_what_was_planted_and_the_loss_is_paired() -> None:
    result = RobustnessStudy().analyse(everything(), StudyContext())
    rows = rows_of(result, "noise", "name")
    f1 = [rows["Static"][f"F1 at {level:.0%}"].value for level in NOISE_LEVELS]
    assert f1 == pytest.approx([0.85, 0.80, 0.75, 0.70, 0.65])
    # All questions lose the same, so there is no interval.
    assert (rows["Static"]["F1 lost"].value, rows["Static"]["F1 lost"].low) == (pytest.approx(-0.2), None)
    assert rows["BeliefRAG"]["F1 lost"].value == pytest.approx(-0.1)
    ahead = rows_of(result, "noise_differences", "name")["Static"]
    assert ahead["F1 at 80% difference"].value == pytest.approx(0.1)
    assert ahead["F1 at 0% difference"].value == pytest.approx(0.0)
    assert len(result.paper_values) == 12


def test_rates_of_following_recovering_and_abstaining_by_hand() -> None:
    found = compare_on_false_evidence(misled())
    own, other = ({name: rate(found, m, name) for name in RATES} for m in ("beliefrag", "static"))
    assert own == pytest.approx({"follows_false": 0.2, "recovers_true": 0.4, "abstained": 0.2, "false_read": 0.8})
    assert other == pytest.approx({"follows_false": 0.4, "recovers_true": 0.2, "abstained": 0.0, "false_read": 1.0})
    gap = found.difference("static", "follows_false")
    assert gap.value == pytest.approx(-0.2)
    # Where the others follow and BeliefRAG does not is one question in five; nowhere is it the other way round.
    assert gap.high is not None and gap.high < 0
    alike = [told(m, f"q{k}", "false") for m in COMPARED for k in range(QUESTIONS)]
    none = compare_on_false_evidence(recording(episodes=alike)).difference("static", "follows_false")
    assert (none.value, none.low, none.high) == (0.0, None, None)


def test_only_questions_with_a_false_answer_that_all_methods_finished_are_in_a_rate() -> None:
    plain = [episode(m, "q1", 1.0, 10) for m in COMPARED]
    misled_once = [told(m, "q0", "false") for m in COMPARED]
    assert rate(compare_on_false_evidence(recording(episodes=[*misled_once, *plain])), "static") == 1.0
    assert compare_on_false_evidence(recording(episodes=plain)).mean("static", "follows_false") is None
    both = [told(m, "q0", end, dataset) for m in COMPARED for end, dataset in (("false", "d"), ("true", "e"))]
    assert rate(compare_on_false_evidence(recording(episodes=both)), "static") == 0.5, "two questions with one id"
    lacking = [told(m, f"q{k}", "false" if k else "true") for m in COMPARED for k in range(3) if (m, k) != ("crag", 0)]
    found = compare_on_false_evidence(recording(episodes=lacking))
    assert (found.questions, found.left_out, rate(found, "static")) == ({"all": 2}, {"all": 1}, 1.0)


def sources_of(*recordings: Recording) -> list[EvidenceSource]:
    return [EvidenceSource.from_recording(each, "f1") for each in recordings]


def test_a_planted_shift_of_the_source_is_found() -> None:
    strong, weak = sources_of(ranked(0.9), ranked(0.2, seed=1))
    area, shift = mean_auc(strong), auc_difference(weak, strong)
    assert area is not None and shift is not None
    # With the signal 0.9 an answer is right with the chance 0.95 above one half and 0.05 below.
    assert area.value == pytest.approx(0.93, abs=0.05)
    assert shift.high is not None and shift.high < 0


def test_an_auc_needs_five_questions_of_each_outcome() -> None:
    # Eight states of each outcome, but only four questions with a right one.
    states = [
        trajectory(f"q{k}", *(state(answerability=0.1 * k + 0.01 * j, right=k < 4) for j in range(2))) for k in range(9)
    ]
    assert mean_auc(*sources_of(recording(states))) is None


def test_without_drafted_answers_the_last_state_and_the_answer_given_count() -> None:
    states = [trajectory(f"q{k}", state(answerability=0.1), state(answerability=k / 20)) for k in range(20)]
    given = [episode("beliefrag", f"q{k}", float(k >= 10), 100) for k in range(20)]
    area = mean_auc(*sources_of(recording(states, given)))
    assert area is not None and area.value == 1.0


def test_the_conflict_gate_by_source_is_what_was_planted() -> None:
    result = RobustnessStudy().analyse(everything(), StudyContext())
    sources = rows_of(result, "sources", "source")
    assert sources["counterfactual"]["conflict gate fires"].value == 1.0
    assert sources["ordinary"]["conflict gate fires"].value == 0.0
    assert result.numbers["auc_shift"].high < 0
