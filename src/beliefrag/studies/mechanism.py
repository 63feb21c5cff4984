"""Which parts create the gain: BeliefRAG with parts of its correction left out, and with answerability exchanged.

Ablations are settings of the policy. Interventions exchange answerability before it decides, and change nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from beliefrag.methods.intervention import FrozenAnswerability, Intervention, MatchedState, PermutedAnswerability
from beliefrag.policy import Thresholds
from beliefrag.report.figure import HATCHES, draw_interval
from beliefrag.report.published import published_numbers
from beliefrag.report.table import CellValue, Column, Table, format_number
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate, PairedComparison, compare_over_datasets, mean_over_datasets
from beliefrag.runs.summary import MEAN
from beliefrag.studies.study import (
    MULTI_HOP,
    STUDIES,
    PaperValue,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
    find_difference,
)
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ABLATIONS",
    "ACCURACY",
    "INTERVENTIONS",
    "VARIANT_MEASURES",
    "MechanismStudy",
    "MethodVariant",
    "Variants",
    "match_states",
]

ACCURACY = "accuracy"
VARIANT_MEASURES = (ACCURACY, "f1", "rounds", "tokens")
_MIN_SHARED = 2
"""Questions of a dataset that all variants must share: one question says nothing about others."""


Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By dataset, measure and question."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The numbers of each variant on the questions that all of them finished."""

    values: Mapping[str, Values]
    """Values by the name of the variant."""
    left_out: Mapping[str, int]
    """Questions of each dataset that some variant did not finish, or was not asked."""
    too_few: tuple[str, ...] = ()
    """Datasets of which so few questions are shared that they are in no number."""

    @classmethod
    def from_recordings(cls, recordings: Mapping[str, Recording], method: str, label: Label) -> Variants:
        """Take the episodes of one method from several runs, by the names of the variants."""
        datasets = set.intersection(*(set(recording.datasets) for recording in recordings.values()))
        values: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in recordings}
        left_out, too_few = {}, []
        for dataset in sorted(datasets):
            own = {name: _read_values(recording, method, dataset, label) for name, recording in recordings.items()}
            ids = [set(by_id) for each in own.values() for by_id in each.values()]
            common, everything = set.intersection(*ids), set.union(*ids)
            if len(common) < _MIN_SHARED:
                too_few.append(dataset)
                continue
            left_out[dataset] = len(everything - common)
            for name, each in own.items():
                values[name][dataset] = {m: {key: by_id[key] for key in sorted(common)} for m, by_id in each.items()}
        return cls(values, left_out, tuple(too_few))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets with enough questions."""
        return tuple(self.left_out)

    @property
    def questions(self) -> Mapping[str, int]:
        """How many questions of each dataset are compared."""
        first = next(iter(self.values.values()))
        return {dataset: len(first[dataset][ACCURACY]) for dataset in self.datasets}

    @property
    def scopes(self) -> tuple[str, ...]:
        """What numbers are given for: the mean over datasets, where there are several, and each dataset."""
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def mean(self, variant: str, scope: str, measure: str) -> Estimate:
        """Return the mean of a measure with its interval, for a dataset or over all."""
        datasets = self.datasets if scope == MEAN else (scope,)
        return mean_over_datasets(
            {name: self.values[variant][name][measure] for name in datasets}
        ).without_flat_interval()

    def compare(self, variant: str, other: str, scope: str = MEAN) -> PairedComparison:
        """Return the paired difference of two variants, the first minus the second."""
        datasets = self.datasets if scope == MEAN else (scope,)
        sides = ({name: self.values[each][name] for name in datasets} for each in (variant, other))
        return compare_over_datasets(*sides)

    def notes(self) -> Iterator[str]:
        """Return a sentence for each dataset of which some or all questions are left out."""
        if self.too_few:
            names = ", ".join(self.too_few)
            yield f"Left out, with fewer than {_MIN_SHARED} questions that every variant finished: {names}."
        for name, count in self.left_out.items():
            if count:
                yield f"Of {name} {count} questions are left out: not every variant finished them or was asked them."


def _read_values(recording: Recording, method: str, dataset: str, label: Label) -> dict[str, dict[str, float]]:
    found = {name: recording.values(method, dataset, name) for name in VARIANT_MEASURES if name != ACCURACY}
    return {ACCURACY: recording.accuracy(method, dataset, label), **found}


_METHOD = "beliefrag"
_THRESHOLD = 0.55
"""The threshold of the answer gate in the interventions of the paper."""
_LIVE_RUN = "answerability_live"


@dataclass(frozen=True, slots=True)
class MethodVariant:
    """One variant of BeliefRAG, and the run that it is made in."""

    name: str
    run: RequiredRun
    paper_ids: Mapping[str, str]
    """The ids of the values that the paper has for it, by measure."""


def match_states(live: Recording, dataset: str) -> dict[int, tuple[MatchedState, ...]]:
    """Return the states of the live episodes on a dataset whose answerability others can take, by round."""
    by_round: dict[int, list[MatchedState]] = defaultdict(list)
    for trajectory in live.trajectories_of(_METHOD):
        for state in trajectory.states if trajectory.dataset == dataset else ():
            if state.retained and state.answerability is not None:
                by_round[state.rounds].append(MatchedState(trajectory.question_id, state.answerability))
    return {rounds: tuple(states) for rounds, states in sorted(by_round.items())}


def _freeze(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    return FrozenAnswerability()


def _permute(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    live = recordings[_LIVE_RUN]
    return PermutedAnswerability(match_states(live, dataset), live.run.seed)


def _require(name: str, **more: Any) -> RequiredRun:
    return RequiredRun(name, (_METHOD,), kind=MULTI_HOP, **more)


def _switch_off(*thresholds: str) -> dict[str, bool]:
    return {f"thresholds.{threshold}": False for threshold in thresholds}


_STARTS = ("correct_conflict", "correct_unreliable", "correct_flagged")
_STUDIED = frozenset({*_STARTS, "correction_prunes", "correction_replaces"})
"""The thresholds in which ablations differ."""
_AT_THRESHOLD = {"thresholds.answer": _THRESHOLD}

ABLATIONS = (
    # The run of the first one is the one that others compare methods in: BeliefRAG as it is.
    MethodVariant("full", RequiredRun("comparison", (_METHOD,)), {"accuracy": "correction_full"}),
    MethodVariant(
        "no correction",
        _require("no_correction", changes=_switch_off(*_STARTS)),
        {"accuracy": "correction_none"},
    ),
    MethodVariant(
        "no verification",
        _require("no_verification", changes=_switch_off("correction_prunes")),
        {"accuracy": "verification_none"},
    ),
    MethodVariant(
        "prune only",
        _require("prune_only", changes=_switch_off("correction_replaces")),
        {"accuracy": "prune_only"},
    ),
)
INTERVENTIONS = (
    MethodVariant(
        "live",
        _require(_LIVE_RUN, changes=_AT_THRESHOLD),
        {"accuracy": "answerability_live", "rounds": "rounds_live"},
    ),
    MethodVariant(
        "permuted",
        _require("answerability_permuted", changes=_AT_THRESHOLD, make_intervention=_permute, after=(_LIVE_RUN,)),
        {"accuracy": "answerability_permuted", "rounds": "rounds_permuted"},
    ),
    MethodVariant(
        "frozen",
        _require("answerability_frozen", changes=_AT_THRESHOLD, make_intervention=_freeze),
        {"accuracy": "answerability_frozen", "rounds": "rounds_frozen"},
    ),
)
_GROUPS = {"ablations": ABLATIONS, "interventions": INTERVENTIONS}


@STUDIES.register(
    "mechanism",
    title="Which parts create the gain",
    summary="What is lost when parts of the correction are left out, or when the live answerability is taken away?",
)
@dataclass(frozen=True, slots=True)
class MechanismStudy:
    """Compares variants of BeliefRAG on the same questions."""

    protocol: ClassVar[tuple[str, ...]] = (
        "BeliefRAG is run with its defaults and with one part changed at a time, on the same multi-hop questions.",
        "Model, corpus, prompts and budget are the same throughout, and differences are paired.",
        "No correction: conflict, low reliability and flagged passages start nothing.",
        "No verification: a correction rewrites and searches, but VERIFY is left out and nothing is dropped.",
        "Prune only: VERIFY drops passages, and no search replaces them.",
        "The ablated corrections start at the states at which the whole one does.",
        "The paper only names its ablations. 'No verification' is read here as: without the action VERIFY.",
        "Without any verifier at all the answer gate would have nothing to read, and every episode would end alike.",
        f"Interventions answer from {_THRESHOLD:g} on, as in the paper, and change no more than the number compared.",
        "Permuted: at each state the answerability of another question's state in the live run, drawn by a seed.",
        "Such a state is matched: same dataset, as many searches made.",
        "Where no other question was searched for so often, the latest round that has one stands in.",
        "Frozen: the answerability of the episode's first state with evidence, throughout.",
        "Before there is evidence answerability is a constant of the calibration, and is left alone.",
        "Accuracy is the share of right answers. Means over datasets are simple; questions are resampled within each.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run for each variant."""
        return tuple(variant.run for variant in (*ABLATIONS, *INTERVENTIONS))

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compare each variant with the first one of its group."""
        counts = "; ".join(f"{name}: {_count_episodes(recordings, group)}" for name, group in _GROUPS.items())
        if why := _explain_unlike_runs(recordings):
            return StudyResult.insufficient(why, sample=counts)
        values = {
            name: Variants.from_recordings(
                {variant.name: recordings[variant.run.name] for variant in group}, _METHOD, context.label
            )
            for name, group in _GROUPS.items()
        }
        if not all(each.datasets for each in values.values()):
            return StudyResult.insufficient(
                "Every variant must have finished at least two questions of one dataset, and the same ones.",
                sample=counts,
            )
        groups = [_compare_group(name, each, recordings) for name, each in values.items()]
        return StudyResult(
            sample=_describe_sample(values),
            findings=tuple(sentence for group in groups for sentence in _describe_findings(group)),
            numbers={group.name: _collect_numbers(group) for group in groups},
            tables=tuple(table for group in groups for table in (_means_table(group), _differences_table(group))),
            notes=tuple(_write_notes(values, recordings, context)),
            paper_values=_paper_values(values),
            paper_note="Theirs is the accuracy by an LLM judge on 100 questions of each of HotpotQA, 2WikiMultiHopQA "
            f"and MuSiQue with gpt-oss-120b; ours is by {context.label} with another model.",
            draw=partial(_draw_mechanism, values),
            figure_size=(11.0, 4.2),
            caption="Accuracy with parts of the correction left out, and accuracy and searches with answerability "
            f"exchanged (answers from {_THRESHOLD:g} on). Bars: means; lines: 95 % intervals; diamonds: the paper's "
            "values.",
        )


@dataclass(frozen=True, slots=True)
class _ComparedGroup:
    """Variants that are compared with the first of them."""

    name: str
    variants: Variants
    pairs: Mapping[tuple[str, str], PairedComparison]
    """By scope and variant: the variant minus the first one."""
    acted_differently: Mapping[str, float]
    """The share of the compared questions on which a variant does not act as the first one does.

    ANSWER and STOP are one act where both give the same answer: they differ in name alone.
    """

    @property
    def first(self) -> str:
        return _GROUPS[self.name][0].name

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(variant.name for variant in _GROUPS[self.name][1:])

    def difference(self, scope: str, variant: str, measure: str) -> Estimate:
        return self.pairs[scope, variant].measures[measure].difference.without_flat_interval()


def _explain_unlike_runs(recordings: Mapping[str, Recording]) -> str:
    """Return why the runs cannot be compared; empty where they can."""
    for variant in (*ABLATIONS, *INTERVENTIONS):
        wanted = {name: getattr(Thresholds(), name) for name in _STUDIED}
        wanted |= {name.removeprefix("thresholds."): value for name, value in variant.run.changes.items()}
        actual = {**wanted, **asdict(thresholds_of(recordings[variant.run.name].run))}
        if wrong := sorted(name for name, value in wanted.items() if actual[name] != value):
            return (
                f"The run of {variant.name!r} has {wrong[0]} at {actual[wrong[0]]}, not at {wanted[wrong[0]]}: it is "
                "another variant. Make it with the defaults."
            )
    for group, studied in ((ABLATIONS, _STUDIED), (INTERVENTIONS, frozenset[str]())):
        for variant in group[1:]:
            one, other = (recordings[each.run.name].run for each in (group[0], variant))
            if what := find_difference(one, other, studied=studied):
                return (
                    f"The runs of {group[0].name!r} and {variant.name!r} differ in the {what} too: what comes of the "
                    "part that is studied cannot be told. Make both with the same settings."
                )
    return ""


def _compare_group(name: str, values: Variants, recordings: Mapping[str, Recording]) -> _ComparedGroup:
    variants = _GROUPS[name]
    first, *others = (variant.name for variant in variants)
    pairs = {(scope, other): values.compare(other, first, scope) for scope in values.scopes for other in others}
    actions = {variant.name: _acts_by_question(recordings[variant.run.name]) for variant in variants}
    keys = [(dataset, key) for dataset in values.datasets for key in values.values[first][dataset][ACCURACY]]
    different = {
        other: sum(actions[other].get(key) != actions[first].get(key) for key in keys) / len(keys) for other in others
    }
    return _ComparedGroup(name, values, pairs, different)


_ANSWER_MEASURES = ("f1", "exact_match", "cover")
"""Where two answers from the same evidence agree in all of these, they are taken for one answer."""
_Acts = tuple[tuple[Action, ...], bool, tuple[float | None, ...]]


def _acts_by_question(recording: Recording) -> dict[tuple[str, str], _Acts]:
    """Return what an episode did before its end, whether it answered, and what the answer scored.

    Whether the end was ANSWER or STOP is left out: both give the answer from the same evidence.
    """
    scores = {
        (episode.key.dataset, episode.key.question_id): tuple(map(episode.metrics.get, _ANSWER_MEASURES))
        for episode in recording.episodes_of(_METHOD)
    }
    acts: dict[tuple[str, str], _Acts] = {key: ((), True, found) for key, found in scores.items()}
    for trajectory in recording.trajectories_of(_METHOD):
        key = (trajectory.dataset, trajectory.question_id)
        *before, last = (state.action for state in trajectory.states)
        acts[key] = (tuple(before), last is not Action.ABSTAIN, scores.get(key, ()))
    return acts


def _count_episodes(recordings: Mapping[str, Recording], group: Sequence[MethodVariant]) -> str:
    return ", ".join(f"{v.name} {len(recordings[v.run.name].episodes_of(_METHOD)):,} episodes" for v in group)


def _describe_sample(groups: Mapping[str, Variants]) -> str:
    words = []
    for name, each in groups.items():
        counts = ", ".join(f"{count} of {dataset}" for dataset, count in each.questions.items())
        questions = sum(each.questions.values())
        words.append(f"{name}: {questions:,} questions ({counts}), each by {len(each.values)} variants")
    return "; ".join(words) + "."


def _describe_findings(group: _ComparedGroup) -> Iterator[str]:
    scope = group.variants.scopes[0]
    for variant in group.others:
        if not group.acted_differently[variant]:
            yield (
                f"{variant.capitalize()} against {group.first}: it changed no decision and no answer on any of the "
                "questions, so it says nothing about the part that was changed."
            )
            continue
        doubt = ""
        if not group.pairs[scope, variant].measures[ACCURACY].is_clear:
            doubt = "; the difference in accuracy is not clear"
        accuracy, searches = (group.difference(scope, variant, name) for name in (ACCURACY, "rounds"))
        yield (
            f"{variant.capitalize()} against {group.first}: accuracy {format_number(accuracy, '+.3f')}, searches "
            f"{format_number(searches, '+.2f')}; it goes another way on {group.acted_differently[variant]:.0%} of the "
            f"questions{doubt}."
        )


def _means_table(group: _ComparedGroup) -> Table:
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy", bounded=True),
        Column("F1", bounded=True),
        Column("searches", "per question", digits=2, bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
    )
    values = group.variants
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (scope, variant, *(values.mean(variant, scope, measure) for measure in VARIANT_MEASURES))
        for scope in values.scopes
        for variant in values.values
    )
    return Table(group.name, f"{group.name.capitalize()}: what each variant came to", columns, rows)


def _differences_table(group: _ComparedGroup) -> Table:
    columns = (
        Column("dataset"),
        Column("variant"),
        Column("accuracy difference", bounded=True),
        Column("F1 difference", bounded=True),
        Column("searches difference", "per question", digits=2, bounded=True),
        Column("tokens difference", "per question", digits=0, bounded=True),
        Column("another way", "share of all questions", digits=2),
    )
    scopes = group.variants.scopes
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (
            scope,
            variant,
            *(group.difference(scope, variant, measure) for measure in VARIANT_MEASURES),
            group.acted_differently[variant] if scope == scopes[0] else None,
        )
        for scope in scopes
        for variant in group.others
    )
    title = f"{group.name.capitalize()}: each variant minus {group.first!r}, on the same questions"
    note = (
        "10,000 paired resamples. Another way: other actions than those of the first variant, or another answer; "
        "ANSWER and STOP with the same answer are the same. 0 means that nothing was changed."
    )
    return Table(f"{group.name}_differences", title, columns, rows, note)


def _collect_numbers(group: _ComparedGroup) -> dict[str, Any]:
    values = group.variants
    return {
        "questions": dict(values.questions),
        "means": {
            scope: {name: {m: values.mean(name, scope, m) for m in VARIANT_MEASURES} for name in values.values}
            for scope in values.scopes
        },
        "differences": {
            scope: {name: {m: group.difference(scope, name, m) for m in VARIANT_MEASURES} for name in group.others}
            for scope in values.scopes
        },
        "another_way": dict(group.acted_differently),
    }


def _write_notes(
    groups: Mapping[str, Variants], recordings: Mapping[str, Recording], context: StudyContext
) -> Iterator[str]:
    yield f"An answer is right by {context.label}; an abstention is not."
    for each in groups.values():
        yield from each.notes()
    for name, recording in recordings.items():
        if sentence := recording.describe_missing(_METHOD):
            yield f"Run {name}: {sentence}"


def _paper_values(groups: Mapping[str, Variants]) -> tuple[PaperValue, ...]:
    return compare_with_paper(
        {
            key: groups[name].mean(variant.name, groups[name].scopes[0], measure)
            for name, group in _GROUPS.items()
            for variant in group
            for measure, key in variant.paper_ids.items()
        }
    )


def _draw_mechanism(groups: Mapping[str, Variants], figure: Figure) -> None:
    """Draw three panels of bars; hatches tell variants apart, so that nothing is lost in black and white."""
    right = "accuracy: share of right answers"
    panels = (
        ("ablations", ACCURACY, "Parts of the correction left out", right),
        ("interventions", ACCURACY, "Answerability exchanged: accuracy", right),
        ("interventions", "rounds", "Answerability exchanged: searches", "mean searches per question"),
    )
    every = figure.subplots(1, len(panels), width_ratios=[len(_GROUPS[name]) for name, _, _, _ in panels])
    for axes, (name, measure, title, unit) in zip(every, panels, strict=True):
        _draw_bars(axes, groups[name], _GROUPS[name], measure)
        axes.set_title(title, fontsize=10.5)
        axes.set_ylabel(unit)
        if measure == ACCURACY:
            axes.set_ylim(0, 1)
    theirs = every[0].plot([], [], "D", markerfacecolor="white", markeredgecolor="black", label="the paper's value")
    figure.legend(handles=theirs, loc="outside lower center", frameon=False, fontsize=9)


def _draw_bars(axes: Axes, values: Variants, variants: Sequence[MethodVariant], measure: str) -> None:
    published = published_numbers()
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for place, variant in enumerate(variants):
        mean = values.mean(variant.name, values.scopes[0], measure)
        theirs = published[variant.paper_ids[measure]].value
        axes.bar(place, mean.value, 0.62, color="0.85", edgecolor="black", hatch=HATCHES[place % len(HATCHES)])
        draw_interval(axes, mean, place, "black", linewidth=1.6)
        axes.plot([place + 0.42], [theirs], "D", markerfacecolor="white", markeredgecolor="black", markersize=6)
        offset: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "ha": "right"}
        axes.annotate(f"{mean.value:.2f}", (place, mean.value), (-4, 3), **offset)
    axes.set_xticks(range(len(variants)), [variant.name.replace(" ", "\n") for variant in variants])
    axes.set_xlim(-0.6, len(variants) - 0.3)
