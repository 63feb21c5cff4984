"""All numbers of the belief study, worked out from states and outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from beliefrag.calibration.artifact_parts import Bin
from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import Floats, expected_calibration_error, reliability_curve
from beliefrag.runs.statistics import MEAN_RESAMPLES, Estimate, random_generator
from beliefrag.studies.belief.actions import Level, levels
from beliefrag.studies.belief.held_out import HeldOutAreas, held_out_areas
from beliefrag.studies.belief.permutation import Matched, Permuted, matched, permuted
from beliefrag.studies.belief.signals import (
    DIMENSIONS,
    columns,
    correlation,
    fitted_scores,
    signal,
)
from beliefrag.studies.rank_agreement import rise_together
from beliefrag.studies.states import StateTable

__all__ = ["ANSWERABILITY", "JOINT", "Calibrated", "Found", "calibrated", "find"]

JOINT = "all jointly"
ANSWERABILITY = "answerability"
_CALIBRATED = ("sufficiency", "reliability")
LEAST_JOINT = 10
"""Questions with a right and with a wrong state that a fit of six weights needs."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How near a score lies to the share of right answers."""

    ece: float
    chance: float
    """What a perfectly calibrated score would show on as many states, on average."""
    chance_most: float
    """And at most, 95 times of 100."""
    curve: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What the study found."""

    signals: Mapping[str, Estimate]
    """AUC of each dimension, of answerability where its order is its own, and of all jointly where that can be said."""
    held_out: HeldOutAreas | None
    """All jointly beside a single one, on questions that neither has seen."""
    joint_seen: Estimate | None
    """The joint AUC of a fit that has seen the states."""
    best: str
    """The strongest dimension."""
    rises_with: str
    """The dimension that answerability puts the states in the same order as; empty where in that of none."""
    correlations: Mapping[tuple[str, str], Estimate | None]
    calibration: Mapping[str, Calibrated]
    match: Matched
    permuted: Mapping[str, Permuted]
    gate: Permuted | None
    """The share of right states among those from the answer threshold on."""
    levels: tuple[Level, ...]
    too_even: tuple[str, ...]
    """Dimensions that vary too little to be parted into three levels."""


def find(examples: Examples, visited: StateTable, threshold: float) -> Found:
    """Works everything out.

    Args:
        examples: States with the outcome of answering there, of both outcomes.
        visited: The states whose next actions are looked at.
        threshold: From which answerability on the policy answers.
    """
    table = columns(examples)
    belief = {name: table[:, place] for place, name in enumerate(DIMENSIONS)}
    scores = {name: dimension.better * belief[name] for name, dimension in DIMENSIONS.items()}
    count = examples.count
    enough = min(count.questions_positive, count.questions_negative) >= LEAST_JOINT
    areas = held_out_areas(table, np.column_stack(list(scores.values())), examples) if enough else None
    probabilities = [state.answerability for state in examples.states]
    answerability = None
    if all(p is not None for p in probabilities):
        answerability = np.array(probabilities, dtype=np.float64)
    rises_with = "" if answerability is None else _alike(answerability, scores)
    if answerability is not None and not rises_with:
        scores[ANSWERABILITY] = answerability
    signals = {name: number for name, values in scores.items() if (number := signal(values, examples)) is not None}
    best = max(DIMENSIONS, key=lambda name: signals[name].value)
    if areas:
        signals[JOINT] = areas.joint
    judged = {name: belief[name] for name in _CALIBRATED}
    if answerability is not None:
        judged[ANSWERABILITY] = answerability
    match = matched(examples)
    found = {name: levels(visited, dimension) for name, dimension in DIMENSIONS.items()}
    return Found(
        signals=signals,
        held_out=areas,
        joint_seen=signal(fitted_scores(table, examples), examples) if areas else None,
        best=best,
        rises_with=rises_with,
        correlations={
            (one, other): correlation(belief[one], belief[other], examples)
            for one, other in combinations(DIMENSIONS, 2)
        },
        calibration={name: calibrated(p, examples) for name, p in judged.items()},
        match=match,
        permuted={name: each for name, values in scores.items() if (each := permuted(values, match)) is not None},
        gate=permuted(answerability, match, gate=threshold) if answerability is not None else None,
        levels=tuple(level for each in found.values() for level in each or ()),
        too_even=tuple(name for name, each in found.items() if each is None),
    )


def _alike(answerability: Floats, scores: Mapping[str, Floats]) -> str:
    return next((name for name in DIMENSIONS if rise_together(answerability, scores[name])), "")


def calibrated(p: Floats, examples: Examples) -> Calibrated:
    """The calibration error of a score taken as the chance of being right, and its reliability curve.

    Beside it stands what a score would show that is calibrated to the letter: outcomes are drawn with the score's own
    chances, those of a question together.
    """
    error = partial(expected_calibration_error, p)
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    draws = random_generator(0).random((MEAN_RESAMPLES, len(questions)))[:, place]
    chance = error((draws < p).astype(np.float64), examples.weights)
    return Calibrated(
        ece=float(error(examples.outcomes, examples.weights)),
        chance=float(chance.mean()),
        chance_most=float(np.quantile(chance, 0.95)),
        curve=reliability_curve(p, examples.outcomes, examples.weights),
    )
