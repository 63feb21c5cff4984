"""What the same calibrator and the same conflict gate say about evidence from different sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.quality import Floats, auc
from beliefrag.runs.states import Label, Trajectory
from beliefrag.runs.statistics import Estimate, estimate_from_resamples, random_generator
from beliefrag.studies.recording import Recording
from beliefrag.studies.states import StateTable

__all__ = ["LEAST", "Source", "difference", "mean_area", "source_of"]

LEAST = 5
"""Questions with a right answer, and as many with a wrong one, that an AUC needs to mean anything."""


@dataclass(frozen=True, slots=True)
class Source:
    """States of one method on evidence of one source."""

    name: str
    examples: Mapping[str, Examples]
    """By dataset, the states with an answer that is known to be right or wrong."""
    conflict: Estimate | None
    """Mean belief in conflict at states with evidence."""
    gate: Estimate | None
    """Share of such states at which conflict is at its threshold."""

    @property
    def usable(self) -> dict[str, Examples]:
        """The datasets with enough questions answered right and enough answered wrong."""
        return {name: own for name, own in self.examples.items() if _enough(own)}

    @property
    def states(self) -> int:
        """How many states have a known outcome."""
        return sum(len(own) for own in self.examples.values())


def source_of(name: str, recording: Recording, method: str, label: Label, datasets: Sequence[str]) -> Source:
    """The states of a method in a run.

    The states with an answer on trial count; where the verifier drafts none, the last state of each episode does, with
    the answer that was given.
    """
    own = [t for t in recording.states_of(method) if t.dataset in datasets]
    threshold = float(recording.run.thresholds["conflict"] or 0.0)
    visited = StateTable(own)
    conflict = visited.column(lambda state: state.belief.conflict)
    return Source(
        name=name,
        examples={d: _examples([t for t in own if t.dataset == d], recording, method, label) for d in datasets},
        conflict=visited.mean(conflict) if len(visited) else None,
        gate=visited.mean((conflict >= threshold).astype(np.float64)) if len(visited) else None,
    )


def _examples(trajectories: Sequence[Trajectory], recording: Recording, method: str, label: Label) -> Examples:
    tried = [
        Example(t.dataset, t.question_id, state, bool(state.correct(label)))
        for t in trajectories
        for state in t.states
        if state.retained and state.answerability is not None and state.correct(label) is not None
    ]
    if tried:
        return Examples(tried)
    ended = []
    for t in trajectories:
        given = recording.values(method, t.dataset, label).get(t.question_id)
        last = t.states[-1]
        if given is not None and last.retained and last.answerability is not None:
            ended.append(Example(t.dataset, t.question_id, last, given >= 0.5))
    return Examples(ended)


def mean_area(source: Source) -> Estimate | None:
    """The AUC of answerability, the simple mean over datasets; None where no dataset has enough of both outcomes."""
    usable = source.usable
    if not usable:
        return None
    value, drawn = _areas(usable)
    return estimate_from_resamples(value, drawn, questions=_fewest(usable))


def difference(one: Source, other: Source) -> Estimate | None:
    """How far the AUC on one source lies from that on the other, one minus other; None where either has none."""
    if not (one.usable and other.usable):
        return None
    (value, drawn), (against, drawn_against) = _areas(one.usable), _areas(other.usable)
    # The sources have no question in common: their draws are put together in another order.
    shuffled = random_generator(1).permutation(drawn_against)
    questions = min(_fewest(one.usable), _fewest(other.usable))
    return estimate_from_resamples(value - against, drawn - shuffled, questions=questions)


def _areas(usable: Mapping[str, Examples]) -> tuple[float, Floats]:
    values, drawn = [], []
    for place, own in enumerate(usable.values()):
        p = np.array([example.state.answerability for example in own.each], dtype=np.float64)
        values.append(float(auc(p, own.outcomes, own.weights)))
        # Every dataset is drawn by the same seed: without another order their draws would go up and down together.
        resamples = own.resample(partial(auc, p, own.outcomes))
        drawn.append(random_generator((0, place)).permutation(resamples))
    return float(np.mean(values)), np.mean(drawn, axis=0)


def _fewest(usable: Mapping[str, Examples]) -> int:
    return min(len(own.question_ids) for own in usable.values())


def _enough(examples: Examples) -> bool:
    # States of one question are not independent: ten right ones of one question say little.
    return all(
        len({example.question_id for example in examples.each if example.positive is right}) >= LEAST
        for right in (True, False)
    )
