from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.explanation import describe_reason
from beliefrag.policy import Situation, Thresholds, decide
from beliefrag.types import TERMINAL, Action, Belief
from tests.support.messages import mentions

ALL = tuple(Action)
CALM = Belief(sufficiency=0.5, reliability=0.5, conflict=0.1, uncertainty=0.5, gap=0.5, cost=0.2)

BASE = Situation(
    belief=CALM,
    answerability=0.4,
    retrieval_value=0.5,
    novelty=0.9,
    rounds=1,
    flagged=0,
    actions=(Action.RETRIEVE,),
    legal=ALL,
    correction_fits=True,
)


def chosen(situation: Situation, **thresholds: object) -> tuple[Action, str]:
    decision = decide(situation, replace(Thresholds(), **thresholds))  # type: ignore[arg-type]
    return decision.action, decision.branch


VERIFIED = (Action.RETRIEVE, Action.VERIFY)
ENDING: dict[str, object] = {"legal": tuple(TERMINAL), "correction_fits": False}
NO_REWRITE = tuple(action for action in Action if action is not Action.REWRITE)


@pytest.mark.parametrize(
    ("change", "action", "branch"),
    [
        # A correction that has begun is finished, even if the question is answerable, unless the budget ends.
        ({"actions": VERIFIED, "answerability": 0.99}, Action.REWRITE, "finish-correction"),
        ({"actions": (*VERIFIED, Action.REWRITE), "answerability": 0.99}, Action.RETRIEVE, "finish-rewrite"),
        ({"actions": VERIFIED, **ENDING}, Action.STOP, "stop"),
        # None starts that does not fit, nor at the threshold of reliability.
        ({"flagged": 3, "correction_fits": False, "answerability": 0.9}, Action.ANSWER, "answer"),
        ({"belief": replace(CALM, reliability=0.30), "answerability": 0.99}, Action.ANSWER, "answer"),
        ({"answerability": 0.50}, Action.ANSWER, "answer"),
        ({"answerability": 0.499}, Action.RETRIEVE, "retrieve"),
        ({"retrieval_value": 0.10}, Action.RETRIEVE, "retrieve"),
        ({"retrieval_value": 0.099}, Action.STOP, "stop"),
        # After a stale search the query is rewritten first, if there was a search and there is room.
        ({"novelty": 0.19}, Action.REWRITE, "rewrite"),
        ({"novelty": 0.20}, Action.RETRIEVE, "retrieve"),
        ({"novelty": 0.0, "rounds": 0, "actions": ()}, Action.RETRIEVE, "retrieve"),
        ({"novelty": 0.0, "legal": NO_REWRITE}, Action.RETRIEVE, "retrieve"),
    ],
)
def test_the_branches_and_their_thresholds(change: dict[str, object], action: Action, branch: str) -> None:
    assert chosen(replace(BASE, **change)) == (action, branch)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"correction_prunes": False, "correction_replaces": False}, "neither prunes nor replaces"),
        ({"decline_below": 0.6, "abstain": False}, "abstain is off"),
        ({"decline_below": 1.1}, r"decline_below .*0 and 1"),
    ],
)
def test_thresholds_that_contradict_each_other_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Thresholds(**options)


@pytest.mark.parametrize(
    ("change", "branch"),
    [
        ({"belief": replace(CALM, conflict=0.50)}, "correct-conflict"),
        ({"belief": replace(CALM, reliability=0.29)}, "correct-unreliable"),
        ({"flagged": 2}, "correct-flagged"),
    ],
)
def test_each_trigger_starts_a_correction_before_answering(change: dict[str, object], branch: str) -> None:
    situation = replace(BASE, answerability=0.99, **change)  # type: ignore[arg-type]
    assert chosen(situation) == (Action.VERIFY, branch)


@pytest.mark.parametrize(
    ("change", "switch"),
    [({"belief": replace(CALM, reliability=0.29)}, "correct_unreliable"), ({"flagged": 2}, "correct_flagged")],
)
def test_a_trigger_that_is_switched_off_starts_nothing(change: dict[str, object], switch: str) -> None:
    situation = replace(BASE, answerability=0.99, **change)  # type: ignore[arg-type]
    assert chosen(situation, **{switch: False}) == (Action.ANSWER, "answer")
    # Conflict blocks the answer also where it starts no correction.
    torn = replace(BASE, answerability=0.99, belief=replace(CALM, conflict=0.5))
    assert chosen(torn, correct_conflict=False) == (Action.STOP, "stop")


HOPELESS = replace(
    BASE,
    belief=Belief(sufficiency=0.10, reliability=0.5, conflict=0.1, uncertainty=0.90, gap=0.9, cost=0.5),
    answerability=0.30,
    retrieval_value=0.05,
)


def test_it_abstains_when_evidence_is_inadequate_and_no_search_is_worth_it() -> None:
    assert chosen(HOPELESS) == (Action.ABSTAIN, "abstain")
    assert chosen(HOPELESS, abstain=False) == (Action.STOP, "stop")


@pytest.mark.parametrize(
    "change",
    [
        {"belief": replace(HOPELESS.belief, sufficiency=0.15)},
        {"belief": replace(HOPELESS.belief, uncertainty=0.85)},
        {"answerability": 0.35},
    ],
)
def test_it_abstains_only_when_all_three_conditions_hold(change: dict[str, object]) -> None:
    assert chosen(replace(HOPELESS, **change)) == (Action.STOP, "stop")  # type: ignore[arg-type]


def test_with_nothing_to_answer_from_it_abstains() -> None:
    nothing = replace(BASE, retained=0, retrieval_value=0.05)
    assert chosen(nothing) == (Action.ABSTAIN, "abstain-nothing-found")
    assert chosen(nothing, abstain=False) == (Action.STOP, "stop")
    assert chosen(replace(nothing, answerability=0.9)) == (Action.ANSWER, "answer")


def test_a_decision_says_what_it_compared_and_what_was_legal() -> None:
    decision = decide(replace(BASE, answerability=0.53), Thresholds())
    answerability, conflict = map(str, decision.comparisons)
    assert mentions(answerability, "answerability 0.53", "is at least 0.50")
    assert mentions(conflict, "conflict 0.10", "is below 0.50")
    assert decision.legal == ALL


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nothing_missing": True, "legal": tuple(TERMINAL)}, "nothing left to search"),
        ({"legal": tuple(TERMINAL)}, "no search is left"),
        ({"retrieval_value": 0.0}, "not worth it"),
        ({"answerability": 0.9, "belief": replace(CALM, conflict=0.9), "correction_fits": False}, "contradicts itself"),
    ],
)
def test_stopping_says_truly_why(change: dict[str, object], words: str) -> None:
    decision = decide(replace(BASE, **change), Thresholds())  # type: ignore[arg-type]
    assert decision.action is Action.STOP
    assert words in describe_reason(decision.reason)


unit = st.floats(0.0, 1.0)


@given(
    st.builds(
        Situation,
        belief=st.builds(Belief, unit, unit, unit, unit, unit, unit),
        answerability=unit,
        retrieval_value=unit,
        novelty=unit,
        rounds=st.integers(0, 3),
        flagged=st.integers(0, 5),
        actions=st.lists(st.sampled_from([Action.RETRIEVE, Action.REWRITE, Action.VERIFY]), max_size=5).map(tuple),
        legal=st.sets(st.sampled_from([Action.RETRIEVE, Action.REWRITE, Action.VERIFY])).map(
            lambda extra: tuple(a for a in Action if a in extra or a in TERMINAL)
        ),
        correction_fits=st.booleans(),
        nothing_missing=st.booleans(),
    ),
    st.booleans(),
)
def test_whatever_the_situation_the_decision_is_legal(situation: Situation, abstain: bool) -> None:
    assert decide(situation, Thresholds(abstain=abstain)).action in situation.legal


@pytest.mark.parametrize(
    ("change", "otherwise"),
    [
        ({"answerability": 0.55}, "answer"),
        ({"answerability": 0.59, "belief": replace(CALM, conflict=0.6), "correction_fits": False}, "stop"),
        ({"retrieval_value": 0.0}, "stop"),
    ],
)
def test_an_ending_below_the_decline_below_gives_no_answer(change: dict[str, object], otherwise: str) -> None:
    situation = replace(BASE, **change)  # type: ignore[arg-type]
    assert chosen(situation)[1] == otherwise
    held = decide(situation, Thresholds(decline_below=0.6))
    assert (held.action, held.branch) == (Action.ABSTAIN, "abstain-unsure")
    assert [(c.name, c.value, c.threshold, c.holds) for c in held.comparisons] == [
        ("answerability", situation.answerability, 0.6, True)
    ]


@given(
    answerability=st.floats(0, 1),
    least=st.floats(0, 1),
    value=st.floats(0, 1),
    conflict=st.floats(0, 1),
    flagged=st.integers(0, 2),
)
def test_the_decline_below_changes_endings_alone(
    answerability: float, least: float, value: float, conflict: float, flagged: int
) -> None:
    situation = replace(
        BASE,
        answerability=answerability,
        retrieval_value=value,
        belief=replace(CALM, conflict=conflict),
        flagged=flagged,
    )
    before = decide(situation, Thresholds())
    after = decide(situation, Thresholds(decline_below=least))
    if before.action in (Action.ANSWER, Action.STOP) and answerability < least:
        assert after.action is Action.ABSTAIN
    else:
        assert after == before


def test_without_pruning_a_correction_begins_with_the_rewriting() -> None:
    assert chosen(replace(BASE, flagged=1), correction_prunes=False) == (Action.REWRITE, "correct-flagged")
    after = replace(BASE, flagged=1, actions=(Action.RETRIEVE, Action.REWRITE))
    assert chosen(after, correction_prunes=False) == (Action.RETRIEVE, "finish-rewrite")


def test_without_replacing_a_correction_ends_with_the_pruning() -> None:
    assert chosen(replace(BASE, flagged=1), correction_replaces=False) == (Action.VERIFY, "correct-flagged")
    after = replace(BASE, answerability=0.9, actions=(Action.RETRIEVE, Action.VERIFY))
    assert chosen(after, correction_replaces=False) == (Action.ANSWER, "answer")
    # Conflict that stays after the pruning does not bring a second VERIFY: nothing has changed since.
    still = replace(after, belief=replace(CALM, conflict=0.9))
    assert chosen(still, correction_replaces=False) == (Action.STOP, "stop")


@given(st.booleans(), st.sampled_from([0, 2]), st.floats(0, 1), st.floats(0, 1))
def test_the_ablated_corrections_start_exactly_where_the_whole_one_does(
    fits: bool, flagged: int, conflict: float, reliability: float
) -> None:
    belief = replace(CALM, conflict=conflict, reliability=reliability)
    situation = replace(BASE, correction_fits=fits, flagged=flagged, belief=belief)
    branches = {
        chosen(situation, **ablation)[1].startswith("correct")
        for ablation in ({}, {"correction_prunes": False}, {"correction_replaces": False})
    }
    assert len(branches) == 1
