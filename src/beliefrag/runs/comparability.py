"""Whether two runs may be compared, or one go on as the other, by what they were made with.

Each caller chooses the aspects that count, and what may differ within them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from beliefrag.runs.record import CalibrationRecord, RunRecord
from beliefrag.runs.run_errors import RunChanged

_CALIBRATED_SETTINGS = ("borrow", "calibration", "confidence", "max_error", "thresholds")


class Aspect(StrEnum):
    """Something that shapes the numbers of a run, for the methods and datasets that both runs have."""

    MODEL = "model"
    VERIFIER = "verifier"
    RETRIEVER = "retriever"
    PACK = "pack"
    BUDGET = "budget"
    RULES = "rule"
    THRESHOLDS = "threshold"
    SEED = "seed"
    INJECTION = "injection"
    METHOD_OPTIONS = "options"
    PROMPTS = "prompt"
    CALIBRATION = "calibration"
    JUDGE = "judge"
    CORPUS = "corpus"
    QUESTIONS = "questions"
    ANSWERABILITY = "answerability"


def differences(
    first: RunRecord,
    second: RunRecord,
    aspects: Iterable[Aspect],
    *,
    is_same_model: Callable[[str, str], bool] = operator.eq,
    prompts: Collection[str] | None = None,
) -> Iterator[tuple[str, object, object]]:
    """List what two runs were made with that is not the same: what it is, such as `budget top_k`, and both values.

    By default the prompts count that both runs have, for a prompt that a run did not have yet shaped nothing in it.
    """
    if prompts is None:
        prompts = sorted(first.prompts.keys() & second.prompts.keys())
    methods = [name for name in first.methods if name in second.methods]
    datasets = sorted(first.datasets.keys() & second.datasets.keys())
    for aspect in aspects:
        one, other = (_values(aspect, run, methods, datasets, prompts) for run in (first, second))
        for key in {**one, **other}:
            ours, theirs = one.get(key), other.get(key)
            same = is_same_model(str(ours), str(theirs)) if aspect is Aspect.MODEL else ours == theirs
            if not same:
                yield key[1], _show(ours), _show(theirs)


def _values(
    aspect: Aspect, run: RunRecord, methods: Iterable[str], datasets: Iterable[str], prompts: Iterable[str]
) -> dict[tuple[str, str], Any]:
    """Return all values that an aspect is made of, each by its method and its name in words."""
    found: dict[tuple[str, str], Any]
    match aspect:
        case Aspect.BUDGET | Aspect.RULES:
            held = asdict(run.budget if aspect is Aspect.BUDGET else run.rules)
            found = {("", f"{aspect} {name}"): value for name, value in held.items()}
        case Aspect.THRESHOLDS:
            tables = {method: asdict(run.setups[method].thresholds) for method in methods}
            found = {(m, f"{aspect} {name}"): value for m, values in tables.items() for name, value in values.items()}
        case Aspect.VERIFIER | Aspect.RETRIEVER | Aspect.PACK | Aspect.CALIBRATION:
            found = {(method, aspect): getattr(run.setups[method], aspect) for method in methods}
        case Aspect.METHOD_OPTIONS:
            found = {("", f"{aspect} of {method}"): run.method_options.get(method, "") for method in methods}
        case Aspect.PROMPTS:
            found = {("", f"{aspect} {name}"): run.prompts.get(name) for name in prompts}
        case Aspect.CORPUS:
            found = {("", f"{aspect} of {name}"): run.datasets[name].fingerprint for name in datasets}
        case Aspect.QUESTIONS:
            found = {("", f"{aspect} of {name}"): run.datasets[name].gold for name in datasets}
        case Aspect.ANSWERABILITY:
            found = {("", f"{aspect} on {name}"): run.interventions.get(name, "its own") for name in datasets}
        case _:
            found = {("", aspect): getattr(run, aspect)}
    return found


def _show(value: Any) -> Any:
    if isinstance(value, CalibrationRecord):
        return f"{value.name} ({value.sha256[:12]})"
    return "none" if value is None or value == "" else value


def resume_record(before: RunRecord, now: RunRecord) -> RunRecord:
    """Return the record of a run that goes on: methods, datasets and questions are added, all else stays as it began.

    Other versions of the software do not matter, since most change no number; they are all kept.
    """
    aspects = [each for each in Aspect if each is not Aspect.JUDGE or (before.judge and now.judge)]
    # A prompt that did not exist when the run began shaped nothing in it.
    for what, first, other in differences(before, now, aspects, prompts=before.prompts):
        raise RunChanged(
            f"This run began with the {what} {first}, and is now given {other}.",
            remedy="Use the same settings, or name another folder with --out.",
        )
    datasets = dict(before.datasets)
    for name, dataset in now.datasets.items():
        known = datasets.get(name, dataset)
        grown = {
            "question_ids": _join(known.question_ids, dataset.question_ids),
            "splits": _join(known.splits, dataset.splits),
            "seen_by_calibration": _join(known.seen_by_calibration, dataset.seen_by_calibration),
        }
        datasets[name] = dataset.model_copy(update=grown)
    # What a run without a calibrated method left open, the first such method sets.
    first_calibrated = now.calibrated and not before.calibrated
    settings = {name: now.settings[name] for name in _CALIBRATED_SETTINGS if first_calibrated and name in now.settings}
    others = [now.versions] if now.versions not in (before.versions, *before.later_versions) else []
    return before.model_copy(
        update={
            "later_versions": (*before.later_versions, *others),
            "datasets": datasets,
            "interventions": {**before.interventions, **now.interventions},
            "methods": _join(before.methods, now.methods),
            "method_options": {**before.method_options, **now.method_options},
            "setups": {**now.setups, **before.setups},
            "judge": before.judge or now.judge,
            # The newest word on prices counts: they shape no number, and a corrected one should be taken.
            "price": now.price or before.price,
            "judge_price": now.judge_price or before.judge_price,
            "settings": {**before.settings, **settings},
        }
    )


def _join(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*known, *(each for each in more if each not in set(known)))
