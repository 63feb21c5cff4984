"""Guarantees from a recorded run: how the policy ends its held-out questions, and which threshold keeps the errors low.

A guarantee is for new questions. So it is chosen on questions that no fit and no choice has seen, and on all of them:
leaving out some because of how they end would bias the error that the others show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beliefrag.calibration import (
    Artifact,
    Guarantee,
    conditions_of_run,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
)
from beliefrag.calibration.policy_replay import ReplayedEnding, UnrecordedStep, replay_policy
from beliefrag.calibration.risk import METHOD, RiskSample, choose_threshold
from beliefrag.errors import CalibrationError
from beliefrag.methods import STATE_COLLECTORS, find_profile
from beliefrag.policy import Calibration, Thresholds
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord, budget_of, now
from beliefrag.runs.states import Label, Trajectory
from beliefrag.types import Action
from beliefrag.verifiers import build_verifier

__all__ = ["RunRiskSample", "add_guarantees", "load_artifact_for_run", "make_guarantees", "read_risk_sample"]


_OWN = "beliefrag"
_LEAN = "lean"


@dataclass(frozen=True, slots=True)
class RunRiskSample:
    """The points, where they come from, and what was left out."""

    points: RiskSample
    datasets: tuple[str, ...]
    left_out: Mapping[str, int]
    """How many questions of the run were left out, by the reason."""


def read_risk_sample(
    run: RunRecord,
    trajectories: Iterable[Trajectory],
    calibration: Calibration,
    *,
    label: Label,
    thresholds: Thresholds = Thresholds(),
    seen: Collection[str] = (),
) -> RunRiskSample:
    """Return how each held-out question of a run ends under the policy, and whether its answer is right.

    Left out are questions of the other partitions, questions that the fit has on record as seen, and questions without
    a finished episode. The last are no bias: a question that fails gives no answer when it is asked, either, so the
    guarantee speaks of questions that come to an end.

    Args:
        run: The run's record.
        trajectories: Its recordings, as `read_trajectories` gives them.
        calibration: The fit that decides; its score scale is not used, for relevance is on record.
        label: What says whether an answer is right.
        thresholds: The policy that the guarantee is for.
        seen: Ids of questions that the fit was made or chosen on, as far as they are known.

    Raises:
        CalibrationError: No question is held out, or the ending or the label of one of them is not known.
    """
    left_out: Counter[str] = Counter()
    recordings = _recordings(trajectories)
    endings: dict[tuple[str, str], ReplayedEnding | UnrecordedStep] = {}
    for dataset, record in run.datasets.items():
        for question_id in record.question_ids:
            key = dataset, question_id
            if question_id in seen:
                left_out["the fit has seen them"] += 1
            elif (part := partition(question_id)) is not Partition.XHOLD:
                left_out[f"they are of {part}, which fits and choices may see"] += 1
            elif key not in recordings:
                left_out["they have no finished episode with measured states"] += 1
            else:
                endings[key] = _end_of(recordings[key], calibration, thresholds)
    if not endings:
        reasons = "; ".join(f"{count:,}: {reason}" for reason, count in left_out.items())
        raise CalibrationError(
            f"The run has no held-out question to choose a threshold on ({reasons or 'it has no questions'}).",
            remedy="Record more questions: three in ten are held out.",
        )
    points = _points(list(endings.values()), label)
    return RunRiskSample(points, tuple(sorted({dataset for dataset, _ in endings})), dict(left_out))


def _end_of(
    recordings: Sequence[Trajectory], calibration: Calibration, thresholds: Thresholds
) -> ReplayedEnding | UnrecordedStep:
    """Return how a question ends. An episode of lean is its own record: it ended as its last state says."""
    if recordings[0].method == _LEAN:
        last = recordings[0].states[-1]
        return ReplayedEnding(last, last.action, last.answerability or 0.0)
    return replay_policy(recordings, calibration.answerability, calibration.retrieval_value, thresholds)


def _recordings(trajectories: Iterable[Trajectory]) -> dict[tuple[str, str], list[Trajectory]]:
    """Return the collected states of each question; BeliefRAG's own episodes only in a run without collected states.

    Collecting goes on where an episode ends, so it knows more. An episode that was sampled apart may differ from it.
    """
    known = list(trajectories)
    wanted = set(STATE_COLLECTORS) if any(each.method in STATE_COLLECTORS for each in known) else {_OWN, _LEAN}
    found: dict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for each in known:
        if each.method in wanted:
            found[each.dataset, each.question_id].append(each)
    return found


def _points(endings: Sequence[ReplayedEnding | UnrecordedStep], label: Label) -> RiskSample:
    left = [ending for ending in endings if isinstance(ending, UnrecordedStep)]
    if left:
        # These questions need more than was recorded. Without them the rest would look better than it is.
        raise CalibrationError(
            f"The run does not show how {len(left):,} of {len(endings):,} questions end: the first one needs "
            f"{left[0].action} at step {left[0].state.step.number + 1}, which was not recorded there.",
            remedy="Collect states with the thresholds of the guarantee: without these questions it would be biased.",
        )
    ended = [ending for ending in endings if isinstance(ending, ReplayedEnding)]
    answered = [ending for ending in ended if ending.action is not Action.ABSTAIN]
    labels = [ending.state.correct(label) for ending in answered]
    if missing := labels.count(None):
        raise CalibrationError(
            f"{missing:,} of {len(labels):,} answers have no verdict by {label}.",
            remedy="Label them, or choose another label with --label.",
        )
    return RiskSample(
        probability=np.array([ending.answerability for ending in answered], dtype=np.float64),
        correct=np.array(labels, dtype=np.bool_),
        declined=len(ended) - len(answered),
    )


_EPISODE_PROMPTS = ("system", "query_writer", "rewriter", "answer")
"""What shapes an episode beside the prompts of its verifier form."""


def load_artifact_for_run(name_or_path: str, run: RunRecord) -> Artifact:
    """Load the artifact, if the run was recorded with what it was fitted for.

    Raises:
        CalibrationError: There is no such artifact, or the run was recorded with something else.
    """
    artifact = load_artifact(name_or_path)
    # Nobody asked to borrow it: mismatches are reported as such, and other warnings only where there is none.
    conditions = conditions_of_run(run)
    if reasons := find_mismatches(artifact, conditions) or find_calibration_warnings(artifact, conditions):
        raise CalibrationError(
            f"The calibration {artifact.name} can carry no guarantee from this run: {'; '.join(reasons)}.",
            remedy="Fit one for the model, verifier form, prompts and retriever of the run.",
        )
    return artifact


def make_guarantees(
    found: RunRiskSample,
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
    guarantees = []
    for max_error in targets:
        choice = choose_threshold(found.points, max_error=max_error, confidence=confidence)
        guarantees.append(
            Guarantee(
                max_error=max_error,
                confidence=confidence,
                threshold=choice.threshold,
                questions=len(found.points),
                answered=choice.answered,
                wrong=choice.wrong,
                label=label,
                datasets={name: run.datasets[name].fingerprint for name in found.datasets},
                method=METHOD,
                thresholds=replace(thresholds, decline_below=None),
                budget=budget_of(run),
                prompts={name: digest for name, digest in run.prompts.items() if name in names},
                made=now(),
            )
        )
    return tuple(guarantees)


def add_guarantees(artifact: Artifact, guarantees: Sequence[Guarantee]) -> Artifact:
    """Return the artifact with these guarantees, each in the place of an earlier one for the same target."""
    kept = [
        old
        for old in artifact.guarantees
        if not any(old.has_target(new.max_error, new.confidence) for new in guarantees)
    ]
    return artifact.model_copy(update={"guarantees": (*kept, *guarantees)})
