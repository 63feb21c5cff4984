"""Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached? (SPEC 10.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from beliefrag.method import Thresholds
from beliefrag.studies.need import NeededRun
from beliefrag.studies.page import in_words
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Column, Number, Result, Table, beside
from beliefrag.studies.study import Asked, Study
from beliefrag.studies.thresholds.figure import draw_thresholds
from beliefrag.studies.thresholds.gates import GATES
from beliefrag.studies.thresholds.reached import Reached, reached
from beliefrag.studies.thresholds.scales import Placed, Scale
from beliefrag.studies.visited import Visited

__all__ = ["THRESHOLDS"]

_METHOD = "beliefrag"
_LEAST = 2
"""Questions of a dataset: one says nothing about others."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class _Found:
    visited: Visited
    datasets: tuple[str, ...]
    raw: Mapping[str | None, Placed]
    calibrated: Mapping[str | None, Placed]
    """By dataset, and for all under None."""
    spreads: Mapping[str, Number]
    """Of raw and calibrated medians, of their difference, and of the quantiles; empty with a single dataset."""
    gates: tuple[Reached, ...]
    """By dataset, and pooled."""

    @property
    def pooled(self) -> list[Reached]:
        return [each for each in self.gates if each.dataset is None]


def _needs(asked: Asked) -> tuple[NeededRun, ...]:
    return (NeededRun("comparison", (_METHOD,)),)


def _work_out(recordings: Mapping[str, Recording], asked: Asked) -> Result:
    recording = recordings["comparison"]
    thresholds = Thresholds(**recording.run.thresholds)  # type: ignore[arg-type]
    trajectories = [
        t for t in recording.states_of(_METHOD) if all(state.answerability is not None for state in t.states)
    ]
    counts = {name: Visited(t for t in trajectories if t.dataset == name).count() for name in recording.datasets}
    datasets = tuple(name for name, count in counts.items() if count >= _LEAST)
    visited = Visited(t for t in trajectories if t.dataset in datasets)
    words = ", ".join(f"{counts[name]} of {name}" for name in datasets)
    many = f"{visited.count():,} questions ({words or 'none'})"
    n = f"{len(visited):,} visited states with evidence, of {many}; seed {recording.run.seed}."
    notes = _notes(recording, visited, counts)
    if not datasets:
        why = f"It needs BeliefRAG's states on at least {_LEAST} questions of a dataset, and there are fewer."
        return Result.too_little(why, n=n, notes=notes)
    found = _found(visited, datasets, thresholds)
    return Result(
        n=n,
        findings=tuple(_findings(found)),
        numbers=_numbers(found),
        tables=(_scales_table(found), *_spreads_table(found), _gates_table(found), _reach_table(found)),
        notes=notes,
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


def _found(visited: Visited, datasets: tuple[str, ...], thresholds: Thresholds) -> _Found:
    raw = Scale(visited, visited.column(lambda s: s.belief.sufficiency), thresholds.answer)
    calibrated = Scale(visited, visited.column(lambda s: s.answerability or 0.0), thresholds.answer)
    spreads: dict[str, Number] = {}
    if len(datasets) > 1:
        spreads = {
            "raw": raw.median_spread(datasets),
            "calibrated": calibrated.median_spread(datasets),
            "difference": visited.number(
                lambda w: calibrated.median_spreads(w, datasets) - raw.median_spreads(w, datasets)
            ),
            "raw_below_threshold": raw.below_spread(datasets),
            "calibrated_below_threshold": calibrated.below_spread(datasets),
        }
    places: Sequence[str | None] = (*datasets, None)
    gates = tuple(reached(visited, gate, thresholds, place) for place in places for gate in GATES.values())
    rows = [{place: scale.placed(place) for place in places} for scale in (raw, calibrated)]
    return _Found(visited, datasets, rows[0], rows[1], spreads, gates)


def _notes(recording: Recording, visited: Visited, counts: Mapping[str, int]) -> tuple[str, ...]:
    bare = f"{visited.without_evidence:,} further states had no evidence, mostly those before the first search"
    notes = [f"{bare}: their values are constants of the method, and they are in no number here."]
    if small := [name for name, count in counts.items() if count < _LEAST]:
        notes.append(f"Left out, with fewer than {_LEAST} questions: {', '.join(small)}.")
    if sentence := recording.lacking(_METHOD):
        notes.append(sentence)
    notes.append("A spread of medians cannot be below 0: with few questions chance alone makes one, in both scores.")
    return tuple(notes)


def _findings(found: _Found) -> Iterator[str]:
    if spreads := found.spreads:
        yield (
            f"The datasets' medians lie {in_words(spreads['raw'])} apart with the raw score and "
            f"{in_words(spreads['calibrated'])} with the calibrated one; calibration changes that by "
            f"{in_words(spreads['difference'])}."
        )
        yield (
            "The quantile at which the answer threshold falls differs between datasets by "
            f"{in_words(spreads['raw_below_threshold'])} with the raw score and "
            f"{in_words(spreads['calibrated_below_threshold'])} with the calibrated one."
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


def _pooled(found: _Found, gate: str) -> Reached:
    return next(each for each in found.pooled if each.gate.name == gate)


def _scales_table(found: _Found) -> Table:
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
            name or ALL,
            found.visited.count(name),
            int(found.visited.inside(name).sum()),
            found.raw[name].median,
            found.calibrated[name].median,
            found.raw[name].below,
            found.calibrated[name].below,
        )
        for name in (*found.datasets, None)
    )
    note = "Raw is the belief's sufficiency, calibrated the fitted answerability; the threshold is that of answering."
    return Table("scales", "Answerability by dataset", columns, rows, note)


def _spreads_table(found: _Found) -> Iterator[Table]:
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


def _gates_table(found: _Found) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("opens"),
        Column("states"),
        Column("holds", "share of states", bounded=True),
        Column("decides", "share of states", bounded=True),
    )
    rows = tuple(
        (each.dataset or ALL, each.gate.name, each.gate.opens, each.states, each.share, each.decides)
        for each in found.gates
    )
    note = (
        "Holds: its condition is met, whatever comes before it in the policy. Decides: the policy decided by it. No "
        "interval where all states are alike."
    )
    return Table("gates", "How often each gate fires on visited states", columns, rows, note)


def _reach_table(found: _Found) -> Table:
    columns = (
        Column("dataset"),
        Column("gate"),
        Column("reached"),
        Column("nearest or furthest beyond"),
        Column("at most", "share of questions, 95 %", digits=3),
    )
    rows = tuple(
        (
            each.dataset or ALL,
            each.gate.name,
            "never" if each.never else "always" if each.always else f"at {each.times} of {each.states} states",
            "; ".join(map(str, each.nearest)),
            each.at_most,
        )
        for each in found.gates
    )
    note = (
        "For a gate that was never reached, the last column bounds the share of questions on which it would be: with a "
        "larger one, seeing none among so many would happen less than once in twenty times."
    )
    return Table("reachability", "Which gates can be reached", columns, rows, note)


def _numbers(found: _Found) -> dict[str, object]:
    return {
        "datasets": {
            name or ALL: {
                "questions": found.visited.count(name),
                "states": int(found.visited.inside(name).sum()),
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
                "dataset": each.dataset or ALL,
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


THRESHOLDS = Study(
    name="thresholds",
    title="What thresholds mean",
    question="Do thresholds keep the same meaning from one dataset to the next, and is each gate ever reached?",
    protocol=(
        "The states are those that BeliefRAG visited with its own thresholds; nothing is asked again.",
        "Raw answerability is the belief's sufficiency, calibrated answerability what the run's calibration gave.",
        "The spread is the largest minus the smallest of the datasets' medians. It depends on the scale of the score.",
        "The quantile at which the answer threshold falls is the share of states below it, whatever the scale.",
        "A gate fires on a state if its condition is met there, as in the paper.",
        "Gates that come first hide later ones: a second column has how often the policy really decided by each.",
        "States count alike, as in the paper; intervals resample questions within each dataset, 2,000 times.",
    ),
    needs=_needs,
    work_out=_work_out,
)
