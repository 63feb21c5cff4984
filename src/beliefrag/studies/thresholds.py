"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from beliefrag.policy import Thresholds
from beliefrag.report.figure import draw_bars, label_axes
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
    StudyContext,
    StudyResult,
    compare_with_paper,
    describe_counts,
    have_same_order,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ThresholdsStudy"]

_DOUBT = 0.05
_ALL = "all"
"""Stands for all datasets."""

_VALUES: Mapping[str, Callable[[State], float]] = {
    "answerability": lambda s: _require(s.answerability),
    "retrieval value": lambda s: _require(s.retrieval_value),
    "conflict": lambda s: s.belief.conflict,
    "reliability": lambda s: s.belief.reliability,
    "sufficiency": lambda s: s.belief.sufficiency,
    "uncertainty": lambda s: s.belief.uncertainty,
    "novelty": lambda s: s.diagnostics.novelty,
    "flagged passages": lambda s: float(s.flagged),
    "searches made": lambda s: float(s.rounds),
}
"""What gates compare with their thresholds."""


def _require(value: float | None) -> float:
    if value is None:
        raise ValueError("gates need the run's own probabilities at every state")
    return value


@dataclass(frozen=True, slots=True)
class PolicyGate:
    """One gate of the branch policy: it opens where all its conditions hold."""

    name: str
    opens: str
    """What follows when it decides."""
    branches: tuple[str, ...]
    """The branches of the policy that it decides by."""
    conditions: tuple[tuple[str, str, str | float], ...]
    """What is compared (see `_VALUES`), how, and the threshold, by its name in `Thresholds` or as a number."""

    def margins(self, states: StateTable, thresholds: Thresholds) -> Floats:
        """Return how far each value (a column) of each state (a row) is beyond its threshold; below 0 if it fails."""
        columns = []
        for what, relation, _ in self.conditions:
            gap = states.column(_VALUES[what]) - self.limit(what, thresholds)
            columns.append(-gap if relation == "below" else gap)
        return np.column_stack(columns)

    def limit(self, what: str, thresholds: Thresholds) -> float:
        """Return the threshold that a value is compared with."""
        limit = next(limit for name, _, limit in self.conditions if name == what)
        return float(getattr(thresholds, limit)) if isinstance(limit, str) else limit

    def holds(self, states: StateTable, thresholds: Thresholds) -> NDArray[np.bool_]:
        """Return at which states its conditions are met, whatever gate comes before it and whatever is legal."""
        margins = self.margins(states, thresholds)
        inclusive = np.array([relation == "at least" for _, relation, _ in self.conditions])
        return np.asarray(((margins > 0) | (inclusive & (margins == 0))).all(axis=1))

    def nearest(self, states: StateTable, thresholds: Thresholds, inside: NDArray[np.bool_]) -> str:
        """Describe the state that comes nearest to it: the one whose most failing condition fails least."""
        worst = np.where(inside, self.margins(states, thresholds).min(axis=1), -np.inf)
        state = states.states[int(worst.argmax())]
        return "; ".join(
            f"{what} {_VALUES[what](state):.3g} (needs {relation} {self.limit(what, thresholds):g})"
            for what, relation, _ in self.conditions
        )


_IN_ORDER = (
    PolicyGate(
        *("answer", "ANSWER", ("answer",)),
        (("answerability", "at least", "answer"), ("conflict", "below", "conflict")),
    ),
    PolicyGate("conflict", "a correction", ("correct-conflict",), (("conflict", "at least", "conflict"),)),
    PolicyGate("reliability", "a correction", ("correct-unreliable",), (("reliability", "below", "reliability"),)),
    PolicyGate("flagged", "a correction", ("correct-flagged",), (("flagged passages", "at least", 1.0),)),
    PolicyGate(
        *("retrieval value", "RETRIEVE", ("retrieve", "rewrite")),
        (("retrieval value", "at least", "retrieval_value"),),
    ),
    PolicyGate(
        *("novelty", "REWRITE first", ("rewrite",)),
        (("novelty", "below", "novelty"), ("searches made", "at least", 1.0)),
    ),
    PolicyGate(
        *("abstain", "ABSTAIN", ("abstain",)),
        (
            ("sufficiency", "below", "abstain_sufficiency"),
            ("uncertainty", "above", "abstain_uncertainty"),
            ("answerability", "below", "abstain_answerability"),
        ),
    ),
)
GATES: Mapping[str, PolicyGate] = {gate.name: gate for gate in _IN_ORDER}
"""All gates, in the order of the policy."""


@dataclass(frozen=True, slots=True)
class GateRate:
    """How often one gate fires on the visited states of one dataset, or of all."""

    gate: PolicyGate
    dataset: str | None
    states: int
    questions: int
    times: int
    """At how many states its condition holds."""
    share: Estimate
    decides: Estimate
    """The share of states at which the policy decided by it."""
    nearest: str
    """Its conditions at the state that comes nearest, or goes furthest beyond."""

    @property
    def upper_bound(self) -> float | None:
        """For a gate that never fired, the largest share of questions that is compatible with that at 95 %."""
        return None if self.times else 1 - _DOUBT ** (1 / self.questions)

    @property
    def reached(self) -> str:
        """Whether it was reached never, always or sometimes."""
        return {0: "never", self.states: "always"}.get(self.times, "sometimes")


def measure_gate(states: StateTable, gate: PolicyGate, thresholds: Thresholds, dataset: str | None = None) -> GateRate:
    """Measure how often one gate fires on the states of a dataset, or on all."""
    inside, holds = states.is_in(dataset), gate.holds(states, thresholds)
    return GateRate(
        gate=gate,
        dataset=dataset,
        states=int(inside.sum()),
        questions=states.count_questions(dataset),
        times=int(holds[inside].sum()),
        share=states.mean(holds.astype(np.float64), dataset),
        decides=states.mean(states.column(lambda state: float(state.step.reason in gate.branches)), dataset),
        nearest=gate.nearest(states, thresholds, inside),
    )


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


@dataclass(frozen=True, slots=True)
class ScoreOnStates:
    """One score on visited states, by dataset."""

    states: StateTable
    values: Floats
    """The score at each state."""
    threshold: float
    """Where a gate cuts it."""

    def median(self, dataset: str | None = None) -> Estimate:
        """Return the median in a dataset, or in all."""
        return self.states.estimate(lambda weights: self.medians(weights, dataset), dataset)

    def below(self, dataset: str | None = None) -> Estimate:
        """Return the quantile at which the threshold falls: the share of states below it."""
        return self.states.estimate(lambda weights: self.shares_below(weights, dataset), dataset)

    def medians(self, weights: Floats, dataset: str | None) -> Floats:
        """Return the median for each row of weights."""
        inside = self.states.is_in(dataset)
        return weighted_quantile(self.values[inside], weights[:, inside], 0.5)

    def shares_below(self, weights: Floats, dataset: str | None) -> Floats:
        """Return the share of states below the threshold for each row of weights."""
        inside = self.states.is_in(dataset)
        own = weights[:, inside]
        return np.asarray(own @ (self.values[inside] < self.threshold) / own.sum(axis=1))


def spread_over(datasets: tuple[str, ...], statistic: Callable[[Floats, str], Floats]) -> Callable[[Floats], Floats]:
    """Return the function for the largest minus the smallest of a statistic over datasets, by row of weights."""
    return lambda weights: np.ptp(np.stack([statistic(weights, dataset) for dataset in datasets]), axis=0)


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
        "The spread is the largest minus the smallest of the datasets' medians. It depends on the scale of the score.",
        "The quantile at which the answer threshold falls is the share of states below it; the scale shapes it too.",
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
            t for t in recording.trajectories_of(METHOD) if all(state.answerability is not None for state in t.states)
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
            *recording.missing_notes(METHOD),
            "A spread of medians cannot be below 0: with few questions chance alone makes one, in both scores.",
        )
        if not datasets:
            why = f"It needs BeliefRAG's states on at least {MIN_QUESTIONS} questions of a dataset."
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        raw = ScoreOnStates(states, states.column(lambda s: s.belief.sufficiency), thresholds.answer)
        calibrated = ScoreOnStates(states, states.column(_VALUES["answerability"]), thresholds.answer)
        if have_same_order(raw.values, calibrated.values):
            notes += ("Both scores put the states in the same order: their spreads differ by the scale alone.",)
        spreads = _measure_spreads(raw, calibrated, datasets) if len(datasets) > 1 else {}
        gates = [measure_gate(states, gate, thresholds, scope) for scope in (*datasets, None) for gate in _IN_ORDER]
        pooled = {each.gate.name: each for each in gates if each.dataset is None}
        scores = _scores_table(raw, calibrated, datasets)
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(spreads, pooled)),
            numbers={
                "never_reached": [name for name, each in pooled.items() if each.reached == "never"],
                "always_reached": [name for name, each in pooled.items() if each.reached == "always"],
            },
            tables=(scores, _spreads_table(spreads), _gates_table(gates)),
            notes=notes,
            paper_values=compare_with_paper(
                {
                    "spread_raw": spreads.get("medians, raw"),
                    "spread_calibrated": spreads.get("medians, calibrated"),
                    "gate_answer": pooled["answer"].share,
                    "gate_conflict_ordinary": pooled["conflict"].share,
                }
            ),
            paper_note="Theirs are over six datasets with gpt-oss-120b. Their raw score is not described; here it is "
            "the belief's sufficiency. They see the conflict gate fire on 72 % of counterfactual evidence, which is "
            "not among these questions.",
            draw=partial(_draw_thresholds, scores, gates),
            figure_size=(13.0, 4.9),
            caption="The median of both scores by dataset, the share of states below the answer threshold, and the "
            "share of visited states on which the condition of each gate holds. Lines are 95 % intervals.",
        )


def _measure_spreads(raw: ScoreOnStates, calibrated: ScoreOnStates, datasets: tuple[str, ...]) -> dict[str, Estimate]:
    raw_spread, own_spread = (spread_over(datasets, score.medians) for score in (raw, calibrated))
    estimate = raw.states.estimate
    return {
        "medians, raw": estimate(raw_spread),
        "medians, calibrated": estimate(own_spread),
        "medians, calibrated minus raw": estimate(lambda weights: own_spread(weights) - raw_spread(weights)),
        "quantile of the answer threshold, raw": estimate(spread_over(datasets, raw.shares_below)),
        "quantile of the answer threshold, calibrated": estimate(spread_over(datasets, calibrated.shares_below)),
    }


def _describe_findings(spreads: Mapping[str, Estimate], pooled: Mapping[str, GateRate]) -> Iterator[str]:
    if not spreads:
        yield "One dataset has no spread: how far thresholds transfer cannot be said from it."
    for what, spread in spreads.items():
        yield f"Spread over the datasets of the {what}: {format_cell(spread)}."
    shares = ", ".join(f"{name} {each.share.value:.1%}" for name, each in pooled.items())
    yield f"The condition of each gate holds on these shares of visited states: {shares}."
    for name, each in pooled.items():
        if each.reached == "never":
            yield f"With evidence there, the {name} gate was never reached; nearest: {each.nearest}."
        elif each.reached == "always":
            yield f"The {name} gate's condition held at every visited state."


def _scores_table(raw: ScoreOnStates, calibrated: ScoreOnStates, datasets: tuple[str, ...]) -> Table:
    records = [
        {
            "dataset": name or _ALL,
            "questions": raw.states.count_questions(name),
            "states": int(raw.states.is_in(name).sum()),
            "raw median": raw.median(name),
            "calibrated median": calibrated.median(name),
            "raw below threshold (share of states)": raw.below(name),
            "calibrated below threshold (share of states)": calibrated.below(name),
        }
        for name in (*datasets, None)
    ]
    note = "Raw is the belief's sufficiency, calibrated the fitted answerability; the threshold is that of answering."
    return Table.of_records("scales", "Answerability by dataset", records, note)


def _spreads_table(spreads: Mapping[str, Estimate]) -> Table:
    records = [{"of": what, "spread": spread} for what, spread in spreads.items()]
    return Table.of_records("spreads", "Largest minus smallest over the datasets", records)


def _gates_table(gates: list[GateRate]) -> Table:
    records = [
        {
            "dataset": each.dataset or _ALL,
            "gate": each.gate.name,
            "opens": each.gate.opens,
            "states": each.states,
            "holds (share of states)": each.share,
            "decides (share of states)": each.decides,
            "nearest or furthest beyond": each.nearest,
            "at most (share of questions, 95 %)": each.upper_bound,
        }
        for each in gates
    ]
    note = (
        "Holds: its condition is met, whatever comes before it in the policy. Decides: the policy decided by it. At "
        "most: the share of questions on which a gate that was never reached may still open."
    )
    return Table.of_records("gates", "How often each gate fires on visited states", records, note)


def _draw_thresholds(scores: Table, gates: list[GateRate], figure: Figure) -> None:
    median_axes, below_axes, gate_axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
    records = scores.records[:-1]
    for axes, what, title in (
        (median_axes, "median", "Where the score lies"),
        (below_axes, "below threshold", "Where the threshold cuts"),
    ):
        label_axes(axes, title, y="median score" if what == "median" else "share of visited states below it")
        series = {kind: [record[f"{kind} {what}"] for record in records] for kind in ("raw", "calibrated")}
        draw_bars(axes, [str(record["dataset"]) for record in records], series)
        axes.set_ylim(0, 1)
    label_axes(gate_axes, "Which gates' conditions hold", y="share of visited states")
    by_dataset = {each.dataset or _ALL: [g.share for g in gates if g.dataset == each.dataset] for each in gates}
    draw_bars(gate_axes, list(GATES), by_dataset)
