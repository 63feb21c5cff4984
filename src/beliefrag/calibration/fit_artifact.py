"""From recorded states to an artifact: fitted on xfit, chosen on xsel, with its quality from xhold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version

from beliefrag.calibration.artifact import (
    AnswerabilityReport,
    Artifact,
    FitReport,
    PartCount,
    Quality,
    ValueReport,
    backbone,
    name_after,
)
from beliefrag.calibration.examples import DIAGNOSTICS, Examples, StateCollection, label_searches, label_states
from beliefrag.calibration.fitting import (
    LEAST_TO_CHOOSE,
    VALUE_COLUMNS,
    choose_kind,
    estimate_logistic,
    fit_all_kinds,
    fit_value,
    log_odds_of,
    update_answerability,
    value_columns,
)
from beliefrag.calibration.quality import (
    measure_each_diagnostic,
    measure_quality,
    predict_answerability,
    predict_retrieval_value,
)
from beliefrag.calibration.replay import consults_retrieval_value
from beliefrag.errors import CalibrationError
from beliefrag.policy import FittedValue, LogisticAnswerability
from beliefrag.runs.estimate import Estimate
from beliefrag.runs.partitions import SALT, Partition
from beliefrag.runs.record import now, versions
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import MIN_QUESTIONS

_LEAST_QUESTIONS = 10
"""With fewer questions of either outcome three weights would be guesses: the paper's schedule is better."""
_TARGETS = {
    "judge": "the answer from the current evidence is judged correct",
    "f1": "the answer from the current evidence has token F1 of at least 0.5",
    "exact_match": "the answer from the current evidence is a gold answer, word for word",
    "cover": "the answer from the current evidence contains a gold answer",
    "agrees": "the answer from the current evidence says what a gold answer says, short or in sentences",
}


def fit_artifact(
    collection: StateCollection,
    label: Label,
    *,
    name: str | None = None,
    diagnostics: Collection[str] = DIAGNOSTICS,
    chooses: bool = True,
    prior: LogisticAnswerability | None = None,
) -> Artifact:
    """Fit answerability and retrieval value to recorded states. The logistic kind may use the `diagnostics`.

    With `chooses` it is fitted on xfit, and the kind is chosen on xsel. Otherwise it is the paper's, fitted on both; so
    it is with a `prior`, which the states then only move, as far as they are worth.
    """
    chooses = chooses and prior is None
    states, bare, unlabelled = label_states(collection.trajectories, label)
    parts = {part: states.select_part(part, collection.part_of) for part in Partition}
    counts = {part.value: found.count for part, found in parts.items()}
    own, choosing, unseen = parts[Partition.XFIT], parts[Partition.XSEL], parts[Partition.XHOLD]
    if not chooses:
        own, choosing = Examples((*own.each, *choosing.each)), Examples(())
    _require_both_outcomes(own, label)
    fits = fit_all_kinds(own, diagnostics)
    # The logistic kind is the paper's.
    kind, selection = choose_kind(fits, choosing) if len(choosing) else ("logistic", {})
    answerability = fits.kinds[kind]
    if prior is None:
        coefficients = {
            "logistic": estimate_logistic(fits.columns, own, DIAGNOSTICS),
            "platt": estimate_logistic(log_odds_of(own), own, ("slope",)),
        }
    else:
        answerability = moved = update_answerability(prior, own, diagnostics)
        weights = {"intercept": moved.intercept, **asdict(moved.weights)}
        coefficients = {"logistic": {weight: Estimate(number) for weight, number in weights.items()}}
    found = None
    if len(unseen):
        found = measure_quality(predict_answerability(unseen, answerability), unseen, own.rate)
    report = AnswerabilityReport(
        counts=counts,
        without_evidence=bare,
        unlabelled=unlabelled,
        base_rate=round(own.rate, 6),
        selection=selection,
        coefficients=coefficients,
        alone=measure_each_diagnostic(own),
        held_out=found,
    )
    is_consulted = partial(consults_retrieval_value, answerability=answerability)
    pairs = label_searches(collection.trajectories, label, is_consulted)
    searches = {part: pairs.select_part(part, collection.part_of) for part in Partition}
    value, value_report, value_warnings = _fit_value(searches)
    corpora = collection.corpora()
    scales = {corpus.score_scale for corpus in corpora.values()}
    warnings = (
        *_warn_of_columns(fits.idle, fits.misleading),
        *_warn_of_few_questions(counts),
        *(_warn_of_unproven_fit(kind, selection, choosing.count.questions, found) if chooses else ()),
        *value_warnings,
    )
    learnt = sorted({*own.question_ids, *(searches[Partition.XFIT].question_ids if value else ())})
    run = collection.runs[0]
    judge = next((each.judge for each in collection.runs if each.judge), None)
    return Artifact(
        name=name or name_after(run.model),
        origin="fitted",
        backbone=backbone(run.model),
        retriever=run.searched_with,
        verifier=run.verifier,
        prompts=collection.prompts,
        target=_TARGETS[label],
        partition=f"{', '.join(corpora)}; {_describe_division(collection)}{'' if chooses else '; fitted on xsel too'}",
        seed=collection.seed,
        contaminated=False,
        made=now(),
        counts={part: count.questions for part, count in counts.items()},
        score_scale=scales.pop() if len(scales) == 1 else None,
        answerability=answerability,
        retrieval_value=value,
        fit=FitReport(
            label=label,
            judge=f"{judge}, prompt {run.prompts.get('judge', 'unknown')}" if label == "judge" else None,
            methods=tuple(sorted({trajectory.method for trajectory in collection.trajectories})),
            datasets=corpora,
            budget=asdict(run.budget),
            versions={**versions(), "scikit-learn": version("scikit-learn")},
            fit_questions=tuple(learnt),
            selection_questions=choosing.question_ids,
            division="given" if collection.selecting else "hash",
            answerability=report,
            retrieval_value=value_report,
            warnings=warnings,
        ),
    )


def _describe_division(collection: StateCollection) -> str:
    if collection.selecting:
        return "the questions to fit and to choose on were given"
    return f"xfit to fit, xsel to choose, xhold for the quality (by salt {SALT})"


def _require_both_outcomes(own: Examples, label: Label) -> None:
    remedy = "Collect more questions, or take another --label."
    if not len(own):
        raise CalibrationError(
            f"No question of the part for fitting (xfit) has a state with evidence and a label by {label}.",
            remedy=remedy,
        )
    if not own.has_both_outcomes:
        which = "right" if own.each[0].positive else "wrong"
        raise CalibrationError(
            f"All answers at the {len(own)} states for fitting are {which} by {label}.", remedy=remedy
        )


def _fit_value(
    parts: Mapping[Partition, Examples],
) -> tuple[FittedValue | None, ValueReport | None, tuple[str, ...]]:
    own, unseen = parts[Partition.XFIT], parts[Partition.XHOLD]
    count = own.count
    if min(count.questions_positive, count.questions_negative) < _LEAST_QUESTIONS:
        reason = (
            f"too few searches for a retrieval value: {count.questions_positive} fitted questions have one that helped "
            f"and {count.questions_negative} one that did not, {_LEAST_QUESTIONS} of each are needed; the paper's "
            "schedule is used"
        )
        return None, None, (reason,)
    value, idle = fit_value(own)
    held_out = None
    if len(unseen):
        held_out = measure_quality(predict_retrieval_value(unseen, value), unseen, own.rate)
    report = ValueReport(
        counts={part.value: found.count for part, found in parts.items()},
        base_rate=round(own.rate, 6),
        coefficients=estimate_logistic(value_columns(own), own, VALUE_COLUMNS),
        held_out=held_out,
    )
    warnings = [f"{name} does not vary in the fitted searches, and has weight 0" for name in idle]
    if report.held_out is None:
        warnings.append("no search on a held-out question: the quality of the retrieval value is not known")
    return value, report, tuple(warnings)


def _warn_of_columns(idle: Collection[str], misleading: Collection[str]) -> Iterator[str]:
    yield from (f"{name} does not vary in the fitted states, and has weight 0" for name in idle)
    if misleading:
        yield f"{', '.join(misleading)}: no help on a set that was left out of the fit, and weight 0"


def _warn_of_few_questions(counts: Mapping[str, PartCount]) -> Iterator[str]:
    # An empty part has a warning of its own.
    for part, count in counts.items():
        for questions, words in ((count.questions_positive, ""), (count.questions_negative, "not ")):
            if count.questions and questions < MIN_QUESTIONS:
                yield (
                    f"only {questions} questions of {part} have a state that is {words}answerable: "
                    f"fewer than {MIN_QUESTIONS}"
                )


def _warn_of_unproven_fit(
    kind: str, selection: Mapping[str, float], questions: int, found: Quality | None
) -> Iterator[str]:
    if not selection:
        yield f"no question to choose on (xsel is empty): the {kind} kind was taken unseen"
    elif questions < LEAST_TO_CHOOSE:
        yield f"{questions} questions to choose on, fewer than {LEAST_TO_CHOOSE}: the paper's {kind} kind was taken"
    if found is None:
        yield "no question is held out (xhold is empty): the quality of the fit is not known"
    elif found.brier_gain.low is None or found.brier_gain.low <= 0:
        yield "on held-out questions the fit is not clearly better than always predicting the base rate"
