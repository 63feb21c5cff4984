"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from beliefrag.policy import Thresholds
from beliefrag.report.figure import draw_bars
from beliefrag.report.table import Table, format_cell
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import State
from beliefrag.runs.statistics import Estimate, Floats
from beliefrag.studies.study import (
    METHOD,
    MIN_QUESTIONS,
    STUDIES,
    Recording,
    RequiredRun,
    StateTable,
    Statistic,
    StudyContext,
    StudyResult,
    compare_with_paper,
    describe_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALL = "all"


class PolicyGate(NamedTuple):
    """One gate of the branch policy."""

    branches: tuple[str, ...]
    holds: Callable[[State, Thresholds], bool]
    """Whether its condition is met at a state, whatever gate comes before it and whatever is legal."""


GATES: Mapping[str, PolicyGate] = {
    "answer": PolicyGate(("answer",), lambda s, t: _answerability(s) >= t.answer and s.belief.conflict < t.conflict),
    "conflict": PolicyGate(("correct-conflict",), lambda s, t: s.belief.conflict >= t.conflict),
    "reliability": PolicyGate(("correct-unreliable",), lambda s, t: s.belief.reliability < t.reliability),
    "flagged": PolicyGate(("correct-flagged",), lambda s, t: s.flagged >= 1),
    "retrieval value": PolicyGate(
        ("retrieve", "rewrite"), lambda s, t: (s.retrieval_value or 0.0) >= t.retrieval_value
    ),
    "novelty": PolicyGate(("rewrite",), lambda s, t: s.diagnostics.novelty < t.novelty and s.rounds >= 1),
    "abstain": PolicyGate(
        ("abstain",),
        lambda s, t: (
            s.belief.sufficiency < t.abstain_sufficiency
            and s.belief.uncertainty > t.abstain_uncertainty
            and _answerability(s) < t.abstain_answerability
        ),
    ),
}


def _answerability(state: State) -> float:
    assert state.answerability is not None
    return state.answerability


def measure_gate(states: StateTable, name: str, thresholds: Thresholds, dataset: str | None = None) -> dict[str, Any]:
    """Measure how often one gate fires on the states of a dataset, or on all."""
    gate = GATES[name]
    holds = states.column(lambda state: gate.holds(state, thresholds))
    decides = states.column(lambda state: state.step.reason in gate.branches)
    return {
        "dataset": dataset or _ALL,
        "gate": name,
        "states": int(states.is_in(dataset).sum()),
        "holds (share of states)": states.mean(holds, dataset),
        "decides (share of states)": states.mean(decides, dataset),
    }


def weighted_quantile(values: Floats, weights: Floats, q: float) -> Floats:
    """Return the quantile of each row of weights: the middle of the values between which the share q is reached.

    With equal weights and q one half it is the ordinary median.
    """
    order = np.argsort(values, kind="stable")
    ordered, cumulated = values[order], np.cumsum(weights[..., order], axis=-1)
    # The tolerance keeps a share that is reached exactly from being missed by a rounding error.
    target = q * cumulated[..., -1:]
    slack = 1e-9 * np.maximum(1.0, cumulated[..., -1:])
    low = np.argmax(cumulated >= target - slack, axis=-1)
    high = np.argmax(cumulated > target + slack, axis=-1)
    # At the very end no value lies beyond.
    high = np.where(cumulated[..., -1] <= target[..., 0] + slack[..., 0], low, high)
    return np.asarray((ordered[low] + ordered[high]) / 2)


def medians(states: StateTable, score: Floats, dataset: str | None = None) -> Statistic:
    """Return the median of a score on a dataset, or on all, as a function of the weights."""
    inside = states.is_in(dataset)
    return lambda weights: weighted_quantile(score[inside], weights[:, inside], 0.5)


def spread_over(statistics: Iterable[Statistic]) -> Statistic:
    """Return the largest minus the smallest of several statistics."""
    own = tuple(statistics)
    return lambda weights: np.ptp(np.stack([statistic(weights) for statistic in own]), axis=0)


@STUDIES.register(
    "thresholds",
    title="What thresholds mean",
    summary="Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?",
)
@dataclass(frozen=True, slots=True)
class ThresholdsStudy:
    """Measures scores and gates on the states that BeliefRAG visited."""

    protocol: ClassVar[tuple[str, ...]] = (
        "The states are those that BeliefRAG visited with its own thresholds; no model is called.",
        "Raw answerability is the belief's sufficiency, calibrated answerability what the run's calibration gave.",
        "The spread is the largest minus the smallest of the datasets' medians.",
        "The quantile at which the answer threshold falls is the share of states below it.",
        "A gate fires on a state if its condition is met there, as in the paper.",
        "States count alike, as in the paper; intervals resample questions within each dataset, 2,000 times.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the run that methods are compared in."""
        return (RequiredRun("comparison", (METHOD,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute where scores lie in each dataset, and how often each gate fires."""
        recording = recordings["comparison"]
        thresholds = thresholds_of(recording.run)
        own = [
            t
            for t in recording.trajectories_of(recording.controller)
            if all(state.answerability is not None for state in t.states)
        ]
        counts = {
            name: StateTable(t for t in own if t.dataset == name).count_questions() for name in recording.datasets
        }
        datasets = tuple(name for name, count in counts.items() if count >= MIN_QUESTIONS)
        states = StateTable(t for t in own if t.dataset in datasets)
        questions = describe_counts({name: counts[name] for name in datasets})
        sample = f"{len(states):,} visited states with evidence, of {questions}; seed {recording.run.seed}."
        small = [name for name in counts if name not in datasets]
        notes = (
            f"{states.without_evidence:,} further states had no evidence: their values are constants of the method.",
            *([f"Left out, with fewer than {MIN_QUESTIONS} questions: {', '.join(small)}."] if small else []),
            *recording.missing_notes(recording.controller),
            "A spread of medians cannot be below 0: with few questions chance alone makes one, in both scores.",
        )
        if not datasets:
            why = f"It needs BeliefRAG's states on at least {MIN_QUESTIONS} questions of a dataset."
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        scores = {
            "raw": states.column(lambda state: state.belief.sufficiency),
            "calibrated": states.column(_answerability),
        }
        spreads = _measure_spreads(states, scores, thresholds.answer, datasets) if len(datasets) > 1 else {}
        scopes = (*datasets, None)
        gates = [measure_gate(states, name, thresholds, scope) for scope in scopes for name in GATES]
        pooled = {gate["gate"]: gate["holds (share of states)"] for gate in gates if gate["dataset"] == _ALL}
        never = [name for name, share in pooled.items() if share.value == 0]
        findings = [f"Spread over the datasets of the {what}: {format_cell(each)}." for what, each in spreads.items()]
        spread_rows = [{"of": what, "spread": spread} for what, spread in spreads.items()]
        gates_note = "Holds: its condition is met, whatever comes before it. Decides: the policy decided by it."
        scales = _make_scales_table(states, scores, thresholds.answer, scopes)
        return StudyResult(
            sample=sample,
            findings=(
                *(findings or ["One dataset has no spread: how far thresholds transfer cannot be said from it."]),
                f"Gates that were never reached: {', '.join(never) or 'none'}.",
            ),
            numbers={"never_reached": never},
            tables=(
                scales,
                Table.of_records("spreads", "Largest minus smallest over the datasets", spread_rows),
                Table.of_records("gates", "How often each gate fires on visited states", gates, gates_note),
            ),
            notes=notes,
            paper_values=compare_with_paper(
                {
                    "spread_raw": spreads.get("medians, raw"),
                    "spread_calibrated": spreads.get("medians, calibrated"),
                    "gate_answer": pooled["answer"],
                    "gate_conflict_ordinary": pooled["conflict"],
                }
            ),
            paper_note="Theirs are over six datasets with gpt-oss-120b; their raw score is not described.",
            draw=partial(_draw_thresholds, scales, gates),
            figure_size=(13.0, 4.9),
            caption="Medians, shares of states below the answer threshold, and gates. Lines are 95 % intervals.",
        )


def _measure_spreads(
    states: StateTable, scores: Mapping[str, Floats], threshold: float, datasets: tuple[str, ...]
) -> dict[str, Estimate]:
    statistics, below = {}, {}
    for name, score in scores.items():
        share = (score < threshold).astype(np.float64)
        statistics[f"medians, {name}"] = spread_over(medians(states, score, dataset) for dataset in datasets)
        below[f"quantile of the answer threshold, {name}"] = spread_over(
            states.means(share, dataset) for dataset in datasets
        )
    raw, calibrated = statistics.values()
    statistics["medians, calibrated minus raw"] = lambda weights: calibrated(weights) - raw(weights)
    return {what: states.estimate(statistic) for what, statistic in {**statistics, **below}.items()}


def _make_scales_table(
    states: StateTable, scores: Mapping[str, Floats], threshold: float, scopes: tuple[str | None, ...]
) -> Table:
    below = {name: (score < threshold).astype(np.float64) for name, score in scores.items()}
    records = [
        {"dataset": scope or _ALL, "questions": states.count_questions(scope), "states": int(states.is_in(scope).sum())}
        | {f"{name} median": states.estimate(medians(states, own, scope), scope) for name, own in scores.items()}
        | {f"{name} below threshold (share of states)": states.mean(own, scope) for name, own in below.items()}
        for scope in scopes
    ]
    note = "Raw is the belief's sufficiency, calibrated the fitted answerability; the threshold is that of answering."
    return Table.of_records("scales", "Answerability by dataset", records, note)


def _draw_thresholds(scales: Table, gates: list[dict[str, Any]], figure: Figure) -> None:
    *panels, gate_axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
    rows: list[Any] = scales.records[:-1]
    for axes, what, title in zip(
        panels, ("median", "below threshold"), ("Where the score lies", "Where the threshold cuts"), strict=True
    ):
        series = {kind: [row[f"{kind} {what}"] for row in rows] for kind in ("raw", "calibrated")}
        draw_bars(axes, title, what, [row["dataset"] for row in rows], series)
        axes.set_ylim(0, 1)
    by_dataset: dict[str, list[Estimate]] = {}
    for gate in gates:
        by_dataset.setdefault(gate["dataset"], []).append(gate["holds (share of states)"])
    draw_bars(gate_axes, "Which gates' conditions hold", "share of visited states", list(GATES), by_dataset)
