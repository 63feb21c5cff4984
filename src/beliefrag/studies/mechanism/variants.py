"""The variants of BeliefRAG that are compared, and the runs that they are made in (SPEC 10.1).

Ablations are settings of the policy. Interventions exchange answerability before it decides, and touch nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from beliefrag.methods.intervention import FrozenAnswerability, Intervention, MatchedState, PermutedAnswerability
from beliefrag.studies.kinds import MULTI_HOP
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun

__all__ = ["ABLATIONS", "FULL", "INTERVENTIONS", "LIVE", "METHOD", "STUDIED", "THRESHOLD", "Variant", "matched_states"]

METHOD = "beliefrag"
THRESHOLD = 0.55
"""Of the answer gate in the paper's interventions."""
_LIVE_RUN = "answerability_live"


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant: what it is called, and the run that it is made in."""

    name: str
    run: RequiredRun
    published: Mapping[str, str]
    """Ids of the paper's values for it, by measure."""


def _frozen(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    return FrozenAnswerability()


def _permuted(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    live = recordings[_LIVE_RUN]
    return PermutedAnswerability(matched_states(live, dataset), live.run.seed)


def matched_states(live: Recording, dataset: str) -> dict[int, tuple[MatchedState, ...]]:
    """The states of the live episodes on a dataset that can stand in for others: those with evidence, by round."""
    found: dict[int, list[MatchedState]] = defaultdict(list)
    for trajectory in live.states_of(METHOD):
        for state in trajectory.states if trajectory.dataset == dataset else ():
            if state.retained and state.answerability is not None:
                found[state.rounds].append(MatchedState(trajectory.question_id, state.answerability))
    return {rounds: tuple(states) for rounds, states in sorted(found.items())}


def _ablated(name: str, **off: bool) -> RequiredRun:
    changes = {f"thresholds.{threshold}": value for threshold, value in off.items()}
    return RequiredRun(name, (METHOD,), kind=MULTI_HOP, changes=changes)


_AT_THRESHOLD = {"thresholds.answer": THRESHOLD}

FULL = Variant("full", RequiredRun("comparison", (METHOD,)), {"accuracy": "correction_full"})
"""The run is the one that others compare methods in: BeliefRAG as it is."""
ABLATIONS = (
    FULL,
    Variant(
        "no correction",
        _ablated("no_correction", correct_conflict=False, correct_unreliable=False, correct_flagged=False),
        {"accuracy": "correction_none"},
    ),
    Variant("no verification", _ablated("no_verification", correction_prunes=False), {"accuracy": "verification_none"}),
    Variant("prune only", _ablated("prune_only", correction_replaces=False), {"accuracy": "prune_only"}),
)
STUDIED = frozenset(
    {"correct_conflict", "correct_unreliable", "correct_flagged", "correction_prunes", "correction_replaces"}
)
"""The thresholds in which ablations differ."""

LIVE = Variant(
    "live",
    RequiredRun(_LIVE_RUN, (METHOD,), kind=MULTI_HOP, changes=_AT_THRESHOLD),
    {"accuracy": "answerability_live", "rounds": "rounds_live"},
)
INTERVENTIONS = (
    LIVE,
    Variant(
        "permuted",
        RequiredRun(
            "answerability_permuted",
            (METHOD,),
            kind=MULTI_HOP,
            changes=_AT_THRESHOLD,
            intervene=_permuted,
            after=(_LIVE_RUN,),
        ),
        {"accuracy": "answerability_permuted", "rounds": "rounds_permuted"},
    ),
    Variant(
        "frozen",
        RequiredRun("answerability_frozen", (METHOD,), kind=MULTI_HOP, changes=_AT_THRESHOLD, intervene=_frozen),
        {"accuracy": "answerability_frozen", "rounds": "rounds_frozen"},
    ),
)
