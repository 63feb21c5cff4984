"""Which parts create the gain: BeliefRAG with parts of its correction left out, and with answerability exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from beliefrag.bench.published import published_figures
from beliefrag.bench.statistics import Difference
from beliefrag.fitting.states import Trajectory
from beliefrag.studies.arms import ACCURACY, MEASURES, Arms, unlike
from beliefrag.studies.mechanism.figure import draw_mechanism
from beliefrag.studies.mechanism.variants import (
    ABLATIONS,
    FULL,
    INTERVENTIONS,
    LIVE,
    METHOD,
    STUDIED,
    THRESHOLD,
    Variant,
)
from beliefrag.studies.need import NeededRun
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Beside, Cell, Column, Number, Result, Table, beside
from beliefrag.studies.study import Asked, Study
from beliefrag.types import Action

__all__ = ["MECHANISM"]

_DIGITS = {ACCURACY: 3, "f1": 3, "rounds": 2, "tokens": 0}


def _needs(asked: Asked) -> tuple[NeededRun, ...]:
    return tuple(variant.run for variant in (*ABLATIONS, *INTERVENTIONS))


def _work_out(recordings: Mapping[str, Recording], asked: Asked) -> Result:
    groups = {"ablations": ABLATIONS, "interventions": INTERVENTIONS}
    n = "; ".join(f"{name}: {_counted(recordings, group)}" for name, group in groups.items())
    for group in groups.values():
        for variant in group[1:]:
            one, other = (recordings[each.run.name].run for each in (group[0], variant))
            if what := unlike(one, other, studied=STUDIED if group is ABLATIONS else frozenset()):
                return Result.too_little(
                    f"The runs of {group[0].name!r} and {variant.name!r} differ in the {what} too: what comes of the "
                    "part that is studied cannot be told. Make both with the same settings.",
                    n=n,
                )
    arms = {
        name: Arms.of({variant.name: recordings[variant.run.name] for variant in group}, METHOD, asked.label)
        for name, group in groups.items()
    }
    if not all(each.datasets for each in arms.values()):
        return Result.too_little(
            "Every variant must have finished at least two questions of one dataset, and the same ones.", n=n
        )
    changed = {name: _changed(recordings, group, arms[name]) for name, group in groups.items()}
    return Result(
        n=_n(arms),
        findings=tuple(_findings(arms, changed)),
        numbers=_numbers(arms, changed),
        tables=tuple(
            table for name, each in arms.items() for table in (_table(name, each), _differences(name, each, changed))
        ),
        notes=tuple(_notes(arms, recordings, asked)),
        published=_published(arms),
        published_note="Theirs is the accuracy by an LLM judge on 100 questions of each of HotpotQA, 2WikiMultiHopQA "
        f"and MuSiQue with gpt-oss-120b; ours is by {asked.label} with another model.",
        draw=partial(draw_mechanism, _bars(arms)),
        figure_size=(11.0, 4.2),
        caption="Accuracy with parts of the correction left out, and accuracy and searches with answerability "
        f"exchanged (answers from {THRESHOLD:g} on). Bars: means; lines: 95 % intervals; diamonds: the paper's values.",
    )


def _counted(recordings: Mapping[str, Recording], group: Sequence[Variant]) -> str:
    return ", ".join(f"{v.name} {len(recordings[v.run.name].of(METHOD)):,} episodes" for v in group)


def _changed(recordings: Mapping[str, Recording], group: Sequence[Variant], arms: Arms) -> dict[str, float]:
    """The share of compared questions on which a variant takes another way than the first one."""
    ways = {variant.name: _ways(recordings[variant.run.name].states_of(METHOD)) for variant in group}
    first = ways[group[0].name]
    asked = [(name, key) for name in arms.datasets for key in arms.values[group[0].name][name][ACCURACY]]
    return {
        variant.name: sum(ways[variant.name].get(key) != first.get(key) for key in asked) / len(asked)
        for variant in group[1:]
    }


def _ways(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[Action, ...]]:
    return {(t.dataset, t.question_id): tuple(state.action for state in t.states) for t in trajectories}


def _n(arms: Mapping[str, Arms]) -> str:
    words = []
    for name, each in arms.items():
        counts = ", ".join(f"{count} of {dataset}" for dataset, count in each.questions.items())
        words.append(
            f"{name}: {sum(each.questions.values()):,} questions ({counts}), each by {len(each.values)} variants"
        )
    return "; ".join(words) + "."


def _findings(arms: Mapping[str, Arms], changed: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for name, each in arms.items():
        first = FULL.name if name == "ablations" else LIVE.name
        for arm in list(each.values)[1:]:
            found = each.against(arm, first, each.places[0]).measures
            accuracy, rounds = found[ACCURACY], found["rounds"]
            doubt = "" if accuracy.is_clear else "; the difference in accuracy is not clear"
            yield (
                f"{arm.capitalize()} against {first}: accuracy {_gap(accuracy, '+.3f')}, searches "
                f"{_gap(rounds, '+.2f')}; it goes another way on {changed[name][arm]:.0%} of the questions{doubt}."
            )


def _gap(found: Difference, form: str) -> str:
    each = found.difference
    if each.low is None or each.high is None:
        return f"{each.mean:{form}}"
    return f"{each.mean:{form}} ({each.low:{form}} to {each.high:{form}})"


def _table(name: str, arms: Arms) -> Table:
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy", bounded=True),
        Column("F1", bounded=True),
        Column("searches", "per question", digits=2, bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (place, arm, *(arms.number(arm, place, measure) for measure in MEASURES))
        for place in arms.places
        for arm in arms.values
    )
    return Table(name, f"{name.capitalize()}: what each variant came to", columns, rows)


def _differences(name: str, arms: Arms, changed: Mapping[str, Mapping[str, float]]) -> Table:
    first, *others = arms.values
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy difference", bounded=True),
        Column("F1 difference", bounded=True),
        Column("searches difference", "per question", digits=2, bounded=True),
        Column("tokens difference", "per question", digits=0, bounded=True),
        Column("another way", "share of all questions", digits=2),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            place,
            arm,
            *(Number.of(arms.against(arm, first, place).measures[m].difference) for m in MEASURES),
            changed[name][arm] if place == arms.places[0] else None,
        )
        for place in arms.places
        for arm in others
    )
    title = f"{name.capitalize()}: each variant minus {first!r}, on the same questions"
    note = "10,000 paired resamples. Another way: the actions are not those of the first variant."
    return Table(f"{name}_differences", title, columns, rows, note)


def _numbers(arms: Mapping[str, Arms], changed: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        name: {
            "questions": dict(each.questions),
            "means": {
                place: {arm: {m: each.number(arm, place, m) for m in MEASURES} for arm in each.values}
                for place in each.places
            },
            "differences": {
                place: {
                    arm: {m: Number.of(d.difference) for m, d in each.against(arm, first, place).measures.items()}
                    for arm in others
                }
                for place in each.places
            },
            "another_way": dict(changed[name]),
        }
        for name, each in arms.items()
        for first, *others in [list(each.values)]
    }


def _notes(arms: Mapping[str, Arms], recordings: Mapping[str, Recording], asked: Asked) -> Iterator[str]:
    yield f"An answer is right by {asked.label}; an abstention is not."
    for each in arms.values():
        yield from each.notes()
    for name, recording in recordings.items():
        if sentence := recording.lacking(METHOD):
            yield f"Run {name}: {sentence}"


def _published(arms: Mapping[str, Arms]) -> tuple[Beside, ...]:
    ours: dict[str, Number | None] = {}
    for name, group in (("ablations", ABLATIONS), ("interventions", INTERVENTIONS)):
        for variant in group:
            for measure, key in variant.published.items():
                ours[key] = arms[name].number(variant.name, arms[name].places[0], measure)
    return beside(ours)


def _bars(arms: Mapping[str, Arms]) -> dict[str, list[tuple[str, Number, float]]]:
    """What the three panels show: variant, our number, the paper's value."""
    return {
        "ablations": _bar(arms["ablations"], ABLATIONS, ACCURACY),
        "interventions": _bar(arms["interventions"], INTERVENTIONS, ACCURACY),
        "rounds": _bar(arms["interventions"], INTERVENTIONS, "rounds"),
    }


def _bar(arms: Arms, group: Sequence[Variant], measure: str) -> list[tuple[str, Number, float]]:
    theirs, place = published_figures(), arms.places[0]
    return [(v.name, arms.number(v.name, place, measure), theirs[v.published[measure]].value) for v in group]


MECHANISM = Study(
    name="mechanism",
    title="Which parts create the gain",
    question="What is lost when parts of the correction are left out, or when the live answerability is taken away?",
    protocol=(
        "BeliefRAG is run with its defaults and with one part changed at a time, on the same multi-hop questions.",
        "Model, corpus, prompts and budget are the same throughout, and differences are paired.",
        "No correction: conflict, low reliability and flagged passages start nothing.",
        "No verification: a correction rewrites and searches, but VERIFY is left out and nothing is dropped.",
        "Prune only: VERIFY drops passages, and no search replaces them.",
        "The ablated corrections start at the states at which the whole one does.",
        "The paper only names its ablations. 'No verification' is read here as: without the action VERIFY.",
        "Without any verifier at all the answer gate would have nothing to read, and every episode would end alike.",
        f"Interventions answer from {THRESHOLD:g} on, as in the paper, and change no more than the number compared.",
        "Permuted: at each state the answerability of another question's state in the live run, drawn by a seed.",
        "Such a state is matched: same dataset, as many searches made.",
        "Frozen: the answerability of the episode's first state with evidence, throughout.",
        "Before there is evidence answerability is a constant of the calibration, and is left alone.",
        "Accuracy is the share of right answers. Means over datasets are simple; questions are resampled within each.",
    ),
    needs=_needs,
    work_out=_work_out,
)
