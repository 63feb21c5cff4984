"""What information is in the belief state? (SPEC 10.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from beliefrag.calibration.examples import Examples, LeftOut, label_states
from beliefrag.report.table import format_cell, format_number
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.belief.figure import draw_belief
from beliefrag.studies.belief.found import ANSWERABILITY, JOINT, LEAST_JOINT, Found, find
from beliefrag.studies.belief.held_out import DRAWS, RESAMPLES
from beliefrag.studies.belief.tables import numbers, tables
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Result, beside
from beliefrag.studies.states import StateTable
from beliefrag.studies.study import Study, StudyOptions

__all__ = ["BELIEF"]

_METHOD, _SURVEY = "beliefrag", "survey"
_LEAST = 5
"""Questions with a right and with a wrong state: with fewer an AUC is an anecdote."""


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    # Only a verifier that drafts answers leaves one at each state; for others a survey asks for them.
    methods = (_METHOD,) if asked.drafts else (_METHOD, _SURVEY)
    return (RequiredRun("comparison", methods, least=(_METHOD,)),)


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    recording = recordings["comparison"]
    own = recording.states_of(_METHOD)
    method, examples, left_out = _labelled(recording, asked)
    n = _n(recording, examples)
    notes = _notes(recording, method, bool(len(examples)), left_out, asked)
    count = examples.count
    if not own or min(count.questions_positive, count.questions_negative) < _LEAST:
        why = (
            f"It needs at least {_LEAST} questions with a state whose answer is right by {asked.label}, and {_LEAST} "
            f"with one whose answer is wrong; there are {count.questions_positive} and {count.questions_negative}."
        )
        return Result.too_little(why, n=n, notes=notes)
    thresholds = thresholds_of(recording.run)
    found = find(examples, StateTable(own), thresholds.answer)
    return Result(
        n=n,
        findings=tuple(_findings(found)),
        numbers=numbers(found),
        tables=tuple(tables(found)),
        notes=(*notes, *_further(found)),
        published=beside(
            {
                "auc_best_single": found.signals[found.best],
                "auc_joint": found.signals.get(JOINT),
                "ece_sufficiency": Estimate(found.calibration["sufficiency"].ece),
                "ece_reliability": Estimate(found.calibration["reliability"].ece),
            }
        ),
        published_note="Theirs are with gpt-oss-120b, answers judged by a model. Their strongest dimension is "
        f"uncertainty, the strongest here {found.best}. The paper does not say whether its "
        "joint AUC was taken on states that the fit had seen, nor how it binned its calibration errors.",
        draw=partial(draw_belief, found),
        figure_size=(12.0, 9.6),
        caption="How well each belief dimension tells right from wrong states; how the dimensions hang together; how "
        "near two of them lie to the share of right answers; what was done next at each level.",
    )


def _labelled(recording: Recording, asked: StudyOptions) -> tuple[str, Examples, LeftOut]:
    """The states with a known outcome: BeliefRAG's own where it has any, else a survey's."""
    method = _METHOD
    found = label_states(recording.states_of(_METHOD), asked.label)
    if not len(found[0]) and (surveyed := recording.states_of(_SURVEY)):
        method, found = _SURVEY, label_states(surveyed, asked.label)
    return method, *found


def _n(recording: Recording, examples: Examples) -> str:
    count = examples.count
    by_dataset = {name: len({e.question_id for e in examples.each if e.dataset == name}) for name in recording.datasets}
    words = ", ".join(f"{number} of {name}" for name, number in by_dataset.items() if number)
    many = f"{count.questions:,} questions ({words or 'none'})"
    return f"{count.states:,} states with an answer on trial, {count.positive:,} of them right, of {many}."


def _notes(recording: Recording, method: str, found: bool, left_out: LeftOut, asked: StudyOptions) -> tuple[str, ...]:
    right = "a token F1 of at least one half" if asked.label == "f1" else asked.label.replace("_", " ")
    notes = [f"A state is right if answering there gives a right answer: {right}."]
    if method == _SURVEY:
        notes.append("BeliefRAG's own states have no answer on trial; those of a survey of the same questions serve.")
    notes.append(
        f"Left out: {left_out.without_evidence:,} states without evidence and {left_out.unlabelled:,} without a known "
        "outcome."
    )
    if not found:
        form = recording.run.verifier
        notes.append(f"No state has a known outcome: the verifier form {form} leaves none, and no survey does.")
    if sentence := recording.lacking(method):
        notes.append(sentence)
    return tuple(notes)


def _further(found: Found) -> Iterator[str]:
    if JOINT not in found.signals:
        yield (
            f"All dimensions jointly cannot be said: a fit needs at least {LEAST_JOINT} questions with a right and "
            f"{LEAST_JOINT} with a wrong state."
        )
    if found.held_out is not None:
        yield "Six weights that are fitted on few questions fit some chance too: more questions would help them."
    if found.rises_with:
        yield (
            f"The run's calibration makes answerability a rising function of {found.rises_with}: both put the states "
            "in the same order, and have the same AUC and permutations. The paper's is a fit of all diagnostics."
        )
    match = found.match
    on = "dataset, round and number of retained passages" if match.on_retained else "dataset and round"
    yield (
        f"Permutation: states matched on {on}; {match.with_partner} of {match.questions} questions have a partner, the "
        "others keep their scores."
    )
    if found.too_even:
        yield f"No levels of {', '.join(found.too_even)}: too many states have the same value."
    yield "A calibration error cannot be below 0: few states make one by chance, which is given beside it."


def _findings(found: Found) -> Iterator[str]:
    best = found.signals[found.best]
    yield f"The strongest single dimension is {found.best}: AUC {format_cell(best)}."
    if found.held_out is not None and found.joint_seen is not None:
        yield (
            f"All dimensions jointly, on questions that a fit had not seen: AUC {format_cell(found.held_out.joint)}. "
            "The single dimension that is strongest on the questions of the fit has "
            f"{format_cell(found.held_out.single)}: the difference is "
            f"{format_number(found.held_out.difference, '+.3f')}. Where a fit has seen the states it shows "
            f"{format_cell(found.joint_seen)}."
        )
    words = f"{found.rises_with}, and with it answerability," if found.rises_with else "calibrated answerability"
    if each := found.permuted.get(found.rises_with or ANSWERABILITY):
        yield (
            f"Exchanged between matched states, {words} falls from AUC {each.observed:.3f} to {each.mean:.3f} "
            f"(permutations {each.low:.3f} to {each.high:.3f}), p = {each.p:.2g}."
        )
    if found.gate is not None:
        yield (
            f"Of the matched states that the answer gate lets pass, {found.gate.observed:.1%} are right; with "
            f"answerability exchanged it would be {found.gate.mean:.1%} (p = {found.gate.p:.2g})."
        )
    errors = "; ".join(
        f"{name} {each.ece:.3f}, where perfect calibration would show up to {each.chance_most:.3f} by chance"
        for name, each in found.calibration.items()
    )
    yield f"Expected calibration error: {errors}."


BELIEF = Study(
    name="belief",
    title="What is in the belief state",
    question="Does each dimension of the belief predict whether an answer is right, and what do all of them add?",
    protocol=(
        "The states are those that BeliefRAG visited, with the answer that each would give and whether it is right.",
        "AUC: the chance that a right state has the better value than a wrong one. Half is no signal.",
        "The direction is that of the meaning: more sufficiency and reliability, less of the others. It is not fitted.",
        "Jointly: a logistic fit of the six dimensions on four fifths of the questions scores the states of the rest.",
        "Beside it stands the dimension that was strongest on the same four fifths. Both AUCs are within the rest.",
        f"The questions are parted {DRAWS} times by chance, and all parts count: one draw would be luck.",
        "A question counts once, its states share its weight; the paper seems to count states.",
        f"Intervals resample questions, 2,000 times; for the joint AUC {RESAMPLES} times, fitted and picked anew.",
        "Correlations are Spearman's. Calibration errors are over ten equal bins, right answers the outcome for both.",
        "Levels are thirds of the visited states; actions are those that followed.",
        "Permutation: scores are exchanged, 2,000 times, between questions of a dataset that reached the same rounds.",
        "Only scores that were not fitted on these states are: a fit that has seen their outcomes is not exchangeable.",
        "Each question takes part with its first state of every round: what dataset and round tell stays.",
    ),
    needs=_needs,
    work_out=_work_out,
)
