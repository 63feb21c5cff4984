"""Which decisions the recorded states can answer for, which they cannot, and what to collect for the latter.

A recording is one way through each question, or a few. Ending on that way is known at every state. What another
search, rewriting or correction would have brought is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from beliefrag.calibration.policy_replay import UnrecordedStep, has_corrections
from beliefrag.calibration.tuning.recorded import RecordedQuestions
from beliefrag.runs.states import Trajectory
from beliefrag.types import TERMINAL, Action

__all__ = ["DecisionCoverage", "MissingStep", "advise_collection", "find_missing_step", "list_decisions"]


_BOTH_WAYS = "'beliefrag calibrate collect --uncorrected' collects both ways."
_TO_THE_END = "'beliefrag calibrate collect' tries an answer at every state until the budget ends."


class MissingStep(StrEnum):
    """A step that a policy takes and that nobody recorded."""

    ANSWER = "an answer where none was tried"
    CONTINUATION = "going on where the recording ends"
    CORRECTION = "a correction that was not recorded"
    NO_CORRECTION = "going on without the correction that was recorded"
    REWRITING = "a rewriting that was not recorded"
    NO_REWRITING = "a search without the rewriting that was recorded"


@dataclass(frozen=True, slots=True)
class DecisionCoverage:
    """A decision that differs from those of the run, and whether its result is known from the recorded states."""

    decision: str
    known: str
    """Yes, no, or under which condition."""
    reason: str


def find_missing_step(stopped: UnrecordedStep, recordings: Sequence[Trajectory]) -> MissingStep:
    """Says which step is missing in the recordings where the replay of the policy stopped."""
    if stopped.action in TERMINAL:
        return MissingStep.ANSWER
    if stopped.action is Action.VERIFY:
        return MissingStep.CORRECTION
    place = len(stopped.state.actions)
    there = [each.states[place] for each in recordings if len(each.states) > place]
    done = {state.action for state in there if state.actions == stopped.state.actions} - TERMINAL
    if not done:
        return MissingStep.CONTINUATION
    if done == {Action.VERIFY}:
        return MissingStep.NO_CORRECTION
    return MissingStep.REWRITING if stopped.action is Action.REWRITE else MissingStep.NO_REWRITING


def advise_collection(missing: MissingStep, novelty: float) -> str:
    """Says in a sentence what to record so that such a point gets a result."""
    if missing in (MissingStep.ANSWER, MissingStep.CONTINUATION):
        return _TO_THE_END
    if missing in (MissingStep.CORRECTION, MissingStep.NO_CORRECTION):
        return _BOTH_WAYS
    return f"Collect a run of its own with novelty = {novelty:g} under [thresholds] in the settings."


def list_decisions(recorded: RecordedQuestions) -> tuple[DecisionCoverage, ...]:
    """Lists which decisions the recordings of a run can answer for."""
    own = recorded.thresholds
    questions = list(recorded.recordings())
    states = [state for own_recordings in questions for each in own_recordings for state in each.states]
    tried = sum(state.answer is not None for state in states)
    to_the_end = sum(any(each.method != "beliefrag" for each in recordings) for recordings in questions)
    ways = [
        {each.method != "survey_uncorrected" and has_corrections(own) for each in recordings}
        for recordings in questions
    ]
    return (
        DecisionCoverage(
            "ending earlier, or at any recorded state",
            "yes" if tried == len(states) else "where an answer was tried",
            f"{tried:,} of {len(states):,} recorded states have an answer on trial",
        ),
        DecisionCoverage(
            "searching on until the budget ends",
            "yes" if to_the_end == len(questions) else "as far as the run went",
            f"{to_the_end:,} of {len(questions):,} questions were recorded until the budget ended",
        ),
        *(_describe_corrections(on, sum(on in way for way in ways), len(ways)) for on in (True, False)),
        DecisionCoverage(
            "another novelty threshold",
            f"where it rewrites just as {own.novelty:g} did",
            "a rewriting that was not made, or was, changes every query after it",
        ),
        DecisionCoverage(
            "another budget, prompt, model or corpus",
            "no",
            "the passages and replies would be others",
        ),
    )


def _describe_corrections(on: bool, recorded: int, questions: int) -> DecisionCoverage:
    return DecisionCoverage(
        f"corrections {'on' if on else 'off'}",
        "yes" if recorded == questions else "where no gate asks for one",
        f"{recorded:,} of {questions:,} questions were recorded {'with' if on else 'without'} them",
    )
