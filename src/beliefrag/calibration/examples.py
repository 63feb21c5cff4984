"""What a fit learns from: the states of runs that were made alike, with the outcome that is to be predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np

from beliefrag.calibration.artifact import CorpusReport, PartCount, backbone
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.runs.comparability import Aspect, differences
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import LABELS, Label, State, Trajectory, read_trajectories
from beliefrag.runs.statistics import MEAN_RESAMPLES, Floats, resample_weights
from beliefrag.types import Action, Diagnostics
from beliefrag.verifiers import build_verifier

DIAGNOSTICS: tuple[str, ...] = tuple(field.name for field in fields(Diagnostics))
_ASPECTS = (Aspect.MODEL, Aspect.VERIFIER, Aspect.RETRIEVER, Aspect.PACK, Aspect.INJECTION, Aspect.BUDGET, Aspect.RULES)
_QUERY_PROMPTS = ("query_writer", "rewriter")
"""Prompts that decide which states are visited, though not what a state means."""


@dataclass(frozen=True, slots=True)
class StateCollection:
    """The states of runs that were made alike."""

    runs: tuple[RunRecord, ...]
    trajectories: tuple[Trajectory, ...]
    selecting: frozenset[str] = frozenset()
    """The questions to choose a kind on, where the user named them; all others are then for fitting."""

    def part_of(self, question_id: str) -> Partition:
        """Return the part of a question: as the user said, or else by the hash of its id."""
        if not self.selecting:
            return partition(question_id)
        return Partition.XSEL if question_id in self.selecting else Partition.XFIT

    @property
    def prompts(self) -> dict[str, str]:
        """Hash of each prompt that shaped the diagnostics and the answers."""
        run = self.runs[0]
        return {name: run.prompts[name] for name in _prompts_that_shape(run) if name in run.prompts}

    @property
    def seed(self) -> int | None:
        """The seed that drew the questions; None where the runs differ."""
        seeds = {run.seed for run in self.runs}
        return seeds.pop() if len(seeds) == 1 else None

    def corpora(self) -> dict[str, CorpusReport]:
        """Return the datasets that states come from."""
        asked = Counter(name for name, _ in {(each.dataset, each.question_id) for each in self.trajectories})
        return {
            name: CorpusReport(
                fingerprint=dataset.fingerprint,
                passages=dataset.passages,
                questions=asked[name],
                score_scale=next(iter(dataset.score_scales.values()), None),
            )
            for run in self.runs
            for name, dataset in run.datasets.items()
            if asked[name]
        }

    def default_label(self) -> Label:
        """Return the judge's verdict where every answer on trial has one, as in the paper; otherwise token F1."""
        tried = [state for trajectory in self.trajectories for state in trajectory.states if state.answer is not None]
        return "judge" if tried and all(state.correct("judge") is not None for state in tried) else "f1"


def read_collection(folders: Sequence[Path], select: Sequence[Path] = ()) -> StateCollection:
    """Read the states of these runs. With `select`, kinds are chosen on those runs, and fitted on all of the others."""
    fitting, folders = len(folders), [*folders, *select]
    for place, folder in enumerate(folders):
        if folder.resolve() in {other.resolve() for other in folders[:place]}:
            raise CalibrationError(f"{folder} is given twice.", remedy="Name each run once: its states count once.")
    read = [read_trajectories(folder) for folder in folders]
    first = read[0][0]
    for folder, (run, _) in zip(folders[1:], read[1:], strict=True):
        judged = bool(first.judge and run.judge)
        for what, one, other in differences(
            first,
            run,
            (*_ASPECTS, Aspect.PROMPTS, *([Aspect.JUDGE] if judged else []), Aspect.CORPUS),
            is_same_model=lambda one, other: backbone(one) == backbone(other),
            prompts=[*_prompts_that_shape(first), *_QUERY_PROMPTS, *(["judge"] if judged else [])],
        ):
            raise CalibrationError(
                f"{folders[0]} has the {what} {one}, and {folder} has {other}: their states cannot be compared.",
                remedy="Fit runs of one kind together.",
            )
    trajectories = tuple(trajectory for _, found in read for trajectory in found)
    if not any(state.answer is not None for trajectory in trajectories for state in trajectory.states):
        raise CalibrationError(
            f"{folders[0]} has no state with a trial answer.",
            remedy="Collect states with 'beliefrag calibrate collect' first.",
        )
    known, selecting = (
        frozenset(trajectory.question_id for _, found in part for trajectory in found)
        for part in (read[:fitting], read[fitting:])
    )
    if both := known & selecting:
        raise CalibrationError(
            f"{len(both):,} questions are in a run to fit on and in one to choose on, such as {min(both)[:60]}.",
            remedy="Collect states of different questions, as those of a train and of a dev split.",
        )
    return StateCollection(tuple(run for run, _ in read), trajectories, selecting)


def parse_label(name: str) -> Label:
    """Return the label of that name."""
    found = next((label for label in LABELS if label == name), None)
    if found is None:
        raise SettingsError(f"No label is called {name!r}.", remedy=f"Known: {', '.join(LABELS)}.")
    return found


def _prompts_that_shape(run: RunRecord) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("system", "answer", *build_verifier(run.verifier).prompts)))


@dataclass(frozen=True, slots=True)
class Example:
    """One state and what came of it."""

    dataset: str
    question_id: str
    state: State
    positive: bool

    @property
    def question(self) -> str:
        """Which question it belongs to: examples of one question are not independent."""
        return f"{self.dataset}/{self.question_id}"


class Examples:
    """Examples as columns. They are sorted, so the order of files and of methods changes no number."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self.each: tuple[Example, ...] = tuple(
            sorted(examples, key=lambda e: (e.question, e.state.step.number, e.state.diagnostics.vector(), e.positive))
        )
        self.outcomes: Floats = np.array([float(e.positive) for e in self.each])
        self.questions: tuple[str, ...] = tuple(e.question for e in self.each)
        sizes = Counter(self.questions)
        self.weights: Floats = np.array([1 / sizes[question] for question in self.questions])
        """A question counts once: its examples share its weight."""

    def __len__(self) -> int:
        return len(self.each)

    @property
    def states(self) -> Iterator[State]:
        """The states, in order."""
        return (example.state for example in self.each)

    @property
    def diagnostics(self) -> Floats:
        """One row of diagnostics for each example."""
        return np.array([state.diagnostics.vector() for state in self.states])

    @property
    def question_ids(self) -> tuple[str, ...]:
        """The ids of the questions, each once."""
        return tuple(sorted({example.question_id for example in self.each}))

    @property
    def rate(self) -> float:
        """The share of positive outcomes, by weight."""
        return float(self.weights @ self.outcomes / self.weights.sum())

    @property
    def has_both_outcomes(self) -> bool:
        """Whether there are positive and negative examples."""
        return len(set(self.outcomes.tolist())) == 2

    @property
    def count(self) -> PartCount:
        """How many states and questions there are, by outcome."""
        return PartCount(
            states=len(self),
            positive=int(self.outcomes.sum()),
            questions=len(set(self.questions)),
            questions_positive=len({example.question for example in self.each if example.positive}),
            questions_negative=len({example.question for example in self.each if not example.positive}),
        )

    def resampled_weights(self, resamples: int = MEAN_RESAMPLES) -> Iterator[Floats]:
        """Yield blocks of rows of weights: a question weighs as often as it is drawn."""
        return (counts * self.weights for counts in resample_weights(self.questions, resamples=resamples))

    def resample(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return a statistic of the weights for each resample of the questions."""
        return np.concatenate([statistic(weights) for weights in self.resampled_weights()])

    def select_part(self, part: Partition, part_of: Callable[[str], Partition] = partition) -> Examples:
        """Return the examples whose questions are in one part of the study."""
        return Examples(example for example in self.each if part_of(example.question_id) is part)


def label_states(trajectories: Sequence[Trajectory], label: Label) -> tuple[Examples, int, int]:
    """Return the states at which an answer was tried, as examples that are positive where the answer was right.

    Then how many were left out: states with nothing retained, whose diagnostics are constants, and without a label.
    """
    found: list[Example] = []
    bare = unlabelled = 0
    for trajectory in trajectories:
        for state in trajectory.states:
            correct = state.correct(label)
            if state.retained == 0:
                bare += 1
            elif correct is None:
                unlabelled += 1
            else:
                found.append(Example(trajectory.dataset, trajectory.question_id, state, correct))
    return Examples(found), bare, unlabelled


def label_searches(
    trajectories: Sequence[Trajectory], label: Label, is_consulted: Callable[[State], bool] = lambda _: True
) -> Examples:
    """Return the unanswerable states from which a search was made, positive where the state after it was answerable.

    A search at the end of a correction is left out: the policy does not ask what it is worth. `is_consulted` returns
    whether it asks at a state; for a rewritten query that is the state before the rewriting.
    """
    return Examples(
        Example(trajectory.dataset, trajectory.question_id, before, bool(after.correct(label)))
        for trajectory in trajectories
        for place, (before, after) in enumerate(pairwise(trajectory.states))
        if before.action is Action.RETRIEVE
        and Action.VERIFY not in before.actions[-2:]
        and after.rounds > before.rounds
        and before.correct(label) is False
        and after.correct(label) is not None
        and is_consulted(trajectory.states[place - 1] if place and before.actions[-1:] == (Action.REWRITE,) else before)
    )
