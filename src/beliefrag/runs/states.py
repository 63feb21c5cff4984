"""The states of recorded episodes: what was measured, what an answer there would have been, and whether it was right.

They are read from the lines of `episodes.jsonl`. A survey has an answer at every state; a BeliefRAG episode has one
wherever its verifier drafted it from the same passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from beliefrag.methods import STATE_COLLECTORS
from beliefrag.policy import Spent, correction_fits
from beliefrag.runs.compatibility import budget_of
from beliefrag.runs.record import RunRecord
from beliefrag.runs.samples import Partition, partition
from beliefrag.runs.store import NOT_AN_EPISODE, no_episode, read_lines
from beliefrag.runs.validate import amount, share
from beliefrag.types import Action, Belief, Budget, Diagnostics

__all__ = ["LABELS", "Label", "State", "Trajectory", "read_trajectories", "trajectory_of"]

Label = Literal["judge", "f1", "exact_match", "cover"]
LABELS: tuple[Label, ...] = ("judge", "f1", "exact_match", "cover")
"""What can say whether an answer is right. A token F1 counts from one half on."""


@dataclass(frozen=True, slots=True)
class State:
    """One moment of an episode at which a controller had to decide."""

    step: int
    diagnostics: Diagnostics
    belief: Belief
    rounds: int
    """Searches made so far."""
    retained: int
    flagged: int
    """How many of the retained passages the verifier would drop."""
    actions: tuple[Action, ...]
    """What was done before."""
    legal: tuple[Action, ...]
    correction_fits: bool
    nothing_missing: bool
    tokens: int
    """Spent so far, measuring this state included."""
    action: Action
    """What was done next."""
    reason: str
    """Why, in the words that a rewriter is given."""
    answer: str | None
    """What answering here would have given; None where nobody asked."""
    answer_tokens: int
    """What that would have added to the cost."""
    scores: Mapping[str, float]
    """Of that answer: `f1`, `exact_match`, `cover`, and `judge` where it was judged."""
    branch: str = ""
    """Which branch of the policy decided."""
    answerability: float | None = None
    """What the run's own calibration said; None where it had none, as in a survey."""
    retrieval_value: float | None = None

    def correct(self, label: Label) -> bool | None:
        """Whether the answer here is right by that measure; None where it was not asked for or not judged."""
        value = self.scores.get(label)
        return None if value is None else value >= 0.5


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The states of one episode, in order."""

    dataset: str
    method: str
    question_id: str
    states: tuple[State, ...]

    @property
    def partition(self) -> Partition:
        """Whether the question is for fitting, choosing or holding out."""
        return partition(self.question_id)


def read_trajectories(folder: Path, *methods: str) -> tuple[RunRecord, list[Trajectory]]:
    """The record of a run and the trajectories of its finished episodes, of these methods or of all that measure.

    Raises:
        RunError: The folder holds no run, or it cannot be read.
    """
    run = RunRecord.read(folder)
    budget = budget_of(run)
    latest = {
        line.episode.key: line
        for line in read_lines(folder)
        if line.episode.finished and (not methods or line.episode.key.method in methods)
    }
    found = []
    for line in latest.values():
        try:
            found.append(trajectory_of(line.record, budget))
        except NOT_AN_EPISODE as error:
            raise no_episode(folder, line.number, error) from None
    return run, [trajectory for trajectory in found if trajectory.states]


def trajectory_of(record: Mapping[str, Any], budget: Budget) -> Trajectory:
    """The trajectory of one line of `episodes.jsonl`. It has no states where the method measures nothing.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: A step is not one, or a number is out of its range.
    """
    return Trajectory(record["dataset"], record["method"], record["question_id"], tuple(_states(record, budget)))


def _states(record: Mapping[str, Any], budget: Budget) -> Iterator[State]:
    surveyed = record["method"] in STATE_COLLECTORS
    rounds = 0
    nothing_missing = False
    actions: tuple[Action, ...] = ()
    evidence: list[str] = []
    for step in record["steps"]:
        if step["diagnostics"] is None or step["belief"] is None:
            return
        attempt = step.get("attempt") or {}
        action = Action(step["action"])
        tokens = int(amount("tokens", step["tokens"]))
        yield State(
            step=step["step"],
            diagnostics=Diagnostics(**_shares("diagnostics", step["diagnostics"])),
            belief=Belief(**_shares("belief", step["belief"])),
            rounds=rounds,
            retained=len(evidence),
            flagged=len(set(evidence).intersection(step.get("flagged", ()))),
            actions=actions,
            legal=tuple(Action(legal) for legal in step["legal"]),
            correction_fits=correction_fits(budget, Spent(rounds, len(actions), tokens)) and not nothing_missing,
            nothing_missing=nothing_missing,
            tokens=tokens,
            action=action,
            reason=step["reason"],
            answer=_text(attempt.get("answer")),
            answer_tokens=int(amount("attempt.tokens", attempt.get("tokens", 0))),
            scores=_shares("attempt", {name: attempt[name] for name in LABELS if attempt.get(name) is not None}),
            branch=step.get("branch", ""),
            # A survey goes on whatever its state: it writes down a number that stands for nothing.
            answerability=None if surveyed else _told(step, "answerability"),
            retrieval_value=None if surveyed else _told(step, "retrieval_value"),
        )
        if action is Action.RETRIEVE:
            searched = step["query"] is not None or step["query_is_the_question"]
            rounds += searched
            nothing_missing = not searched
        actions = (*actions, action)
        evidence = step["evidence"]


def _shares(where: str, values: Mapping[str, Any]) -> dict[str, float]:
    return {name: share(f"{where}.{name}", value) for name, value in values.items()}


def _text(answer: Any) -> str | None:
    if answer is not None and not isinstance(answer, str):
        raise TypeError(f"attempt.answer is {answer!r:.40}, not text")
    return answer


def _told(step: Mapping[str, Any], name: str) -> float | None:
    value = step.get(name)
    return None if value is None else share(name, value)
