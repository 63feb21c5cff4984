"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from beliefrag.policy import Thresholds
from beliefrag.report.figure import MARKERS, draw_interval, shorten
from beliefrag.report.table import Column, Table, format_cell
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import State
from beliefrag.runs.statistics import Estimate, Floats
from beliefrag.studies.state_table import StateTable, have_same_order
from beliefrag.studies.study import STUDIES, Recording, RequiredRun, StudyContext, StudyResult, compare_with_paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GATES",
    "GateCondition",
    "GateRate",
    "PolicyGate",
    "ScoreOnStates",
    "ScorePosition",
    "ThresholdsStudy",
    "measure_gate",
    "weighted_quantile",
]

_DOUBT = 0.05


@dataclass(frozen=True, slots=True)
class GateCondition:
    """One comparison of a gate at one state."""

    what: str
    value: float
    relation: Literal["at least", "below", "above"]
    threshold: float

    @property
    def margin(self) -> float:
        """How far the value is beyond its threshold; below 0 where the comparison fails."""
        return self.threshold - self.value if self.relation == "below" else self.value - self.threshold

    @property
    def holds(self) -> bool:
        """Whether the comparison is true, as the policy compares."""
        return self.margin >= 0 if self.relation == "at least" else self.margin > 0

    def __str__(self) -> str:
        return f"{self.what} {self.value:.3g} (needs {self.relation} {self.threshold:g})"


@dataclass(frozen=True, slots=True)
class PolicyGate:
    """One gate of the branch policy: it opens where all its conditions hold."""

    name: str
    opens: str
    """What follows when it decides."""
    branches: tuple[str, ...]
    """The branches of the policy that it decides by."""
    conditions: Callable[[State, Thresholds], tuple[GateCondition, ...]]

    def holds(self, state: State, thresholds: Thresholds) -> bool:
        """Return whether its conditions are met, whatever gate comes before it and whatever is legal."""
        return all(condition.holds for condition in self.conditions(state, thresholds))

    def decides(self, state: State) -> bool:
        """Return whether the policy decided by this gate."""
        return state.branch in self.branches

    def nearest(self, states: Iterable[State], thresholds: Thresholds) -> tuple[GateCondition, ...]:
        """Return the conditions at the state that comes nearest: where the one that fails most fails least."""
        return max(
            (self.conditions(state, thresholds) for state in states),
            key=lambda found: min(condition.margin for condition in found),
        )


def _require(value: float | None) -> float:
    if value is None:
        raise ValueError("a state without the run's own probabilities says nothing about its gates")
    return value


def _answer_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("answerability", _require(s.answerability), "at least", t.answer),
        GateCondition("conflict", s.belief.conflict, "below", t.conflict),
    )


def _novelty_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("novelty", s.diagnostics.novelty, "below", t.novelty),
        GateCondition("searches made", float(s.rounds), "at least", 1.0),
    )


def _abstain_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("sufficiency", s.belief.sufficiency, "below", t.abstain_sufficiency),
        GateCondition("uncertainty", s.belief.uncertainty, "above", t.abstain_uncertainty),
        GateCondition("answerability", _require(s.answerability), "below", t.abstain_answerability),
    )


_IN_ORDER = (
    PolicyGate("answer", "ANSWER", ("answer",), _answer_conditions),
    PolicyGate(
        "conflict",
        "a correction",
        ("correct-conflict",),
        lambda s, t: (GateCondition("conflict", s.belief.conflict, "at least", t.conflict),),
    ),
    PolicyGate(
        "reliability",
        "a correction",
        ("correct-unreliable",),
        lambda s, t: (GateCondition("reliability", s.belief.reliability, "below", t.reliability),),
    ),
    PolicyGate(
        "flagged",
        "a correction",
        ("correct-flagged",),
        lambda s, t: (GateCondition("flagged passages", float(s.flagged), "at least", 1.0),),
    ),
    PolicyGate(
        "retrieval value",
        "RETRIEVE",
        ("retrieve", "rewrite"),
        lambda s, t: (GateCondition("retrieval value", _require(s.retrieval_value), "at least", t.retrieval_value),),
    ),
    PolicyGate("novelty", "REWRITE first", ("rewrite",), _novelty_conditions),
    PolicyGate("abstain", "ABSTAIN", ("abstain",), _abstain_conditions),
)
GATES: Mapping[str, PolicyGate] = {gate.name: gate for gate in _IN_ORDER}
"""All gates, in the order in which a reader meets them."""


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
    nearest: tuple[GateCondition, ...]
    """Its conditions at the state that comes nearest, or goes furthest beyond."""

    @property
    def never(self) -> bool:
        """Whether its condition holds nowhere."""
        return self.times == 0

    @property
    def always(self) -> bool:
        """Whether its condition holds everywhere."""
        return self.times == self.states

    @property
    def upper_bound(self) -> float | None:
        """Gives, for a gate that never fired, the largest share of questions for which that is still likely enough.

        With a larger share, none among so many questions would be seen less than one time in twenty.
        """
        return 1 - _DOUBT ** (1 / self.questions) if self.never else None


def measure_gate(states: StateTable, gate: PolicyGate, thresholds: Thresholds, dataset: str | None = None) -> GateRate:
    """Measure how often one gate fires on the states of a dataset, or on all."""
    inside = states.is_in(dataset)
    holds = states.column(lambda state: float(gate.holds(state, thresholds)))
    decides = states.column(lambda state: float(gate.decides(state)))
    own = [state for state, here in zip(states.states, inside, strict=True) if here]
    return GateRate(
        gate=gate,
        dataset=dataset,
        states=len(own),
        questions=states.count_questions(dataset),
        times=int(holds[inside].sum()),
        share=states.mean(holds, dataset),
        decides=states.mean(decides, dataset),
        nearest=gate.nearest(own, thresholds),
    )


_METHOD = "beliefrag"
_ALL = "all"
"""Stands in the place of a dataset for the states of all."""
_MIN_QUESTIONS = 2
"""Questions that a dataset must have: one question says nothing about others."""
_SAME_ORDER_NOTE = (
    "The run's calibration makes answerability a rising function of the raw score: both put the states in the same "
    "order. That medians or shares lie closer or further apart comes of the scale alone."
)


@STUDIES.register(
    "thresholds",
    title="What thresholds mean",
    summary="Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?",
)
@dataclass(frozen=True, slots=True)
class ThresholdsStudy:
    """Looks at scores and gates on the states that BeliefRAG visited."""

    protocol: ClassVar[tuple[str, ...]] = (
        "The states are those that BeliefRAG visited with its own thresholds; nothing is asked again.",
        "Raw answerability is the belief's sufficiency, calibrated answerability what the run's calibration gave.",
        "The spread is the largest minus the smallest of the datasets' medians. It depends on the scale of the score.",
        "The quantile at which the answer threshold falls is the share of states below it; the scale shapes it too.",
        "A gate fires on a state if its condition is met there, as in the paper.",
        "Gates that come first hide later ones: a second column has how often the policy really decided by each.",
        "States count alike, as in the paper; intervals resample questions within each dataset, 2,000 times.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the run that methods are compared in."""
        return (RequiredRun("comparison", (_METHOD,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out where scores lie in each dataset, and how often each gate fires."""
        recording = recordings["comparison"]
        thresholds = thresholds_of(recording.run)
        trajectories = [
            t for t in recording.trajectories_of(_METHOD) if all(state.answerability is not None for state in t.states)
        ]
        counts = {
            name: StateTable(t for t in trajectories if t.dataset == name).count_questions()
            for name in recording.datasets
        }
        datasets = tuple(name for name, count in counts.items() if count >= _MIN_QUESTIONS)
        states = StateTable(t for t in trajectories if t.dataset in datasets)
        words = ", ".join(f"{counts[name]} of {name}" for name in datasets)
        questions = f"{states.count_questions():,} questions ({words or 'none'})"
        sample = f"{len(states):,} visited states with evidence, of {questions}; seed {recording.run.seed}."
        notes = _write_notes(recording, states, counts)
        if not datasets:
            why = (
                f"It needs BeliefRAG's states on at least {_MIN_QUESTIONS} questions of a dataset, and there are fewer."
            )
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        found = _measure(states, datasets, thresholds)
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(found)),
            numbers=_collect_numbers(found),
            tables=tuple(_make_tables(found)),
            notes=(*notes, _SAME_ORDER_NOTE) if found.same_order else notes,
            paper_values=compare_with_paper(
                {
                    "spread_raw": found.spreads.get("raw"),
                    "spread_calibrated": found.spreads.get("calibrated"),
                    "gate_answer": next(each.share for each in found.pooled if each.gate.name == "answer"),
                    "gate_conflict_ordinary": next(each.share for each in found.pooled if each.gate.name == "conflict"),
                }
            ),
            paper_note="Theirs are over six datasets with gpt-oss-120b. Their raw score is not described; here it is "
            "the belief's sufficiency. They see the conflict gate fire on 72 % of counterfactual evidence, which is "
            "not among these questions.",
            draw=partial(_draw_thresholds, found, thresholds.answer),
            figure_size=(12.0, 4.9),
            caption="Left: the middle half of visited states by dataset, with their median. Middle: the share of "
            "states below the answer threshold. Right: on which share of visited states the condition of each gate "
            "holds.",
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
class ScorePosition:
    """Where a score lies in one dataset, or in all."""

    median: Estimate
    middle_half: tuple[float, float, float]
    """First quartile, median and third quartile."""
    below: Estimate
    """The quantile at which the threshold falls: the share of states below it."""


@dataclass(frozen=True, slots=True)
class ScoreOnStates:
    """One score on visited states, seen by dataset."""

    states: StateTable
    values: Floats
    """The score at each state."""
    threshold: float
    """Where a gate cuts it."""

    def position(self, dataset: str | None = None) -> ScorePosition:
        """Return where the score lies in a dataset, or in all."""
        ones = np.ones((1, len(self.values)))
        low, middle, high = (float(self._quantiles(ones, dataset, q)[0]) for q in (0.25, 0.5, 0.75))
        return ScorePosition(
            median=self.states.estimate(lambda weights: self._quantiles(weights, dataset), dataset),
            middle_half=(low, middle, high),
            below=self.states.estimate(lambda weights: self._shares_below(weights, dataset), dataset),
        )

    def median_spread(self, datasets: Sequence[str]) -> Estimate:
        """Return the distance between the largest and the smallest median."""
        return self.states.estimate(lambda weights: self.median_spreads(weights, datasets))

    def median_spreads(self, weights: Floats, datasets: Sequence[str]) -> Floats:
        """Return the same for each row of weights."""
        return _spread([self._quantiles(weights, dataset) for dataset in datasets])

    def below_spread(self, datasets: Sequence[str]) -> Estimate:
        """Return the distance between the highest and the lowest quantile at which the threshold falls."""
        return self.states.estimate(lambda weights: _spread([self._shares_below(weights, name) for name in datasets]))

    def _quantiles(self, weights: Floats, dataset: str | None, q: float = 0.5) -> Floats:
        inside = self.states.is_in(dataset)
        return weighted_quantile(self.values[inside], weights[:, inside], q)

    def _shares_below(self, weights: Floats, dataset: str | None) -> Floats:
        inside = self.states.is_in(dataset)
        own = weights[:, inside]
        return np.asarray(own @ (self.values[inside] < self.threshold) / own.sum(axis=1))


def _spread(columns: Sequence[Floats]) -> Floats:
    matrix = np.stack(columns)
    return np.asarray(matrix.max(axis=0) - matrix.min(axis=0))


@dataclass(frozen=True, slots=True)
class _Measured:
    """All numbers of the study."""

    states: StateTable
    datasets: tuple[str, ...]
    raw: Mapping[str | None, ScorePosition]
    calibrated: Mapping[str | None, ScorePosition]
    """Positions by dataset, and for all datasets under None."""
    spreads: Mapping[str, Estimate]
    """The spread of raw and calibrated medians, of their difference, and of the quantiles; empty with one dataset."""
    gates: tuple[GateRate, ...]
    """Gate rates by dataset, and for all datasets together."""
    same_order: bool
    """Whether raw and calibrated scores differ in their scale alone."""

    @property
    def pooled(self) -> list[GateRate]:
        """The gates on the states of all datasets."""
        return [each for each in self.gates if each.dataset is None]


def _measure(states: StateTable, datasets: tuple[str, ...], thresholds: Thresholds) -> _Measured:
    scores = states.column(lambda s: s.belief.sufficiency), states.column(lambda s: s.answerability or 0.0)
    raw, calibrated = (ScoreOnStates(states, score, thresholds.answer) for score in scores)
    spreads: dict[str, Estimate] = {}
    if len(datasets) > 1:
        spreads = {
            "raw": raw.median_spread(datasets),
            "calibrated": calibrated.median_spread(datasets),
            "difference": states.estimate(
                lambda w: calibrated.median_spreads(w, datasets) - raw.median_spreads(w, datasets)
            ),
            "raw_below_threshold": raw.below_spread(datasets),
            "calibrated_below_threshold": calibrated.below_spread(datasets),
        }
    scopes: Sequence[str | None] = (*datasets, None)
    gates = tuple(measure_gate(states, gate, thresholds, scope) for scope in scopes for gate in GATES.values())
    positions = [{scope: score.position(scope) for scope in scopes} for score in (raw, calibrated)]
    return _Measured(states, datasets, positions[0], positions[1], spreads, gates, have_same_order(*scores))


def _write_notes(recording: Recording, states: StateTable, counts: Mapping[str, int]) -> tuple[str, ...]:
    bare = f"{states.without_evidence:,} further states had no evidence, mostly those before the first search"
    notes = [f"{bare}: their values are constants of the method, and they are in no number here."]
    if small := [name for name, count in counts.items() if count < _MIN_QUESTIONS]:
        notes.append(f"Left out, with fewer than {_MIN_QUESTIONS} questions: {', '.join(small)}.")
    if sentence := recording.describe_missing(_METHOD):
        notes.append(sentence)
    notes.append("A spread of medians cannot be below 0: with few questions chance alone makes one, in both scores.")
    return tuple(notes)


def _describe_findings(found: _Measured) -> Iterator[str]:
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


def _make_tables(found: _Measured) -> Iterator[Table]:
    yield _scores_table(found)
    yield from _spreads_table(found)
    yield _gates_table(found)
    yield _reachability_table(found)


def _scores_table(found: _Measured) -> Table:
    columns = (
        Column("dataset"),
        Column("questions"),
        Column("states"),
        Column("raw median", bounded=True),
        Column("calibrated median", bounded=True),
        Column("raw below threshold", "share of states", bounded=True),
        Column("calibrated below threshold", "share of states", bounded=True),
    )
    rows = tuple(
        (
            name or _ALL,
            found.states.count_questions(name),
            int(found.states.is_in(name).sum()),
            found.raw[name].median,
            found.calibrated[name].median,
            found.raw[name].below,
            found.calibrated[name].below,
        )
        for name in (*found.datasets, None)
    )
    note = "Raw is the belief's sufficiency, calibrated the fitted answerability; the threshold is that of answering."
    return Table("scales", "Answerability by dataset", columns, rows, note)


def _spreads_table(found: _Measured) -> Iterator[Table]:
    words = {
        "raw": "medians, raw",
        "calibrated": "medians, calibrated",
        "difference": "medians, calibrated minus raw",
        "raw_below_threshold": "quantile of the answer threshold, raw",
        "calibrated_below_threshold": "quantile of the answer threshold, calibrated",
    }
    if found.spreads:
        rows = tuple((words[name], number) for name, number in found.spreads.items())
        columns = (Column("of"), Column("spread", bounded=True))
        yield Table("spreads", "Largest minus smallest over the datasets", columns, rows)


def _gates_table(found: _Measured) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("opens"),
        Column("states"),
        Column("holds", "share of states", bounded=True),
        Column("decides", "share of states", bounded=True),
    )
    rows = tuple(
        (each.dataset or _ALL, each.gate.name, each.gate.opens, each.states, each.share, each.decides)
        for each in found.gates
    )
    note = (
        "Holds: its condition is met, whatever comes before it in the policy. Decides: the policy decided by it. No "
        "interval where all states are alike."
    )
    return Table("gates", "How often each gate fires on visited states", columns, rows, note)


def _reachability_table(found: _Measured) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("reached"),
        Column("nearest or furthest beyond"),
        Column("at most", "share of questions, 95 %", digits=3),
    )
    rows = tuple(
        (
            each.dataset or _ALL,
            each.gate.name,
            "never" if each.never else "always" if each.always else f"at {each.times} of {each.states} states",
            "; ".join(map(str, each.nearest)),
            each.upper_bound,
        )
        for each in found.gates
    )
    note = (
        "For a gate that was never reached, the last column bounds the share of questions on which it would be: with a "
        "larger one, seeing none among so many would happen less than once in twenty times."
    )
    return Table("reachability", "Which gates can be reached", columns, rows, note)


def _collect_numbers(found: _Measured) -> dict[str, object]:
    return {
        "datasets": {
            name or _ALL: {
                "questions": found.states.count_questions(name),
                "states": int(found.states.is_in(name).sum()),
                "raw_median": found.raw[name].median,
                "calibrated_median": found.calibrated[name].median,
                "raw_below_threshold": found.raw[name].below,
                "calibrated_below_threshold": found.calibrated[name].below,
            }
            for name in (*found.datasets, None)
        },
        "spreads": dict(found.spreads),
        "gates": [
            {
                "dataset": each.dataset or _ALL,
                "gate": each.gate.name,
                "states": each.states,
                "times": each.times,
                "holds": each.share,
                "decides": each.decides,
                "nearest": [
                    {"what": c.what, "value": c.value, "needs": c.relation, "threshold": c.threshold}
                    for c in each.nearest
                ],
            }
            for each in found.gates
        ],
        "never_reached": [each.gate.name for each in found.pooled if each.never],
        "always_reached": [each.gate.name for each in found.pooled if each.always],
    }


_RAW: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "color": "0.45"}
_CALIBRATED: dict[str, Any] = {"marker": "s", "markerfacecolor": "0.55", "markeredgecolor": "black", "color": "0.45"}


def _draw_thresholds(found: _Measured, threshold: float, figure: Figure) -> None:
    """Draw scores, thresholds and gates in three panels; nothing in it needs colour."""
    position_axes, below_axes, gate_axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    names = [shorten(name, 18) for name in found.datasets]
    for axes in (position_axes, below_axes):
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="x", color="0.92")
        axes.set_axisbelow(True)
    for place, name in enumerate(found.datasets):
        for y, position, style in (
            (place - 0.17, found.raw[name], _RAW),
            (place + 0.17, found.calibrated[name], _CALIBRATED),
        ):
            low, middle, high = position.middle_half
            fill = {"height": 0.26, "color": style["markerfacecolor"], "edgecolor": "black"}
            position_axes.barh(y, high - low, left=low, **fill)
            position_axes.plot([middle, middle], [y - 0.13, y + 0.13], color="black", linewidth=2.4)
            draw_interval(below_axes, position.below, y, "0.45", upright=False, linewidth=1.4, zorder=2)
            below_axes.plot([position.below.value], [y], linestyle="", markersize=7, **style)
    position_axes.axvline(threshold, color="black", linestyle=":", linewidth=1.2)
    position_axes.set_title("Where the score lies", fontsize=11)
    position_axes.set_xlabel(
        f"score at visited states (dots: answer from {threshold:g} on)\nbox: middle half; line: median"
    )
    below_axes.set_title("Where the threshold cuts", fontsize=11)
    below_axes.set_xlabel("share of visited states below the answer threshold\n(bars: 95 % intervals)")
    below_axes.plot([], [], linestyle="", label="raw: sufficiency of the belief", **_RAW)
    below_axes.plot([], [], linestyle="", label="calibrated answerability", **_CALIBRATED)
    below_axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False, ncols=1)
    _draw_gates(gate_axes, found)


def _draw_gates(axes: Axes, found: _Measured) -> None:
    rows = {name: place for place, name in enumerate(GATES)}
    for each in found.pooled:
        y = rows[each.gate.name]
        axes.barh(y, each.share.value, height=0.62, color="0.85", edgecolor="0.4")
        draw_interval(axes, each.share, y, "black", upright=False, linewidth=1.4, zorder=2)
        axes.text(1.04, y, "never" if each.never else f"{each.share.value:.0%}", va="center", fontsize=9)
    several = found.datasets if len(found.datasets) > 1 else ()
    for place, name in enumerate(several):
        own = [each for each in found.gates if each.dataset == name]
        axes.plot(
            [each.share.value for each in own],
            [rows[each.gate.name] + 0.2 * (place - (len(several) - 1) / 2) for each in own],
            MARKERS[place % len(MARKERS)],
            markersize=5,
            markerfacecolor="white",
            markeredgecolor="black",
            label=shorten(name, 18),
        )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.24)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_title("Which gates' conditions hold", fontsize=11)
    axes.set_xlabel("share of visited states where it holds\n(bar: all datasets; line: 95 % interval)")
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)
    if several:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False, ncols=2)
