"""Which parts create the gain: BeliefRAG with parts of its correction left out, and with answerability exchanged.

Ablations are settings of the policy. Interventions exchange answerability before it decides, and change nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from beliefrag.methods.intervention import FrozenAnswerability, Intervention, MatchedState, PermutedAnswerability
from beliefrag.report.figure import draw_bars
from beliefrag.report.published import published_numbers
from beliefrag.report.table import Column
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import Label
from beliefrag.studies.study import (
    METHOD,
    MULTI_HOP,
    STUDIES,
    Compared,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
    describe_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THRESHOLD = 0.55
_LIVE_RUN = "answerability_live"
_MEASURES = {
    "accuracy": Column("accuracy"),
    "f1": Column("F1"),
    "rounds": Column("searches", "per question", 2),
    "tokens": Column("tokens", "per question", 0),
}


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
_STUDIED = (*_STARTS, "correction_prunes", "correction_replaces")


def _ablation(name: str, paper_id: str, *off: str) -> MethodVariant:
    run = RequiredRun(name.replace(" ", "_"), (METHOD,), kind=MULTI_HOP, thresholds=dict.fromkeys(off, False))
    return MethodVariant(name, run, {"accuracy": paper_id})


def _intervention(name: str, **more: Any) -> MethodVariant:
    # By the paper's schedule no search after the first is worth its price so that answerability would decide nothing.
    more |= {"needs_fitted_value": True}
    run = RequiredRun(f"answerability_{name}", (METHOD,), MULTI_HOP, {"answer": _THRESHOLD}, **more)
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
        "No correction: conflict, low reliability and flagged passages start nothing.",
        "No verification: a correction rewrites and searches, but VERIFY is left out and nothing is dropped.",
        "Prune only: VERIFY drops passages, and no search replaces them.",
        f"Interventions answer from {_THRESHOLD:g} on, as in the paper, and change only the compared number.",
        "They need a fitted retrieval value: by the paper's schedule no search after the first would be made.",
        "Permuted: at each state the answerability of another question's live state, same dataset and searches.",
        "Frozen: the answerability of the episode's first state with evidence, throughout.",
        "Accuracy is the share of right answers. Means over datasets are simple; questions are resampled within each.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run for each variant."""
        return tuple(variant.run for variant in (*ABLATIONS, *INTERVENTIONS))

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compare each variant with the first one of its group."""
        groups = {
            name: compare_variants({each.name: recordings[each.run.name] for each in variants}, context.label)
            for name, variants in _GROUPS.items()
        }
        sample = "; ".join(f"{name}: {describe_counts(found.questions)}" for name, found in groups.items()) + "."
        full = thresholds_of(recordings[ABLATIONS[0].run.name].run)
        if off := [name for name in _STUDIED if not getattr(full, name)]:
            why = f"BeliefRAG was run without {', '.join(off)}. Make the runs with the defaults."
            return StudyResult.insufficient(why, sample=sample)
        if not all(found.scopes for found in groups.values()):
            why = "Every variant must have finished at least two questions of one dataset, and the same ones."
            return StudyResult.insufficient(why, sample=sample)
        missing = [(name, sentence) for name, each in recordings.items() for sentence in each.missing_notes(METHOD)]
        ours = {
            paper_id: groups[name].mean(variant.name, measure)
            for name, variants in _GROUPS.items()
            for variant in variants
            for measure, paper_id in variant.paper_ids.items()
        }
        tables = []
        for name, found in groups.items():
            tables.append(found.means_table(name, f"{name.capitalize()}: the means of each variant"))
            tables.append(found.differences_table(f"{name}_differences"))
        return StudyResult(
            sample=sample,
            findings=tuple(text for found in groups.values() for text in found.findings("accuracy", "rounds")),
            tables=tuple(tables),
            notes=(
                f"An answer is right by {context.label}; an abstention is not.",
                *(note for found in groups.values() for note in found.notes("variant")),
                *(f"Run {name}: {sentence}" for name, sentence in missing),
            ),
            paper_values=compare_with_paper(ours),
            paper_note="Theirs is the accuracy by an LLM judge on 100 questions of each of HotpotQA, 2WikiMultiHopQA "
            f"and MuSiQue with gpt-oss-120b; ours is by {context.label} with another model.",
            draw=partial(_draw_mechanism, groups),
            figure_size=(11.0, 4.2),
            caption="Means of the variants. Lines: 95 % intervals; diamonds: the paper.",
        )


def compare_variants(recordings: Mapping[str, Recording], label: Label) -> Compared:
    """Compare the episodes of BeliefRAG in several runs, by the names of the variants."""

    def read(name: str, dataset: str, measure: str) -> dict[str, float]:
        if measure == "accuracy":
            return recordings[name].accuracy(METHOD, dataset, label)
        return recordings[name].values(METHOD, dataset, measure)

    names = list(recordings)
    datasets = sorted(set.intersection(*(set(recording.datasets) for recording in recordings.values())))
    return Compared.on_shared_questions(names, datasets, read, _MEASURES, names[0], reverse=True, stratified=True)


def _draw_mechanism(groups: Mapping[str, Compared], figure: Figure) -> None:
    published = published_numbers()
    panels = (
        ("ablations", "accuracy", "Parts of the correction left out"),
        ("interventions", "accuracy", "Answerability exchanged: accuracy"),
        ("interventions", "rounds", "Answerability exchanged: searches"),
    )
    every = figure.subplots(1, len(panels), width_ratios=[len(_GROUPS[name]) for name, _, _ in panels])
    for axes, (name, measure, title) in zip(every, panels, strict=True):
        variants = _GROUPS[name]
        means = [groups[name].mean(variant.name, measure) for variant in variants]
        draw_bars(axes, title, _MEASURES[measure].heading, [each.name for each in variants], {"": means}, form=".2f")
        theirs = [published[variant.paper_ids[measure]].value for variant in variants]
        axes.plot(range(len(theirs)), theirs, "D", mfc="white", mec="black")
