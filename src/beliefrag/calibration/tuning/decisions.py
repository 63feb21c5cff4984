"""Which moves recorded states can answer for and which they cannot, and what to collect for the latter.

A record is one way through each question, or a few. Ending on that way is known at every state; what another search,
rewriting or correction would have brought is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from beliefrag.calibration.policy_replay import LeftTheRecord
from beliefrag.calibration.tuning.grid import corrects
from beliefrag.calibration.tuning.recorded import Recorded
from beliefrag.runs.states import Trajectory
from beliefrag.types import TERMINAL, Action

__all__ = ["Departure", "Move", "departure", "moves", "what_to_collect"]

_BOTH_WAYS = "'beliefrag calibrate collect --uncorrected' collects both ways."
_TO_THE_END = "'beliefrag calibrate collect' tries an answer at every state until the budget ends."


class Departure(StrEnum):
    """What a policy asked for that nobody recorded."""

    ANSWER = "an answer where none was tried"
    GO_ON = "going on where the record ends"
    CORRECTION = "a correction that was not recorded"
    NO_CORRECTION = "going on without the correction that was recorded"
    REWRITING = "a rewriting that was not recorded"
    NO_REWRITING = "a search without the rewriting that was recorded"


@dataclass(frozen=True, slots=True)
class Move:
    """What an operating point may do otherwise than the run did, and whether the record can tell what comes of it."""

    what: str
    told: str
    """Yes, no, or under which condition."""
    why: str


def departure(left: LeftTheRecord, recordings: Sequence[Trajectory]) -> Departure:
    """How a walk over these recordings left them."""
    if left.action in TERMINAL:
        return Departure.ANSWER
    if left.action is Action.VERIFY:
        return Departure.CORRECTION
    place = len(left.state.actions)
    there = [each.states[place] for each in recordings if len(each.states) > place]
    done = {state.action for state in there if state.actions == left.state.actions} - TERMINAL
    if not done:
        return Departure.GO_ON
    if done == {Action.VERIFY}:
        return Departure.NO_CORRECTION
    return Departure.REWRITING if left.action is Action.REWRITE else Departure.NO_REWRITING


def what_to_collect(departed: Departure, novelty: float) -> str:
    """What would have to be recorded to answer for such a point, as a sentence."""
    if departed in (Departure.ANSWER, Departure.GO_ON):
        return _TO_THE_END
    if departed in (Departure.CORRECTION, Departure.NO_CORRECTION):
        return _BOTH_WAYS
    return f"Collect a run of its own with novelty = {novelty:g} under [thresholds] in the settings."


def moves(recorded: Recorded) -> tuple[Move, ...]:
    """What the recordings of a run can answer for."""
    own = recorded.thresholds
    questions = list(recorded.recordings())
    states = [state for own_recordings in questions for each in own_recordings for state in each.states]
    tried = sum(state.answer is not None for state in states)
    to_the_end = sum(any(each.method != "beliefrag" for each in recordings) for recordings in questions)
    ways = [{each.method != "survey_uncorrected" and corrects(own) for each in recordings} for recordings in questions]
    return (
        Move(
            "ending earlier, or at any recorded state",
            "yes" if tried == len(states) else "where an answer was tried",
            f"{tried:,} of {len(states):,} recorded states have an answer on trial",
        ),
        Move(
            "searching on until the budget ends",
            "yes" if to_the_end == len(questions) else "as far as the run went",
            f"{to_the_end:,} of {len(questions):,} questions were surveyed to the end",
        ),
        *(_corrections(on, sum(on in way for way in ways), len(ways)) for on in (True, False)),
        Move(
            "another novelty threshold",
            f"where it rewrites just as {own.novelty:g} did",
            "a rewriting that was not made, or was, changes every query after it",
        ),
        Move(
            "another budget, prompt, model or corpus",
            "no",
            "nobody knows what would have been found and said",
        ),
    )


def _corrections(on: bool, recorded: int, questions: int) -> Move:
    return Move(
        f"corrections {'on' if on else 'off'}",
        "yes" if recorded == questions else "where nothing calls for one",
        f"{recorded:,} of {questions:,} questions were recorded {'with' if on else 'without'} them",
    )
