"""Reads the states of one or several runs, and refuses runs whose states do not mean the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag.calibration.artifact import CorpusReport
from beliefrag.calibration.selection import RunConditions, backbone
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.runs.comparability import Aspect, RunDifference, differences
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import LABELS, Label, Trajectory, read_trajectories
from beliefrag.verifiers import build_verifier

__all__ = ["StateCollection", "parse_label", "read_collection"]


_QUERY_PROMPTS = ("query_writer", "rewriter")
"""Prompts that decide which states are visited, though not what a state means."""

_COLLECT = "Collect states with 'beliefrag calibrate collect' first."


@dataclass(frozen=True, slots=True)
class StateCollection:
    """The states of runs that were made alike."""

    runs: tuple[RunRecord, ...]
    trajectories: tuple[Trajectory, ...]

    @property
    def prompts(self) -> dict[str, str]:
        """Hash of each prompt that shaped the diagnostics and the answers."""
        run = self.runs[0]
        return {name: run.prompts[name] for name in _prompts_that_shape(run) if name in run.prompts}

    @property
    def conditions(self) -> RunConditions:
        """What the runs asked and searched with."""
        run = self.runs[0]
        return RunConditions(run.model, run.verifier, self.prompts, run.searched_with)

    @property
    def seed(self) -> int | None:
        """The seed that drew the questions; None where the runs differ."""
        seeds = {run.seed for run in self.runs}
        return seeds.pop() if len(seeds) == 1 else None

    @property
    def judge(self) -> str | None:
        """Who judged the answers."""
        return next((run.judge for run in self.runs if run.judge), None)

    def corpora(self) -> dict[str, CorpusReport]:
        """Return the datasets that states come from."""
        asked = {(trajectory.dataset, trajectory.question_id) for trajectory in self.trajectories}
        found = {}
        for run in self.runs:
            for name, dataset in run.datasets.items():
                if questions := sum(each == name for each, _ in asked):
                    found[name] = CorpusReport(
                        fingerprint=dataset.fingerprint,
                        passages=dataset.passages,
                        questions=questions,
                        score_scale=next(iter(dataset.score_scales.values()), None),
                    )
        return found

    def default_label(self) -> Label:
        """Return the judge's verdict where every answer on trial has one, as the paper has it; otherwise token F1."""
        tried = [state for trajectory in self.trajectories for state in trajectory.states if state.answer is not None]
        return "judge" if tried and all(state.correct("judge") is not None for state in tried) else "f1"


def read_collection(folders: Sequence[Path]) -> StateCollection:
    """Read the states of these runs.

    Raises:
        RunError: A folder holds no run, or it cannot be read.
        CalibrationError: No state was recorded, a run is given twice, or the runs were not made alike.
    """
    named: set[Path] = set()
    for folder in folders:
        if folder.resolve() in named:
            raise CalibrationError(f"{folder} is given twice.", remedy="Name each run once: its states count once.")
        named.add(folder.resolve())
    read = [read_trajectories(folder) for folder in folders]
    first = read[0][0]
    for folder, (run, _) in zip(folders[1:], read[1:], strict=True):
        for difference in _differences(first, run):
            raise CalibrationError(
                f"{folders[0]} has the {difference.what} {difference.first}, and {folder} has {difference.second}: "
                "their states do not mean the same.",
                remedy="Fit runs of one kind together.",
            )
    trajectories = tuple(trajectory for _, found in read for trajectory in found)
    if not any(state.answer is not None for trajectory in trajectories for state in trajectory.states):
        raise CalibrationError(f"{folders[0]} has no state with an answer on trial.", remedy=_COLLECT)
    return StateCollection(tuple(run for run, _ in read), trajectories)


def parse_label(name: str) -> Label:
    """Return the label of that name.

    Raises:
        SettingsError: There is none.
    """
    for label in LABELS:
        if label == name:
            return label
    raise SettingsError(f"No label is called {name!r}.", remedy=f"Known: {', '.join(LABELS)}.")


def _prompts_that_shape(run: RunRecord) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("system", "answer", *build_verifier(run.verifier).prompts)))


def _differences(one: RunRecord, other: RunRecord) -> Iterator[RunDifference]:
    aspects = [
        Aspect.MODEL,
        Aspect.VERIFIER,
        Aspect.RETRIEVER,
        Aspect.PACK,
        Aspect.INJECTION,
        Aspect.BUDGET,
        Aspect.PROMPTS,
    ]
    prompts = [*_prompts_that_shape(one), *_QUERY_PROMPTS]
    if one.judge and other.judge:
        aspects.append(Aspect.JUDGE)
        prompts.append("judge")
    return differences(
        one,
        other,
        (*aspects, Aspect.CORPUS),
        is_same_model=lambda first, second: backbone(first) == backbone(second),
        prompts=prompts,
    )
