"""Which parts create the gain: BeliefRAG with parts of its correction left out, and with answerability exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from beliefrag.policy import Thresholds
from beliefrag.report.published import published_numbers
from beliefrag.report.table import format_number
from beliefrag.runs.states import Trajectory
from beliefrag.runs.statistics import Estimate, PairedComparison
from beliefrag.studies.mechanism.figure import draw_mechanism
from beliefrag.studies.mechanism.variants import (
    ABLATIONS,
    INTERVENTIONS,
    METHOD,
    STUDIED,
    THRESHOLD,
    Variant,
)
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Beside, CellValue, Column, Result, Table, beside
from beliefrag.studies.study import Study, StudyOptions
from beliefrag.studies.variants import ACCURACY, MEASURES, Variants, unlike
from beliefrag.types import Action

__all__ = ["MECHANISM"]


@dataclass(frozen=True, slots=True)
class _Group:
    """Variants that are held against the first of them."""

    name: str
    variants: tuple[Variant, ...]
    arms: Variants
    pairs: Mapping[tuple[str, str], PairedComparison]
    """By place and variant: the variant minus the first one."""
    another_way: Mapping[str, float]
    """The share of the compared questions on which a variant does not act as the first one does."""

    @property
    def first(self) -> str:
        return self.variants[0].name

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(variant.name for variant in self.variants[1:])

    def difference(self, place: str, arm: str, measure: str) -> Estimate:
        return self.pairs[place, arm].measures[measure].difference.without_flat_interval()


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    return tuple(variant.run for variant in (*ABLATIONS, *INTERVENTIONS))


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    variants = {"ablations": ABLATIONS, "interventions": INTERVENTIONS}
    n = "; ".join(f"{name}: {_counted(recordings, group)}" for name, group in variants.items())
    if why := _unlike(recordings):
        return Result.too_little(why, n=n)
    arms = {
        name: Variants.of({variant.name: recordings[variant.run.name] for variant in group}, METHOD, asked.label)
        for name, group in variants.items()
    }
    if not all(each.datasets for each in arms.values()):
        return Result.too_little(
            "Every variant must have finished at least two questions of one dataset, and the same ones.", n=n
        )
    groups = [_group(name, variants[name], each, recordings) for name, each in arms.items()]
    return Result(
        n=_n(arms),
        findings=tuple(sentence for group in groups for sentence in _findings(group)),
        numbers={group.name: _numbers(group) for group in groups},
        tables=tuple(table for group in groups for table in (_table(group), _differences(group))),
        notes=tuple(_notes(arms, recordings, asked)),
        published=_published(arms),
        published_note="Theirs is the accuracy by an LLM judge on 100 questions of each of HotpotQA, 2WikiMultiHopQA "
        f"and MuSiQue with gpt-oss-120b; ours is by {asked.label} with another model.",
        draw=partial(draw_mechanism, _bars(arms)),
        figure_size=(11.0, 4.2),
        caption="Accuracy with parts of the correction left out, and accuracy and searches with answerability "
        f"exchanged (answers from {THRESHOLD:g} on). Bars: means; lines: 95 % intervals; diamonds: the paper's values.",
    )


def _unlike(recordings: Mapping[str, Recording]) -> str:
    """Why the runs cannot be compared; empty where they can."""
    for variant in (*ABLATIONS, *INTERVENTIONS):
        wanted = {name: getattr(Thresholds(), name) for name in STUDIED}
        wanted |= {name.removeprefix("thresholds."): value for name, value in variant.run.changes.items()}
        held = {**wanted, **recordings[variant.run.name].run.thresholds}
        if wrong := sorted(name for name, value in wanted.items() if held[name] != value):
            return (
                f"The run of {variant.name!r} has {wrong[0]} at {held[wrong[0]]}, not at {wanted[wrong[0]]}: it is "
                "another variant. Make it with the defaults."
            )
    for group, studied in ((ABLATIONS, STUDIED), (INTERVENTIONS, frozenset[str]())):
        for variant in group[1:]:
            one, other = (recordings[each.run.name].run for each in (group[0], variant))
            if what := unlike(one, other, studied=studied):
                return (
                    f"The runs of {group[0].name!r} and {variant.name!r} differ in the {what} too: what comes of the "
                    "part that is studied cannot be told. Make both with the same settings."
                )
    return ""


def _group(name: str, variants: tuple[Variant, ...], arms: Variants, recordings: Mapping[str, Recording]) -> _Group:
    first, *others = (variant.name for variant in variants)
    pairs = {(place, arm): arms.against(arm, first, place) for place in arms.places for arm in others}
    ways = {variant.name: _ways(recordings[variant.run.name].states_of(METHOD)) for variant in variants}
    asked = [(dataset, key) for dataset in arms.datasets for key in arms.values[first][dataset][ACCURACY]]
    another = {arm: sum(ways[arm].get(key) != ways[first].get(key) for key in asked) / len(asked) for arm in others}
    return _Group(name, variants, arms, pairs, another)


def _ways(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[Action, ...]]:
    return {(t.dataset, t.question_id): tuple(state.action for state in t.states) for t in trajectories}


def _counted(recordings: Mapping[str, Recording], group: Sequence[Variant]) -> str:
    return ", ".join(f"{v.name} {len(recordings[v.run.name].of(METHOD)):,} episodes" for v in group)


def _n(arms: Mapping[str, Variants]) -> str:
    words = []
    for name, each in arms.items():
        counts = ", ".join(f"{count} of {dataset}" for dataset, count in each.questions.items())
        many = sum(each.questions.values())
        words.append(f"{name}: {many:,} questions ({counts}), each by {len(each.values)} variants")
    return "; ".join(words) + "."


def _findings(group: _Group) -> Iterator[str]:
    for arm in group.others:
        measures = group.pairs[group.arms.places[0], arm].measures
        doubt = "" if measures[ACCURACY].is_clear else "; the difference in accuracy is not clear"
        right, rounds = (measures[name].difference.without_flat_interval() for name in (ACCURACY, "rounds"))
        yield (
            f"{arm.capitalize()} against {group.first}: accuracy {format_number(right, '+.3f')}, searches "
            f"{format_number(rounds, '+.2f')}; it goes another way on {group.another_way[arm]:.0%} of the "
            f"questions{doubt}."
        )


def _table(group: _Group) -> Table:
    arms = group.arms
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy", bounded=True),
        Column("F1", bounded=True),
        Column("searches", "per question", digits=2, bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
    )
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (place, arm, *(arms.number(arm, place, measure) for measure in MEASURES))
        for place in arms.places
        for arm in arms.values
    )
    return Table(group.name, f"{group.name.capitalize()}: what each variant came to", columns, rows)


def _differences(group: _Group) -> Table:
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy difference", bounded=True),
        Column("F1 difference", bounded=True),
        Column("searches difference", "per question", digits=2, bounded=True),
        Column("tokens difference", "per question", digits=0, bounded=True),
        Column("another way", "share of all questions", digits=2),
    )
    places = group.arms.places
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (
            place,
            arm,
            *(group.difference(place, arm, measure) for measure in MEASURES),
            group.another_way[arm] if place == places[0] else None,
        )
        for place in places
        for arm in group.others
    )
    title = f"{group.name.capitalize()}: each variant minus {group.first!r}, on the same questions"
    note = "10,000 paired resamples. Another way: the actions are not those of the first variant."
    return Table(f"{group.name}_differences", title, columns, rows, note)


def _numbers(group: _Group) -> dict[str, Any]:
    arms = group.arms
    return {
        "questions": dict(arms.questions),
        "means": {
            place: {arm: {m: arms.number(arm, place, m) for m in MEASURES} for arm in arms.values}
            for place in arms.places
        },
        "differences": {
            place: {arm: {m: group.difference(place, arm, m) for m in MEASURES} for arm in group.others}
            for place in arms.places
        },
        "another_way": dict(group.another_way),
    }


def _notes(arms: Mapping[str, Variants], recordings: Mapping[str, Recording], asked: StudyOptions) -> Iterator[str]:
    yield f"An answer is right by {asked.label}; an abstention is not."
    for each in arms.values():
        yield from each.notes()
    for name, recording in recordings.items():
        if sentence := recording.lacking(METHOD):
            yield f"Run {name}: {sentence}"


def _published(arms: Mapping[str, Variants]) -> tuple[Beside, ...]:
    ours: dict[str, Estimate | None] = {}
    for name, group in (("ablations", ABLATIONS), ("interventions", INTERVENTIONS)):
        for variant in group:
            for measure, key in variant.published.items():
                ours[key] = arms[name].number(variant.name, arms[name].places[0], measure)
    return beside(ours)


def _bars(arms: Mapping[str, Variants]) -> dict[str, list[tuple[str, Estimate, float]]]:
    """What the three panels show: variant, our number, the paper's value."""
    return {
        "ablations": _bar(arms["ablations"], ABLATIONS, ACCURACY),
        "interventions": _bar(arms["interventions"], INTERVENTIONS, ACCURACY),
        "rounds": _bar(arms["interventions"], INTERVENTIONS, "rounds"),
    }


def _bar(arms: Variants, group: Sequence[Variant], measure: str) -> list[tuple[str, Estimate, float]]:
    theirs, place = published_numbers(), arms.places[0]
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
        "Where no other question was searched for so often, the latest round that has one stands in.",
        "Frozen: the answerability of the episode's first state with evidence, throughout.",
        "Before there is evidence answerability is a constant of the calibration, and is left alone.",
        "Accuracy is the share of right answers. Means over datasets are simple; questions are resampled within each.",
    ),
    needs=_needs,
    work_out=_work_out,
)
