"""Which parts create the gain: BeliefRAG with parts of its correction left out, and with answerability exchanged.

Ablations are settings of the policy. Interventions exchange answerability before it decides, and change nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from beliefrag.methods.intervention import FrozenAnswerability, Intervention, MatchedState, PermutedAnswerability
from beliefrag.policy import Thresholds
from beliefrag.report.figure import draw_bars, label_axes
from beliefrag.report.published import published_numbers
from beliefrag.report.table import Column, Table
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import Label
from beliefrag.studies.study import (
    METHOD,
    MULTI_HOP,
    STUDIES,
    Compared,
    Extra,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
    describe_counts,
    find_difference,
)
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MechanismStudy"]

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
    for trajectory in live.trajectories_of(METHOD):
        for state in trajectory.states if trajectory.dataset == dataset else ():
            if state.retained and state.answerability is not None:
                by_round[state.rounds].append(MatchedState(trajectory.question_id, state.answerability))
    return {rounds: tuple(states) for rounds, states in sorted(by_round.items())}


def _freeze(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    return FrozenAnswerability()


def _permute(dataset: str, recordings: Mapping[str, Recording]) -> Intervention:
    live = recordings[_LIVE_RUN]
    return PermutedAnswerability(match_states(live, dataset), live.run.seed)


_STARTS = ("correct_conflict", "correct_unreliable", "correct_flagged")
_STUDIED = frozenset({*_STARTS, "correction_prunes", "correction_replaces"})
"""The thresholds in which ablations differ."""


def _ablation(name: str, paper_id: str, *off: str) -> MethodVariant:
    changes = {f"thresholds.{threshold}": False for threshold in off}
    run = RequiredRun(name.replace(" ", "_"), (METHOD,), kind=MULTI_HOP, changes=changes)
    return MethodVariant(name, run, {"accuracy": paper_id})


def _intervention(name: str, **more: Any) -> MethodVariant:
    run = RequiredRun(f"answerability_{name}", (METHOD,), MULTI_HOP, {"thresholds.answer": _THRESHOLD}, **more)
    return MethodVariant(name, run, {"accuracy": f"answerability_{name}", "rounds": f"rounds_{name}"})


ABLATIONS = (
    # The first run is the one that other studies compare methods in: BeliefRAG as it is.
    MethodVariant("full", RequiredRun("comparison", (METHOD,)), {"accuracy": "correction_full"}),
    _ablation("no correction", "correction_none", *_STARTS),
    _ablation("no verification", "verification_none", "correction_prunes"),
    _ablation("prune only", "prune_only", "correction_replaces"),
)
INTERVENTIONS = (
    _intervention("live"),
    _intervention("permuted", make_intervention=_permute, after=(_LIVE_RUN,)),
    _intervention("frozen", make_intervention=_freeze),
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
        "The paper only names its ablations; without any verifier the answer gate would have nothing to read.",
        f"Interventions answer from {_THRESHOLD:g} on, as in the paper, and change only the compared number.",
        "Permuted: at each state the answerability of another question's state in the live run, drawn by a seed.",
        "Such a state has the same dataset and number of searches, or else that of the latest round that has one.",
        "Frozen: the answerability of the episode's first state with evidence, throughout.",
        "Accuracy is the share of right answers. Means over datasets are simple; questions are resampled within each.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run for each variant."""
        return tuple(variant.run for variant in (*ABLATIONS, *INTERVENTIONS))

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compare each variant with the first one of its group."""
        groups: dict[str, Compared] = {}
        another_way: dict[str, float] = {}
        for name, variants in _GROUPS.items():
            own = {variant.name: recordings[variant.run.name] for variant in variants}
            groups[name] = compare_variants(own, context.label)
            another_way |= _share_acting_differently(own, groups[name])
        sample = "; ".join(f"{name}: {describe_counts(found.questions)}" for name, found in groups.items()) + "."
        why = _explain_unlike_runs(recordings)
        if not why and not all(found.scopes for found in groups.values()):
            why = "Every variant must have finished at least two questions of one dataset, and the same ones."
        if why:
            return StudyResult.insufficient(why, sample=sample)
        tables: list[Table] = []
        for name, found in groups.items():
            tables.append(found.means_table(name, f"{name.capitalize()}: the means of each variant"))
            acts: Extra = lambda scope, variant, first=found.scopes[0]: {  # type: ignore[misc] # noqa: E731
                "another way (share of all questions)": another_way[variant] if scope == first else None
            }
            tables.append(found.differences_table(f"{name}_differences", _ANOTHER_WAY, acts))
        findings = {
            name: text for each in groups.values() for name, text in each.findings("accuracy", "rounds").items()
        }
        missing = [(name, sentence) for name, each in recordings.items() for sentence in each.missing_notes(METHOD)]
        return StudyResult(
            sample=sample,
            findings=tuple(
                f"{text} It goes another way on {another_way[name]:.0%} of the questions."
                if another_way[name]
                else f"{name} changed no decision and no answer, so it says nothing about the part that was changed."
                for name, text in findings.items()
            ),
            tables=tuple(tables),
            notes=(
                f"An answer is right by {context.label}; an abstention is not.",
                *(note for found in groups.values() for note in found.notes("variant")),
                *(f"Run {name}: {sentence}" for name, sentence in missing),
            ),
            paper_values=compare_with_paper(
                {
                    paper_id: groups[name].mean(variant.name, measure)
                    for name, variants in _GROUPS.items()
                    for variant in variants
                    for measure, paper_id in variant.paper_ids.items()
                }
            ),
            paper_note="Theirs is the accuracy by an LLM judge on 100 questions of each of HotpotQA, 2WikiMultiHopQA "
            f"and MuSiQue with gpt-oss-120b; ours is by {context.label} with another model.",
            draw=partial(_draw_mechanism, groups),
            figure_size=(11.0, 4.2),
            caption="Accuracy with parts of the correction left out, and accuracy and searches with answerability "
            f"exchanged (answers from {_THRESHOLD:g} on). Bars: means; lines: 95 % intervals; diamonds: the paper.",
        )


_MEASURES = {
    "accuracy": Column("accuracy"),
    "f1": Column("F1"),
    "rounds": Column("searches", "per question", 2),
    "tokens": Column("tokens", "per question", 0),
}
_ANOTHER_WAY = (
    "Another way: other actions than those of the first variant, or another answer; ANSWER and STOP with the same "
    "answer are the same."
)


def compare_variants(recordings: Mapping[str, Recording], label: Label) -> Compared:
    """Compare the episodes of BeliefRAG in several runs, by the names of the variants."""
    datasets = sorted(set.intersection(*(set(recording.datasets) for recording in recordings.values())))
    values = {
        name: {
            dataset: {
                "accuracy": recording.accuracy(METHOD, dataset, label),
                **{measure: recording.values(METHOD, dataset, measure) for measure in ("f1", "rounds", "tokens")},
            }
            for dataset in datasets
        }
        for name, recording in recordings.items()
    }
    return Compared.on_shared_questions(values, _MEASURES, next(iter(recordings)), reverse=True, stratified=True)


def _explain_unlike_runs(recordings: Mapping[str, Recording]) -> str:
    """Return why the runs cannot be compared; empty if they can."""
    for variant in (*ABLATIONS, *INTERVENTIONS):
        wanted = {name: getattr(Thresholds(), name) for name in _STUDIED}
        wanted |= {name.removeprefix("thresholds."): value for name, value in variant.run.changes.items()}
        actual = asdict(thresholds_of(recordings[variant.run.name].run))
        for name in sorted(name for name, value in wanted.items() if actual[name] != value):
            return (
                f"The run of {variant.name!r} has {name} at {actual[name]}, not at {wanted[name]}: it is another "
                "variant. Make it with the defaults."
            )
    for group, studied in ((ABLATIONS, _STUDIED), (INTERVENTIONS, frozenset[str]())):
        for variant in group[1:]:
            one, other = (recordings[each.run.name].run for each in (group[0], variant))
            if what := find_difference(one, other, studied=studied):
                return (
                    f"The runs of {group[0].name!r} and {variant.name!r} differ in the {what} too, so the effect of "
                    "the studied part is unknown. Make both with the same settings."
                )
    return ""


def _share_acting_differently(recordings: Mapping[str, Recording], found: Compared) -> dict[str, float]:
    """Return for each variant but the first the share of compared questions on which it acts in another way."""
    acts = {name: _acts_by_question(recording) for name, recording in recordings.items()}
    keys = [(dataset, key) for dataset in found.left_out for key in found.column(found.of, "f1", dataset)]
    others = [name for name in recordings if name != found.of]
    different = {other: [acts[other].get(key) != acts[found.of].get(key) for key in keys] for other in others}
    return {other: sum(each) / len(keys) if keys else 0.0 for other, each in different.items()}


_Acts = tuple[tuple[Action, ...], bool, tuple[float | None, ...]]


def _acts_by_question(recording: Recording) -> dict[tuple[str, str], _Acts]:
    """Return what an episode did before its end, whether it answered, and what the answer scored.

    ANSWER and STOP are not distinguished: both give the answer from the same evidence. Two answers with the same
    scores are taken for one.
    """
    acts: dict[tuple[str, str], _Acts] = {}
    for episode in recording.episodes_of(METHOD):
        scores = tuple(map(episode.metrics.get, ("f1", "exact_match", "cover")))
        acts[episode.key.dataset, episode.key.question_id] = ((), True, scores)
    for trajectory in recording.trajectories_of(METHOD):
        key = (trajectory.dataset, trajectory.question_id)
        *before, last = (state.action for state in trajectory.states)
        acts[key] = (tuple(before), last is not Action.ABSTAIN, acts[key][2] if key in acts else ())
    return acts


def _draw_mechanism(groups: Mapping[str, Compared], figure: Figure) -> None:
    published = published_numbers()
    panels = (
        ("ablations", "accuracy", "Parts of the correction left out"),
        ("interventions", "accuracy", "Answerability exchanged: accuracy"),
        ("interventions", "rounds", "Answerability exchanged: searches"),
    )
    every = figure.subplots(1, len(panels), width_ratios=[len(_GROUPS[name]) for name, _, _ in panels])
    for axes, (name, measure, title) in zip(every, panels, strict=True):
        label_axes(axes, title, y="share of right answers" if measure == "accuracy" else "mean searches per question")
        means = [groups[name].mean(variant.name, measure) for variant in _GROUPS[name]]
        draw_bars(axes, [variant.name for variant in _GROUPS[name]], {"": means}, ".2f")
        theirs = [published[variant.paper_ids[measure]].value for variant in _GROUPS[name]]
        axes.plot(range(len(theirs)), theirs, "D", mfc="white", mec="black", label="the paper's value")
    figure.legend(handles=every[0].lines[-1:], loc="outside lower center", frameon=False, fontsize=9)
