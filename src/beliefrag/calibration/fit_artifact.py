"""From recorded states to an artifact: fitted on xfit, chosen on xsel, with its quality from xhold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version

from beliefrag.calibration import Artifact
from beliefrag.calibration.artifact import (
    AnswerabilityReport,
    FitReport,
    Kind,
    PartCount,
    Quality,
    ValueFit,
    ValueReport,
)
from beliefrag.calibration.collection import StateCollection
from beliefrag.calibration.examples import Examples, label_searches, label_states
from beliefrag.calibration.fitting import (
    DIAGNOSTICS,
    LEAST_QUESTIONS,
    LEAST_TO_CHOOSE,
    choose_kind,
    estimate_coefficients,
    fit_all_kinds,
    fit_value,
    has_enough_searches,
    measure_each_diagnostic,
    report_value_fit,
)
from beliefrag.calibration.policy_replay import consults_retrieval_value
from beliefrag.calibration.quality import measure_quality, predict_answerability
from beliefrag.calibration.selection import backbone
from beliefrag.errors import CalibrationError
from beliefrag.policy import ScoreScale
from beliefrag.runs.partitions import SALT, Partition, select_held_out
from beliefrag.runs.record import now, versions
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import MIN_QUESTIONS

__all__ = [
    "describe_too_few_searches",
    "fit_artifact",
    "includes_held_out",
    "warn_of_constant_columns",
    "warn_of_few_questions",
    "warn_of_several_scales",
    "warn_of_unproven_fit",
]


def warn_of_constant_columns(names: Iterable[str], where: str) -> Iterator[str]:
    """Warn of columns that do not vary: a fit gives them the weight 0."""
    return (f"{name} does not vary in {where}, and has weight 0" for name in names)


def warn_of_misleading_columns(names: Sequence[str]) -> Iterator[str]:
    """Warn of diagnostics that the fit leaves out, because they mislead on other sets."""
    if names:
        yield f"{', '.join(names)}: no help on a set that was left out of the fit, and weight 0"


def warn_of_few_questions(counts: Mapping[str, PartCount]) -> Iterator[str]:
    """Warn of parts with too few questions of either outcome. An empty part has a warning of its own."""
    for part, count in counts.items():
        for questions, words in ((count.questions_positive, ""), (count.questions_negative, "not ")):
            if count.questions and questions < MIN_QUESTIONS:
                yield (
                    f"only {questions} questions of {part} have a state that is {words}answerable: "
                    f"fewer than {MIN_QUESTIONS}"
                )


def warn_of_unproven_fit(
    kind: str, selection: Mapping[str, float], questions: int, found: Quality | None
) -> Iterator[str]:
    """Warn where there are too few questions to choose the kind of fit, or to know its quality."""
    if not selection:
        yield f"no question to choose on (xsel is empty): the {kind} kind was taken unseen"
    elif questions < LEAST_TO_CHOOSE:
        yield f"{questions} questions to choose on, fewer than {LEAST_TO_CHOOSE}: the paper's {kind} kind was taken"
    if found is None:
        yield "no question is held out (xhold is empty): the quality of the fit is not known"
    elif found.brier_gain.low is None or found.brier_gain.low <= 0:
        yield "on held-out questions the fit is not clearly better than always saying the base rate"


def describe_too_few_searches(count: PartCount) -> str:
    """Return why there is no retrieval value."""
    return (
        f"too few searches for a retrieval value: {count.questions_positive} fitted questions have one that helped and "
        f"{count.questions_negative} one that did not, {LEAST_QUESTIONS} of each are needed; "
        "the paper's schedule stands in"
    )


def warn_of_several_scales(scales: Iterable[ScoreScale | None]) -> Iterator[str]:
    """Return why the artifact has no score scale of its own."""
    known = set(scales)
    if None in known:
        yield "a run does not say where its corpus's scores lie: it is from an older version"
    elif len(known) > 1:
        yield "several corpora: their score scales are kept apart, under fit.datasets"


_TARGETS = {
    "judge": "the answer from the current evidence is judged correct",
    "f1": "the answer from the current evidence has token F1 of at least 0.5",
    "exact_match": "the answer from the current evidence is a gold answer, word for word",
    "cover": "the answer from the current evidence contains a gold answer",
}
_FALLBACK: Kind = "logistic"
"""The paper's kind, where there is nothing to choose on."""


def includes_held_out(question_ids: Iterable[str]) -> bool:
    """Return whether any of these questions is one that is held out."""
    return bool(select_held_out(question_ids))


def fit_artifact(
    collection: StateCollection,
    label: Label,
    *,
    name: str | None = None,
    diagnostics: Collection[str] = DIAGNOSTICS,
    everything: bool = False,
    elsewhere: StateCollection | None = None,
) -> Artifact:
    """Fit answerability and retrieval value to recorded states.

    Args:
        collection: The states.
        label: What says whether an answer was right.
        name: The artifact's name; by default the model's.
        diagnostics: The diagnostics that the logistic kind may use.
        everything: Fit the chosen kind once more, on all questions. The quality that is reported stays that of the fit
            without the held-out ones, and the artifact is contaminated.
        elsewhere: States that tell the quality of both fits in place of xhold, as far as their questions are not among
            those that are fitted or chosen on.

    Raises:
        CalibrationError: There is nothing to fit on.
    """
    states, left_out = label_states(collection.trajectories, label)
    parts = {part: states.select_part(part) for part in Partition}
    own, choosing, unseen = parts[Partition.XFIT], parts[Partition.XSEL], parts[Partition.XHOLD]
    if elsewhere is not None:
        unseen = _leave_out(label_states(elsewhere.trajectories, label)[0], own, choosing)
    _require_both_outcomes(own, label)
    fits = fit_all_kinds(own, diagnostics)
    kind, selection = choose_kind(fits, choosing) if len(choosing) else (_FALLBACK, {})
    answerability = fits.kinds[kind]
    found = (
        measure_quality(predict_answerability(unseen, answerability.function()), unseen, own.rate)
        if len(unseen)
        else None
    )
    report = AnswerabilityReport(
        counts={part.value: parts[part].count for part in Partition},
        without_evidence=left_out.without_evidence,
        unlabelled=left_out.unlabelled,
        base_rate=round(own.rate, 6),
        selection=selection,
        coefficients=estimate_coefficients(own, diagnostics),
        alone=measure_each_diagnostic(own),
        held_out=found,
    )
    is_consulted = partial(consults_retrieval_value, answerability=answerability.function())
    pairs = label_searches(collection.trajectories, label, is_consulted)
    searches, unseen_searches = pairs.select_part(Partition.XFIT), pairs.select_part(Partition.XHOLD)
    if elsewhere is not None:
        others = label_searches(elsewhere.trajectories, label, is_consulted)
        unseen_searches = _leave_out(others, own, choosing, searches)
    value, value_report, value_warnings = _fit_value(pairs, unseen_searches)
    corpora = collection.corpora()
    scales = {corpus.score_scale for corpus in corpora.values()}
    warnings = (
        *warn_of_constant_columns(fits.idle, "the fitted states"),
        *warn_of_misleading_columns(fits.misleading),
        *warn_of_few_questions({part.value: parts[part].count for part in Partition}),
        *warn_of_unproven_fit(kind, selection, choosing.count.questions, found),
        *value_warnings,
        *warn_of_several_scales(scales),
    )
    if everything:
        own, searches, answerability = states, pairs, fit_all_kinds(states, diagnostics).kinds[kind]
        value = fit_value(pairs)[0] if value else None
    learnt = sorted({*own.question_ids, *(searches.question_ids if value else ())})
    run = collection.runs[0]
    return Artifact(
        name=name or _name_after(run.model),
        origin="fitted",
        backbone=backbone(run.model),
        retriever=run.searched_with,
        verifier=run.verifier,
        prompts=collection.prompts,
        target=_TARGETS[label],
        partition=f"{', '.join(corpora)}; {_describe_partition(everything=everything, elsewhere=elsewhere)}",
        seed=collection.seed,
        contaminated=includes_held_out((*learnt, *choosing.question_ids)),
        made=now(),
        counts={part.value: parts[part].count.questions for part in Partition},
        quality=_summarise_quality(found),
        note="Fitted on all questions; the quality is that of the fit without the held-out ones." if everything else "",
        score_scale=scales.pop() if len(scales) == 1 else None,
        answerability=answerability,
        retrieval_value=value,
        fit=FitReport(
            label=label,
            judge=_describe_judge(collection) if label == "judge" else None,
            methods=tuple(sorted({trajectory.method for trajectory in collection.trajectories})),
            datasets=corpora,
            budget=run.budget,
            versions={**versions(), "scikit-learn": version("scikit-learn")},
            fit_questions=tuple(learnt),
            selection_questions=choosing.question_ids,
            answerability=report,
            retrieval_value=value_report,
            warnings=warnings,
        ),
    )


def _require_both_outcomes(own: Examples, label: Label) -> None:
    if not len(own):
        raise CalibrationError(
            f"No question of the part for fitting (xfit) has a state with evidence and a label by {label}.",
            remedy="Collect more questions, or take another --label.",
        )
    if not own.has_both_outcomes:
        which = "right" if own.each[0].positive else "wrong"
        raise CalibrationError(
            f"All answers at the {len(own)} states for fitting are {which} by {label}: there is nothing to tell apart.",
            remedy="Collect more questions, or take another --label.",
        )


def _fit_value(pairs: Examples, unseen: Examples) -> tuple[ValueFit | None, ValueReport | None, tuple[str, ...]]:
    own = pairs.select_part(Partition.XFIT)
    if not has_enough_searches(own):
        return None, None, (describe_too_few_searches(own.count),)
    value, same = fit_value(own)
    report = report_value_fit(value, pairs, unseen)
    warnings = [*warn_of_constant_columns(same, "the fitted searches")]
    if report.held_out is None:
        warnings.append("no search on a held-out question: the quality of the retrieval value is not known")
    return value, report, tuple(warnings)


def _describe_judge(collection: StateCollection) -> str:
    return f"{collection.judge}, prompt {collection.runs[0].prompts.get('judge', 'unknown')}"


def _leave_out(examples: Examples, *seen: Examples) -> Examples:
    """Leave out the questions of examples that a fit or a choice has seen."""
    known = {question_id for part in seen for question_id in part.question_ids}
    return Examples(example for example in examples.each if example.question_id not in known)


def _describe_partition(*, everything: bool, elsewhere: StateCollection | None) -> str:
    own = "all questions" if everything else "xfit"
    quality_from = "xhold" if elsewhere is None else f"other questions of {', '.join(elsewhere.corpora())}"
    return f"{own} to fit, xsel to choose, {quality_from} for the quality (by salt {SALT})"


def _summarise_quality(found: Quality | None) -> dict[str, float]:
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


def _name_after(model: str) -> str:
    """Return the model's name without provider, address and hash."""
    plain = backbone(model).split(":")[1].rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", plain) or "calibration"
