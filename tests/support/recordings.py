"""Made-up recordings with planted numbers: what a state measures, what its answer is worth and what it cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from beliefrag.calibration import Artifact, load_artifact
from beliefrag.policy import Spent, Thresholds, correction_fits, legal_actions
from beliefrag.record import Step
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import State, Trajectory
from beliefrag.types import Action, Attempt, Belief, Budget, Diagnostics
from tests.support.run_records import make_run_record

STEP = 1_000
"""Tokens from one state to the next; answering costs a tenth."""
_SLOPE = 10.0
_NO_WEIGHT = Diagnostics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def planted_artifact(**changes: object) -> Artifact:
    """A calibration for which the answerability of a `Seen` state is the one that was planted."""
    base = load_artifact("published").model_dump()
    fit = {"intercept": -_SLOPE / 2, "weights": asdict(replace(_NO_WEIGHT, support=_SLOPE))}
    return Artifact.model_validate(
        {**base, "name": "planted", "answerability": {**base["answerability"], **fit}, "retrieval_value": None}
    ).model_copy(update=changes)


@dataclass(frozen=True)
class Seen:
    """One state: its answerability, and the F1 of its answer (None where no answer was tried)."""

    answerability: float
    f1: float | None
    novelty: float = 1.0
    flagged: int = 0
    action: Action = Action.RETRIEVE
    """What was done next."""
    reason: str = ""


def trajectory(question_id: str, *seen: Seen, dataset: str = "d", method: str = "survey") -> Trajectory:
    """A recording that does what its states say; the last one always ends it."""
    return Trajectory(dataset, method, question_id, tuple(_states(seen)))


def ids(part: Partition, n: int, start: int = 0) -> list[str]:
    """The first so many made-up question ids of a part."""
    own = (f"q{k}" for k in itertools.count(start) if partition(f"q{k}") is part)
    return list(itertools.islice(own, n))


def recorded(
    trajectories: Iterable[Trajectory], thresholds: Thresholds = Thresholds()
) -> tuple[RunRecord, list[Trajectory]]:
    """The record of a run with these recordings, and the recordings."""
    own = list(trajectories)
    asked = {
        name: sorted({each.question_id for each in own if each.dataset == name})
        for name in sorted({each.dataset for each in own})
    }
    methods = tuple(dict.fromkeys(each.method for each in own)) or ("survey",)
    return make_run_record(asked, methods, thresholds=asdict(thresholds)), own


def _states(seen: Sequence[Seen]) -> Iterable[State]:
    budget = Budget()
    rounds = 0
    actions: tuple[Action, ...] = ()
    for place, each in enumerate(seen):
        last = place == len(seen) - 1
        action = Action.STOP if last else each.action
        tokens = place * STEP
        spent = Spent(rounds, len(actions), tokens)
        step = Step(
            number=place,
            action=action,
            reason=each.reason,
            legal=legal_actions(budget, spent, has_evidence=rounds > 0, has_query=rounds > 0),
            diagnostics=replace(
                _NO_WEIGHT,
                support=0.5 + math.log(each.answerability / (1 - each.answerability)) / _SLOPE,
                novelty=each.novelty,
            ),
            belief=Belief(0.5, 0.9, 0.0, 0.5, 0.5, 0.0),
            tokens=tokens,
            attempt=None if each.f1 is None else Attempt("it", STEP // 10, {"f1": each.f1}),
        )
        yield State(
            step=step,
            rounds=rounds,
            retained=5 * bool(rounds),
            flagged=each.flagged,
            actions=actions,
            correction_fits=correction_fits(budget, spent),
            nothing_missing=False,
        )
        rounds += action is Action.RETRIEVE
        actions = (*actions, action)
