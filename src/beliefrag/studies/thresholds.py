"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    Statistic,
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

    def limits(self, thresholds: Thresholds) -> list[float]:
        """Return the threshold of each condition."""
        return [getattr(thresholds, each) if isinstance(each, str) else each for _, _, each in self.conditions]

    def margins(self, states: StateTable, thresholds: Thresholds) -> Floats:
        """Return how far each value (a column) of each state (a row) is beyond its threshold; below 0 if it fails."""
        gaps = []
        for (what, relation, _), limit in zip(self.conditions, self.limits(thresholds), strict=True):
            gaps.append((states.column(_VALUES[what]) - limit) * (-1 if relation == "below" else 1))
        return np.column_stack(gaps)

    def holds(self, states: StateTable, thresholds: Thresholds) -> NDArray[np.bool_]:
        """Return at which states its conditions are met, whatever gate comes before it and whatever is legal."""
        margins = self.margins(states, thresholds)
        inclusive = np.array([relation == "at least" for _, relation, _ in self.conditions])
        return np.asarray(((margins > 0) | (inclusive & (margins == 0))).all(axis=1))

    def nearest(self, states: StateTable, thresholds: Thresholds, inside: NDArray[np.bool_]) -> str:
        """Describe the state that comes nearest to it: the one whose most failing condition fails least."""
        worst = np.where(inside, self.margins(states, thresholds).min(axis=1), -np.inf)
        state = states.states[int(worst.argmax())]
        each = zip(self.conditions, self.limits(thresholds), strict=True)
        return "; ".join(f"{what} {_VALUES[what](state):.3g} (needs {how} {limit:g})" for (what, how, _), limit in each)


_ANSWERABLE = ("answerability", "at least", "answer")
_HOPELESS = (
    ("sufficiency", "below", "abstain_sufficiency"),
    ("uncertainty", "above", "abstain_uncertainty"),
    ("answerability", "below", "abstain_answerability"),
)
_WORTH = ("retrieval value", "at least", "retrieval_value")
_STALE = (("novelty", "below", "novelty"), ("searches made", "at least", 1.0))
_IN_ORDER = (
    PolicyGate("answer", "ANSWER", ("answer",), (_ANSWERABLE, ("conflict", "below", "conflict"))),
    PolicyGate("conflict", "a correction", ("correct-conflict",), (("conflict", "at least", "conflict"),)),
    PolicyGate("reliability", "a correction", ("correct-unreliable",), (("reliability", "below", "reliability"),)),
    PolicyGate("flagged", "a correction", ("correct-flagged",), (("flagged passages", "at least", 1.0),)),
    PolicyGate("retrieval value", "RETRIEVE", ("retrieve", "rewrite"), (_WORTH,)),
    PolicyGate("novelty", "REWRITE first", ("rewrite",), _STALE),
    PolicyGate("abstain", "ABSTAIN", ("abstain",), _HOPELESS),
)
GATES: Mapping[str, PolicyGate] = {gate.name: gate for gate in _IN_ORDER}
"""All gates, in the order of the policy."""


@dataclass(frozen=True, slots=True)
class GateRate:
    """How often one gate fires on the visited states of one dataset, or of all."""

    states: int
    times: int
    """At how many states its condition holds."""
    share: Estimate
    decides: Estimate
    """The share of states at which the policy decided by it."""
    nearest: str
    """Its conditions at the state that comes nearest, or goes furthest beyond."""
    upper_bound: float | None
    """For a gate that never fired, the largest share of questions that is compatible with that at 95 %."""


def measure_gate(states: StateTable, gate: PolicyGate, thresholds: Thresholds, dataset: str | None = None) -> GateRate:
    """Measure how often one gate fires on the states of a dataset, or on all."""
    inside, holds = states.is_in(dataset), gate.holds(states, thresholds)
    times = int(holds[inside].sum())
    return GateRate(
        states=int(inside.sum()),
        times=times,
        share=states.mean(holds.astype(np.float64), dataset),
        decides=states.mean(states.column(lambda state: float(state.step.reason in gate.branches)), dataset),
        nearest=gate.nearest(states, thresholds, inside),
        upper_bound=None if times else 1 - _DOUBT ** (1 / states.count_questions(dataset)),
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
        scores = {
            "raw": states.column(lambda state: state.belief.sufficiency),
            "calibrated": states.column(_VALUES["answerability"]),
        }
        if have_same_order(scores["raw"], scores["calibrated"]):
            notes += ("Both scores put the states in the same order: their spreads differ by the scale alone.",)
        spreads = _measure_spreads(states, scores, thresholds.answer, datasets) if len(datasets) > 1 else {}
        scopes = (*datasets, None)
        gates = {(s, gate.name): measure_gate(states, gate, thresholds, s) for s in scopes for gate in _IN_ORDER}
        pooled = {name: each for (scope, name), each in gates.items() if scope is None}
        scales = _scores_table(states, scores, thresholds.answer, scopes)
        spread_rows = [{"of": what, "spread": spread} for what, spread in spreads.items()]
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(spreads, pooled)),
            numbers={
                "never_reached": [name for name, each in pooled.items() if not each.times],
                "always_reached": [name for name, each in pooled.items() if each.times == each.states],
            },
            tables=(
                scales,
                Table.of_records("spreads", "Largest minus smallest over the datasets", spread_rows),
                _gates_table(gates),
            ),
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
            draw=partial(_draw_thresholds, scales, gates),
            figure_size=(13.0, 4.9),
            caption="The median of both scores by dataset, the share of states below the answer threshold, and the "
            "share of visited states on which the condition of each gate holds. Lines are 95 % intervals.",
        )


def _measure_spreads(
    states: StateTable, scores: Mapping[str, Floats], threshold: float, datasets: tuple[str, ...]
) -> dict[str, Estimate]:
    middle, below = {}, {}
    for name, score in scores.items():
        share = (score < threshold).astype(np.float64)
        middle[name] = spread_over(medians(states, score, dataset) for dataset in datasets)
        below[name] = spread_over(states.means(share, dataset) for dataset in datasets)
    statistics = {f"medians, {name}": each for name, each in middle.items()}
    statistics["medians, calibrated minus raw"] = lambda weights: middle["calibrated"](weights) - middle["raw"](weights)
    statistics |= {f"quantile of the answer threshold, {name}": each for name, each in below.items()}
    return {what: states.estimate(statistic) for what, statistic in statistics.items()}


def _describe_findings(spreads: Mapping[str, Estimate], pooled: Mapping[str, GateRate]) -> Iterator[str]:
    if not spreads:
        yield "One dataset has no spread: how far thresholds transfer cannot be said from it."
    for what, spread in spreads.items():
        yield f"Spread over the datasets of the {what}: {format_cell(spread)}."
    shares = ", ".join(f"{name} {each.share.value:.1%}" for name, each in pooled.items())
    yield f"The condition of each gate holds on these shares of visited states: {shares}."
    for name, each in pooled.items():
        if not each.times:
            yield f"With evidence there, the {name} gate was never reached; nearest: {each.nearest}."
        elif each.times == each.states:
            yield f"The {name} gate's condition held at every visited state."


def _scores_table(
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


def _gates_table(gates: Mapping[tuple[str | None, str], GateRate]) -> Table:
    records = [
        {
            "dataset": scope or _ALL,
            "gate": name,
            "opens": GATES[name].opens,
            "states": each.states,
            "holds (share of states)": each.share,
            "decides (share of states)": each.decides,
            "nearest or furthest beyond": each.nearest,
            "at most (share of questions, 95 %)": each.upper_bound,
        }
        for (scope, name), each in gates.items()
    ]
    note = (
        "Holds: its condition is met, whatever comes before it in the policy. Decides: the policy decided by it. At "
        "most: the share of questions on which a gate that was never reached may still open."
    )
    return Table.of_records("gates", "How often each gate fires on visited states", records, note)


def _draw_thresholds(scales: Table, gates: Mapping[tuple[str | None, str], GateRate], figure: Figure) -> None:
    median_axes, below_axes, gate_axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
    label_axes(median_axes, "Where the score lies", y="median score")
    label_axes(below_axes, "Where the threshold cuts", y="share of visited states below it")
    for axes, what in ((median_axes, "median"), (below_axes, "below threshold")):
        names = [str(record["dataset"]) for record in scales.records[:-1]]
        series = {kind: [row[f"{kind} {what}"] for row in scales.records[:-1]] for kind in ("raw", "calibrated")}
        draw_bars(axes, names, series)
        axes.set_ylim(0, 1)
    label_axes(gate_axes, "Which gates' conditions hold", y="share of visited states")
    by_dataset = {scope or _ALL: [gates[scope, name].share for name in GATES] for scope, _ in gates}
    draw_bars(gate_axes, list(GATES), by_dataset)
