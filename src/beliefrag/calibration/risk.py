"""Which answers may be given so that few of them are wrong, with a guarantee that holds for any sample size.

The threshold is chosen by Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2021, arXiv:2110.01052) with
exact binomial tails, as selective classification does it (Geifman and El-Yaniv, NeurIPS 2017). Nothing here rests on
the probabilities being calibrated: where they are not, fewer questions are answered, but the guarantee holds.

A guarantee is for new questions. So it is chosen on questions that no fit and no choice has seen, and on all of them:
leaving out some because of how they end would bias the error that the others show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from beliefrag.calibration.artifact import (
    Artifact,
    Guarantee,
    conditions_of_run,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
)
from beliefrag.calibration.replay import ReplayedEnding, UnrecordedStep, replay_policy
from beliefrag.calibration.shift import describe_spread
from beliefrag.errors import CalibrationError, SettingsError, explain_missing_extra
from beliefrag.methods import STATE_COLLECTORS, find_profile
from beliefrag.policy import Calibration, Thresholds
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord, now
from beliefrag.runs.states import Label, Trajectory
from beliefrag.types import Action, Diagnostics
from beliefrag.verifiers import build_verifier

Floats = npt.NDArray[np.float64]

GRID: tuple[float, ...] = tuple(step / 100 for step in range(99, -1, -1))
"""The thresholds that are tried, from strict to lenient. Fixed beforehand: they must not depend on the points."""
STARTS: tuple[float, ...] = (0.9, 0.75, 0.6, 0.45)
"""Where the tests begin. Several, because few answers may be as sure as the first of them; each costs some power."""
METHOD = "Learn then Test: exact binomial tails, fixed sequences from " + ", ".join(f"{start:g}" for start in STARTS)
_EPISODE_PROMPTS = ("system", "query_writer", "rewriter", "answer")
"""Prompts that shape an episode beside those of its verifier form."""
_LEAN = "lean"


@dataclass(frozen=True, eq=False)
class RiskSample:
    """How questions ended that took no part in the fit: one point for each question that the policy would answer."""

    probability: Floats
    correct: npt.NDArray[np.bool_]
    declined: int = 0
    """Questions that the policy declines whatever the threshold: they count as not answered."""
    datasets: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    states: tuple[Diagnostics, ...] = ()

    def __len__(self) -> int:
        return len(self.probability) + self.declined


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A chosen threshold."""

    threshold: float | None
    """Answer from this probability on; None: no threshold could be shown to meet the target."""
    answered: int = 0
    wrong: int = 0


def choose_threshold(points: RiskSample, *, max_error: float, confidence: float) -> ThresholdChoice:
    """Return the lowest threshold at which, with that confidence, at most that share of the answers is wrong.

    Why it is valid: of the n points at or above a fixed threshold, Binomial(n, its true error) are wrong, so the tail
    P(Bin(n, max_error) <= wrong) is a p-value for "its error exceeds max_error". Going down to the first failure, a
    sequence accepts a bad threshold only if it accepts the first bad one on its way: a chance of at most its level.
    The levels of the sequences sum to 1 - confidence, so any choice among what they accept, the lowest too, is good.

    The points must be independent draws from the source whose questions are to be answered, none used for the fit.
    """
    with explain_missing_extra("A threshold with a guarantee", "bench"):
        from scipy.special import bdtr  # noqa: PLC0415 (slow to load)

    level = _level_per_sequence(max_error, confidence)
    grid = np.array(GRID)
    every, wrongs = np.sort(points.probability), np.sort(points.probability[~points.correct])
    answered, wrong = (len(each) - np.searchsorted(each, grid, "left") for each in (every, wrongs))
    # Without a point bdtr(0, 0, .) is 1, and nothing is rejected.
    rejected = bdtr(wrong, answered, max_error) <= level
    lowest: int | None = None
    for start in STARTS:
        place = GRID.index(start)
        while place < len(GRID) and rejected[place]:
            lowest = place if lowest is None else max(lowest, place)
            place += 1
    if lowest is None:
        return ThresholdChoice(None)
    return ThresholdChoice(GRID[lowest], int(answered[lowest]), int(wrong[lowest]))


def answers_needed(max_error: float, confidence: float) -> int:
    """Return how many answers, all of them right, are needed at least to show that a target is met."""
    return math.ceil(math.log(_level_per_sequence(max_error, confidence)) / math.log1p(-max_error))


def _level_per_sequence(max_error: float, confidence: float) -> float:
    """Return the probability of error that each sequence may use up."""
    _require_share("max_error", max_error)
    _require_share("confidence", confidence)
    return (1 - confidence) / len(STARTS)


def _require_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise SettingsError(f"{name} lies between 0 and 1, not at {value:g}.")


def read_risk_sample(
    run: RunRecord,
    trajectories: Iterable[Trajectory],
    calibration: Calibration,
    *,
    label: Label,
    thresholds: Thresholds = Thresholds(),
    seen: Collection[str] = (),
) -> RiskSample:
    """Return how each held-out question of a run ends under the policy, and whether its answer is right.

    Left out are questions of the other partitions, questions that the fit has on record as seen, and questions without
    a finished episode. The last do not bias it: a question that fails gives no answer when it is asked, either.
    """
    left_out: Counter[str] = Counter()
    recordings = _choose_recordings(trajectories)
    endings: dict[tuple[str, str], ReplayedEnding | UnrecordedStep] = {}
    for dataset, record in run.datasets.items():
        for question_id in record.question_ids:
            found = recordings.get((dataset, question_id))
            if question_id in seen:
                left_out["the fit has seen them"] += 1
            elif (part := partition(question_id)) is not Partition.XHOLD:
                left_out[f"they are of {part}, which fits and choices may see"] += 1
            elif found is None:
                left_out["they have no finished episode with measured states"] += 1
            elif found.method == _LEAN:
                # An episode of lean is its own record: it ended as its last state says.
                last = found.states[-1]
                endings[dataset, question_id] = ReplayedEnding(last, last.action, last.answerability or 0.0)
            else:
                endings[dataset, question_id] = replay_policy(
                    found, calibration.answerability, calibration.retrieval_value, thresholds
                )
    if not endings:
        reasons = "; ".join(f"{count:,}: {reason}" for reason, count in left_out.items())
        raise CalibrationError(
            f"The run has no held-out question to choose a threshold on ({reasons or 'it has no questions'}).",
            remedy="Record more questions: three in ten are held out.",
        )
    probability, correct, declined = _read_points(list(endings.values()), label)
    datasets = tuple(sorted({dataset for dataset, _ in endings}))
    states = tuple(each.state.diagnostics for each in endings.values() if isinstance(each, ReplayedEnding))
    return RiskSample(probability, correct, declined, datasets, dict(left_out), states)


def _choose_recordings(trajectories: Iterable[Trajectory]) -> dict[tuple[str, str], Trajectory]:
    """Return the collected states of each question; a method's own episodes only in a run without collected states.

    Collecting continues where an episode ends, so it knows more. An episode that was sampled apart may differ from it.
    """
    known = list(trajectories)
    is_collected = any(each.method in STATE_COLLECTORS for each in known)
    wanted = STATE_COLLECTORS if is_collected else ("beliefrag", _LEAN)
    return {(each.dataset, each.question_id): each for each in reversed(known) if each.method in wanted}


def _read_points(
    endings: Sequence[ReplayedEnding | UnrecordedStep], label: Label
) -> tuple[Floats, npt.NDArray[np.bool_], int]:
    """Return probability and label of each answer, and the number of declined questions."""
    left = [ending for ending in endings if isinstance(ending, UnrecordedStep)]
    if left:
        # These questions need more than was recorded. Without them the rest would look better than it is.
        raise CalibrationError(
            f"The run does not show how {len(left):,} of {len(endings):,} questions end: the first one needs "
            f"{left[0].action} at step {left[0].state.step.number + 1}, which was not recorded there.",
            remedy="Collect states with the thresholds of the guarantee: without these questions it would be biased.",
        )
    answered = [end for end in endings if isinstance(end, ReplayedEnding) and end.action is not Action.ABSTAIN]
    labels = [ending.state.correct(label) for ending in answered]
    if missing := labels.count(None):
        raise CalibrationError(
            f"{missing:,} of {len(labels):,} answers have no verdict by {label}.",
            remedy="Label them, or choose another label with --label.",
        )
    probability = np.array([ending.answerability for ending in answered], dtype=np.float64)
    return probability, np.array(labels, dtype=np.bool_), len(endings) - len(answered)


def load_artifact_for_run(name_or_path: str, run: RunRecord) -> Artifact:
    """Load the artifact, if the run was recorded with what it was fitted for."""
    artifact = load_artifact(name_or_path)
    conditions = conditions_of_run(run)
    if reasons := find_mismatches(artifact, conditions) or find_calibration_warnings(artifact, conditions):
        raise CalibrationError(
            f"The calibration {artifact.name} can carry no guarantee from this run: {'; '.join(reasons)}.",
            remedy="Fit one for the model, verifier form, prompts and retriever of the run.",
        )
    return artifact


def make_guarantees(
    found: RiskSample,
    run: RunRecord,
    *,
    targets: Sequence[float],
    confidence: float,
    label: Label,
    thresholds: Thresholds,
) -> tuple[Guarantee, ...]:
    """Make one guarantee for each target. Each holds with the confidence by itself, not all of them at once."""
    forms = {each.verifier for name, each in run.setups.items() if find_profile(name)}
    names = {*_EPISODE_PROMPTS, *(prompt for form in forms for prompt in build_verifier(form).prompts)}
    choices = [choose_threshold(found, max_error=each, confidence=confidence) for each in targets]
    return tuple(
        Guarantee(
            max_error=max_error,
            confidence=confidence,
            threshold=choice.threshold,
            questions=len(found),
            answered=choice.answered,
            wrong=choice.wrong,
            label=label,
            datasets={name: run.datasets[name].fingerprint for name in found.datasets},
            method=METHOD,
            thresholds=replace(thresholds, decline_below=None),
            budget=run.budget,
            prompts={name: digest for name, digest in run.prompts.items() if name in names},
            made=now(),
            spread=describe_spread(found.states) if found.states else {},
        )
        for max_error, choice in zip(targets, choices, strict=True)
    )


def add_guarantees(artifact: Artifact, guarantees: Sequence[Guarantee]) -> Artifact:
    """Return the artifact with these guarantees, each in the place of an earlier one for the same target."""
    kept = [
        old
        for old in artifact.guarantees
        if not any(old.has_target(new.max_error, new.confidence) for new in guarantees)
    ]
    return artifact.model_copy(update={"guarantees": (*kept, *guarantees)})
