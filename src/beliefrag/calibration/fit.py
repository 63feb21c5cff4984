"""From recorded states to an artifact: fitted on xfit, chosen on xsel, its quality told by xhold (SPEC 4, 9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from importlib.metadata import version

from beliefrag.calibration import Artifact
from beliefrag.calibration.answerability_fit import alone, best, fit_kinds, fitted_coefficients
from beliefrag.calibration.collection import Collection
from beliefrag.calibration.evaluation import answerabilities, quality
from beliefrag.calibration.examples import Examples, answerable_states, flips
from beliefrag.calibration.fits import Kind, ValueFit
from beliefrag.calibration.match import backbone
from beliefrag.calibration.report import AnswerabilityReport, FitReport, Quality, ValueReport
from beliefrag.calibration.value_fit import enough, fit_value, value_report
from beliefrag.calibration.warnings import few, idle, scales_apart, too_few_searches, unproven
from beliefrag.errors import CalibrationError
from beliefrag.runs.partitions import held_out
from beliefrag.runs.record import now, versions
from beliefrag.runs.samples import SALT, Partition
from beliefrag.runs.states import Label

__all__ = ["contaminated", "fit_artifact"]

_TARGETS = {
    "judge": "the answer from the current evidence is judged correct",
    "f1": "the answer from the current evidence has token F1 of at least 0.5",
    "exact_match": "the answer from the current evidence is a gold answer, word for word",
    "cover": "the answer from the current evidence contains a gold answer",
}
_FALLBACK: Kind = "logistic"
"""The paper's kind, where there is nothing to choose on."""


def contaminated(question_ids: Iterable[str]) -> bool:
    """Whether any of these questions is one that is held out."""
    return bool(held_out(question_ids))


def fit_artifact(
    collection: Collection,
    label: Label,
    *,
    name: str | None = None,
    everything: bool = False,
    elsewhere: Collection | None = None,
) -> Artifact:
    """Fits answerability and retrieval value to recorded states.

    Args:
        collection: The states.
        label: What says whether an answer was right.
        name: Of the artifact; by default the model's.
        everything: Fit the chosen kind once more, on all questions. The quality that is reported stays that of the fit
            without the held-out ones, and the artifact is contaminated.
        elsewhere: States that tell the quality in place of xhold, as far as their questions are not among those that
            are fitted or chosen on.

    Raises:
        CalibrationError: There is nothing to fit on.
    """
    states, left_out = answerable_states(collection.trajectories, label)
    parts = {part: states.of(part) for part in Partition}
    own, choosing, unseen = parts[Partition.XFIT], parts[Partition.XSEL], parts[Partition.XHOLD]
    if elsewhere is not None:
        unseen = _others(elsewhere, label, {*own.question_ids, *choosing.question_ids})
    _both_outcomes(own, label)
    fits = fit_kinds(own)
    kind, selection = best(fits, choosing) if len(choosing) else (_FALLBACK, {})
    answerability = fits.kinds[kind]
    found = quality(answerabilities(unseen, answerability.function()), unseen, own.rate) if len(unseen) else None
    told = AnswerabilityReport(
        counts={part.value: parts[part].count for part in Partition},
        without_evidence=left_out.without_evidence,
        unlabelled=left_out.unlabelled,
        base_rate=round(own.rate, 6),
        selection=selection,
        coefficients=fitted_coefficients(own),
        alone=alone(own),
        held_out=found,
    )
    pairs = flips(collection.trajectories, label)
    value, value_told, value_warnings = _value(pairs)
    corpora = collection.corpora()
    scales = {corpus.score_scale for corpus in corpora.values()}
    warnings = (
        *idle(fits.idle, "the fitted states"),
        *few({part.value: parts[part].count for part in Partition}),
        *unproven(kind, selection, found),
        *value_warnings,
        *scales_apart(scales),
    )
    searches = pairs.of(Partition.XFIT)
    if everything:
        own, searches, answerability = states, pairs, fit_kinds(states).kinds[kind]
        value = fit_value(pairs)[0] if value else None
    learnt = sorted({*own.question_ids, *(searches.question_ids if value else ())})
    run = collection.runs[0]
    return Artifact(
        name=name or _name(run.model),
        origin="fitted",
        backbone=backbone(run.model),
        retriever=run.searched_with,
        verifier=run.verifier,
        prompts=collection.prompts,
        target=_TARGETS[label],
        partition=f"{', '.join(corpora)}; {_partition_words(everything=everything, elsewhere=elsewhere)}",
        seed=collection.seed,
        contaminated=contaminated((*learnt, *choosing.question_ids)),
        made=now(),
        counts={part.value: parts[part].count.questions for part in Partition},
        quality=_headline(found),
        note="Fitted on all questions; the quality is that of the fit without the held-out ones." if everything else "",
        score_scale=scales.pop() if len(scales) == 1 else None,
        answerability=answerability,
        retrieval_value=value,
        fit=FitReport(
            label=label,
            judge=_judge(collection) if label == "judge" else None,
            methods=tuple(sorted({trajectory.method for trajectory in collection.trajectories})),
            datasets=corpora,
            budget=run.budget,
            versions={**versions(), "scikit-learn": version("scikit-learn")},
            fit_questions=tuple(learnt),
            selection_questions=choosing.question_ids,
            answerability=told,
            retrieval_value=value_told,
            warnings=warnings,
        ),
    )


def _both_outcomes(own: Examples, label: Label) -> None:
    if not len(own):
        raise CalibrationError(
            f"No question of the part for fitting (xfit) has a state with evidence and a label by {label}.",
            remedy="Collect more questions, or take another --label.",
        )
    if not own.mixed:
        which = "right" if own.each[0].positive else "wrong"
        raise CalibrationError(
            f"All answers at the {len(own)} states for fitting are {which} by {label}: there is nothing to tell apart.",
            remedy="Collect more questions, or take another --label.",
        )


def _value(pairs: Examples) -> tuple[ValueFit | None, ValueReport | None, tuple[str, ...]]:
    own = pairs.of(Partition.XFIT)
    if not enough(own):
        return None, None, (too_few_searches(own.count),)
    value, same = fit_value(own)
    return value, value_report(value, pairs), tuple(idle(same, "the fitted searches"))


def _judge(collection: Collection) -> str:
    return f"{collection.judge}, prompt {collection.runs[0].prompts.get('judge', 'unknown')}"


def _others(elsewhere: Collection, label: Label, seen: Set[str]) -> Examples:
    states, _ = answerable_states(elsewhere.trajectories, label)
    return Examples(example for example in states.each if example.question_id not in seen)


def _partition_words(*, everything: bool, elsewhere: Collection | None) -> str:
    own = "all questions" if everything else "xfit"
    told_by = "xhold" if elsewhere is None else f"other questions of {', '.join(elsewhere.corpora())}"
    return f"{own} to fit, xsel to choose, {told_by} for the quality (by salt {SALT})"


def _headline(found: Quality | None) -> dict[str, float]:
    if found is None:
        return {}
    numbers = {
        "brier": found.brier.value,
        "brier_base_rate": found.brier_base_rate,
        "brier_gain": found.brier_gain.value,
        "brier_gain_low": found.brier_gain.low,
        "brier_gain_high": found.brier_gain.high,
        "auc": found.auc.value if found.auc else None,
        "ece": found.ece,
    }
    return {key: number for key, number in numbers.items() if number is not None}


def _name(model: str) -> str:
    """The model's name without provider, address and hash."""
    plain = backbone(model).split(":")[1].rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", plain) or "calibration"
