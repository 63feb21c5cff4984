"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached? (SPEC 10.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from beliefrag.report.table import format_cell
from beliefrag.runs.record import thresholds_of
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Result, beside
from beliefrag.studies.states import StateTable
from beliefrag.studies.study import Study, StudyOptions
from beliefrag.studies.thresholds.figure import draw_thresholds
from beliefrag.studies.thresholds.found import Found, find
from beliefrag.studies.thresholds.gate_rates import Reached
from beliefrag.studies.thresholds.tables import numbers, tables

__all__ = ["THRESHOLDS"]

_METHOD = "beliefrag"
_LEAST = 2
"""Questions of a dataset: one says nothing about others."""
_SAME_ORDER = (
    "The run's calibration makes answerability a rising function of the raw score: both put the states in the same "
    "order. That medians or shares lie closer or further apart comes of the scale alone."
)


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    return (RequiredRun("comparison", (_METHOD,)),)


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    recording = recordings["comparison"]
    thresholds = thresholds_of(recording.run)
    trajectories = [
        t for t in recording.states_of(_METHOD) if all(state.answerability is not None for state in t.states)
    ]
    counts = {name: StateTable(t for t in trajectories if t.dataset == name).count() for name in recording.datasets}
    datasets = tuple(name for name, count in counts.items() if count >= _LEAST)
    visited = StateTable(t for t in trajectories if t.dataset in datasets)
    words = ", ".join(f"{counts[name]} of {name}" for name in datasets)
    many = f"{visited.count():,} questions ({words or 'none'})"
    n = f"{len(visited):,} visited states with evidence, of {many}; seed {recording.run.seed}."
    notes = _notes(recording, visited, counts)
    if not datasets:
        why = f"It needs BeliefRAG's states on at least {_LEAST} questions of a dataset, and there are fewer."
        return Result.too_little(why, n=n, notes=notes)
    found = find(visited, datasets, thresholds)
    return Result(
        n=n,
        findings=tuple(_findings(found)),
        numbers=numbers(found),
        tables=tuple(tables(found)),
        notes=(*notes, _SAME_ORDER) if found.same_order else notes,
        published=beside(
            {
                "spread_raw": found.spreads.get("raw"),
                "spread_calibrated": found.spreads.get("calibrated"),
                "gate_answer": _pooled(found, "answer").share,
                "gate_conflict_ordinary": _pooled(found, "conflict").share,
            }
        ),
        published_note="Theirs are over six datasets with gpt-oss-120b. Their raw score is not described; here it is "
        "the belief's sufficiency. They see the conflict gate fire on 72 % of counterfactual evidence, which is not "
        "among these questions.",
        draw=partial(draw_thresholds, found.datasets, (found.raw, found.calibrated), thresholds.answer, found.gates),
        figure_size=(12.0, 4.9),
        caption="Left: the middle half of visited states by dataset, with their median. Middle: the share of states "
        "below the answer threshold. Right: on which share of visited states the condition of each gate holds.",
    )


def _notes(recording: Recording, visited: StateTable, counts: Mapping[str, int]) -> tuple[str, ...]:
    bare = f"{visited.without_evidence:,} further states had no evidence, mostly those before the first search"
    notes = [f"{bare}: their values are constants of the method, and they are in no number here."]
    if small := [name for name, count in counts.items() if count < _LEAST]:
        notes.append(f"Left out, with fewer than {_LEAST} questions: {', '.join(small)}.")
    if sentence := recording.lacking(_METHOD):
        notes.append(sentence)
    notes.append("A spread of medians cannot be below 0: with few questions chance alone makes one, in both scores.")
    return tuple(notes)


def _findings(found: Found) -> Iterator[str]:
    if spreads := found.spreads:
        yield (
            f"The datasets' medians lie {format_cell(spreads['raw'])} apart with the raw score and "
            f"{format_cell(spreads['calibrated'])} with the calibrated one; calibration changes that by "
            f"{format_cell(spreads['difference'])}."
        )
        yield (
            "The quantile at which the answer threshold falls differs between datasets by "
            f"{format_cell(spreads['raw_below_threshold'])} with the raw score and "
            f"{format_cell(spreads['calibrated_below_threshold'])} with the calibrated one."
        )
    else:
        yield "One dataset has no spread: how far thresholds transfer cannot be said from it."
    shares = ", ".join(f"{each.gate.name} {each.share.value:.1%}" for each in found.pooled)
    yield f"The condition of each gate holds on these shares of visited states: {shares}."
    for each in found.pooled:
        if each.never:
            nearest = "; ".join(map(str, each.nearest))
            yield f"With evidence there, the {each.gate.name} gate was never reached; nearest: {nearest}."
        elif each.always:
            yield f"The {each.gate.name} gate's condition held at every visited state: it tells none apart."


def _pooled(found: Found, gate: str) -> Reached:
    return next(each for each in found.pooled if each.gate.name == gate)


THRESHOLDS = Study(
    name="thresholds",
    title="What thresholds mean",
    question="Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?",
    protocol=(
        "The states are those that BeliefRAG visited with its own thresholds; nothing is asked again.",
        "Raw answerability is the belief's sufficiency, calibrated answerability what the run's calibration gave.",
        "The spread is the largest minus the smallest of the datasets' medians. It depends on the scale of the score.",
        "The quantile at which the answer threshold falls is the share of states below it; the scale shapes it too.",
        "A gate fires on a state if its condition is met there, as in the paper.",
        "Gates that come first hide later ones: a second column has how often the policy really decided by each.",
        "States count alike, as in the paper; intervals resample questions within each dataset, 2,000 times.",
    ),
    needs=_needs,
    work_out=_work_out,
)
