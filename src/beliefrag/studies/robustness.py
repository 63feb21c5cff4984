"""What happens when evidence is imperfect: irrelevant passages, false ones, and evidence of another source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from beliefrag.methods import METHODS
from beliefrag.report.figure import DASHES, HATCHES, MARKERS, draw_interval
from beliefrag.report.table import CellValue, Column, Table, format_number
from beliefrag.runs.record import Injection
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.robustness_measures import (
    COMPARED,
    METHOD,
    MIN_QUESTIONS,
    NOISE_LEVELS,
    RATES,
    EvidenceSource,
    FalseEvidence,
    NoiseLevels,
    auc_difference,
    mean_auc,
)
from beliefrag.studies.study import (
    STUDIES,
    WITH_FALSE_PASSAGES,
    WITH_NOISE,
    PaperValue,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
    find_difference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COUNTERFACTUAL_RUN", "ORDINARY_RUN", "RobustnessStudy", "draw_robustness", "noise_run"]

_RATE_NAMES = {
    "follows_false": "false answer\nfollowed",
    "recovers_true": "true answer\nrecovered",
    "abstained": "abstained",
}


def draw_robustness(
    curves: Mapping[str, Sequence[tuple[float, Estimate]]],
    rates: Mapping[str, Mapping[str, Estimate | None]],
    areas: Mapping[str, Estimate | None],
    figure: Figure,
) -> None:
    """Draw the three panels."""
    noise, false, source = figure.subplots(1, 3, width_ratios=(1.15, 1.25, 0.8))
    for axes in (noise, false, source):
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    _draw_noise(noise, curves)
    _draw_false_evidence(false, rates)
    _draw_sources(source, areas)


def _draw_noise(axes: Axes, curves: Mapping[str, Sequence[tuple[float, Estimate]]]) -> None:
    for place, (method, points) in enumerate(curves.items()):
        # Side by side, so that intervals do not lie on each other.
        xs = [100 * level + 1.2 * (place - (len(curves) - 1) / 2) for level, _ in points]
        for x, (_, estimate) in zip(xs, points, strict=True):
            draw_interval(axes, estimate, x, "0.65")
        axes.plot(
            xs,
            [estimate.value for _, estimate in points],
            MARKERS[place],
            linestyle=DASHES[place % len(DASHES)],
            color="black",
            markerfacecolor="black" if place == len(curves) - 1 else "white",
            label=METHODS.title(method),
        )
    axes.set_title("Irrelevant passages", fontsize=11)
    axes.set_xlabel("share of what searches found that was replaced (%)")
    axes.set_ylabel("mean F1 (0 to 1, higher is better)")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, ncols=2, handlelength=3)


def _draw_false_evidence(axes: Axes, rates: Mapping[str, Mapping[str, Estimate | None]]) -> None:
    width = 0.8 / len(rates)
    for place, (method, own) in enumerate(rates.items()):
        for group, name in enumerate(_RATE_NAMES):
            estimate = own[name]
            if estimate is None:
                continue
            x = group + width * (place - (len(rates) - 1) / 2)
            axes.bar(x, estimate.value, 0.9 * width, color="0.88", edgecolor="black", hatch=HATCHES[place])
            draw_interval(axes, estimate, x, "black")
            if estimate.value == 0:
                axes.annotate("0", (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize=8)
        axes.bar([0], [0], 0, color="0.88", edgecolor="black", hatch=HATCHES[place], label=METHODS.title(method))
    axes.set_xticks(range(len(_RATE_NAMES)), list(_RATE_NAMES.values()))
    axes.set_title("False passages", fontsize=11)
    axes.set_ylabel("share of questions")
    axes.set_ylim(0, 1.03)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, ncols=2)


def _draw_sources(axes: Axes, areas: Mapping[str, Estimate | None]) -> None:
    for place, estimate in enumerate(areas.values()):
        if estimate is None:
            axes.annotate("too few\nquestions", (place, 0.25), ha="center", va="center", fontsize=9)
            continue
        axes.bar(place, estimate.value, 0.6, color="0.88", edgecolor="black", hatch=HATCHES[place])
        draw_interval(axes, estimate, place, "black")
        axes.annotate(
            f"{estimate.value:.2f}", (place, 0.03), ha="center", fontsize=9, bbox={"fc": "white", "ec": "none"}
        )
    axes.axhline(0.5, color="black", linestyle=":", linewidth=1.2)
    axes.annotate("chance", (len(areas) - 0.45, 0.5), (0, 3), textcoords="offset points", ha="right", fontsize=8)
    axes.set_xticks(range(len(areas)), [name.replace(" ", "\n") for name in areas], fontsize=9)
    axes.set_xlim(-0.5, len(areas) - 0.4)
    axes.set_title("The calibrator by source", fontsize=11)
    axes.set_ylabel("AUC: right answers ranked before wrong ones")
    axes.set_ylim(0, 1)


_COUNTERFACTUAL = 0.4
"""The share of false passages: two of five hits. The paper gives none."""
_MOST = max(NOISE_LEVELS)
COUNTERFACTUAL_RUN = f"counterfactual_{100 * _COUNTERFACTUAL:02.0f}"
ORDINARY_RUN = "comparison"
"""The run that others compare methods in: ordinary questions and evidence."""


def noise_run(level: float) -> str:
    """Return the name of the run with that share of irrelevant passages."""
    return f"noise_{100 * level:02.0f}"


@STUDIES.register(
    "robustness",
    title="Imperfect evidence",
    summary="What happens to answers when passages are irrelevant or false, and to the calibrator on another source?",
)
@dataclass(frozen=True, slots=True)
class RobustnessStudy:
    """Compares methods on noisy and false evidence, and the calibrator on evidence of several sources."""

    protocol: ClassVar[tuple[str, ...]] = (
        "Noise: a share of what each search finds gives way to irrelevant passages, in the same places and scores.",
        "Irrelevant passages share no content word with the question or the query, and do not hold the answer.",
        f"Counterfactual: up to {_COUNTERFACTUAL:.0%} of what a search finds gives way to RGB's own false passages.",
        "First false versions take the place of their hits, then others random places, as far as there are any.",
        "RGB's false passages are searched in none of the runs: they come in no other way.",
        "Injection is seeded by question and query: all methods face the same, and more noise includes less noise.",
        "An answer follows if it has the false answer and not the true one; it recovers if it has the true one.",
        "Source: answerability at the states of BeliefRAG's episodes, against whether the answer there is right.",
        "The sources are ordinary questions, RGB's web snippets without noise, and RGB with false passages.",
        "The conflict gate fires where the belief in conflict is at its threshold, at states with evidence.",
        "Intervals resample questions, 2,000 times, each with all its states.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name a run for each level of noise, one with false passages, and the ordinary one."""
        noisy = (
            RequiredRun(
                noise_run(level), COMPARED, kind=WITH_NOISE, injection=Injection(noise=level), splits=("noise",)
            )
            for level in NOISE_LEVELS
        )
        false = RequiredRun(
            COUNTERFACTUAL_RUN,
            COMPARED,
            kind=WITH_FALSE_PASSAGES,
            injection=Injection(counterfactual=_COUNTERFACTUAL),
            splits=("fact",),
        )
        return (*noisy, false, RequiredRun(ORDINARY_RUN, (METHOD,)))

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out answers by noise, what false passages do, and the calibrator by source."""
        found = _measure(recordings, context)
        sample = _describe_sample(found)
        if not found.noise.levels:
            why = "Every method must have finished at least two questions at every level."
            return StudyResult.insufficient(why, sample=sample)
        curves = {m: [(level, found.noise.mean(m, level, "f1")) for level in NOISE_LEVELS] for m in COMPARED}
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(found)),
            numbers=_collect_numbers(found),
            tables=(_noise_table(found.noise), _false_table(found.false), _source_table(found)),
            notes=tuple(_write_notes(found, recordings, context)),
            paper_values=_paper_values(found),
            paper_note="Theirs is the accuracy by an LLM judge on RGB with gpt-oss-120b; how many of the passages were "
            f"false is not said. Ours is by {context.label} with another model. RGB's own noise is about the "
            "question's subject; here what replaces a hit shares no content word with the question.",
            draw=partial(draw_robustness, curves, _rates(found.false), found.areas),
            figure_size=(12.0, 4.4),
            caption="F1 by the share of hits that irrelevant passages replace; what becomes of the answer when up to "
            f"{_COUNTERFACTUAL:.0%} of the passages are false; and the AUC of answerability by the source of the "
            "evidence. Lines across marks and bars are 95 % intervals.",
        )


@dataclass(frozen=True, slots=True)
class _Measured:
    """All numbers of the study."""

    noise: NoiseLevels
    false: FalseEvidence
    sources: tuple[EvidenceSource, EvidenceSource, EvidenceSource]
    """Ordinary evidence, web snippets, counterfactual evidence."""
    areas: Mapping[str, Estimate | None]
    """The AUC of the calibrator by source."""
    shift: Estimate | None
    """The AUC on web snippets minus that on ordinary evidence."""


def _measure(recordings: Mapping[str, Recording], context: StudyContext) -> _Measured:
    ordinary, web, false = (recordings[name] for name in (ORDINARY_RUN, noise_run(0.0), COUNTERFACTUAL_RUN))
    sources = (
        EvidenceSource.from_recording("ordinary", ordinary, context.label),
        EvidenceSource.from_recording("web snippets", web, context.label),
        EvidenceSource.from_recording("counterfactual", false, context.label),
    )
    return _Measured(
        noise=NoiseLevels.from_recordings(
            {level: recordings[noise_run(level)] for level in NOISE_LEVELS}, context.label
        ),
        false=FalseEvidence.from_recording(false),
        sources=sources,
        areas={source.name: mean_auc(source) for source in sources},
        shift=auc_difference(sources[1], sources[0]),
    )


def _rates(false: FalseEvidence) -> dict[str, dict[str, Estimate | None]]:
    return {method: {name: false.rate(method, name) for name in RATES} for method in COMPARED}


def _describe_sample(found: _Measured) -> str:
    states = ", ".join(f"{source.states:,} of {source.name}" for source in found.sources)
    return (
        f"Noise: {found.noise.questions:,} questions by {len(COMPARED)} methods at {len(NOISE_LEVELS)} levels. "
        f"Counterfactual: {found.false.questions:,} questions. Sources: states with a known outcome, {states}."
    )


def _describe_findings(found: _Measured) -> Iterator[str]:
    for method in reversed(COMPARED):
        f1, lost = (
            format_number(found.noise.mean(method, _MOST, "f1")),
            format_number(found.noise.loss(method), "+.3f"),
        )
        yield f"{METHODS.title(method)} with {_MOST:.0%} of its hits replaced: F1 {f1}, that is {lost} against none."
    for method in reversed(COMPARED):
        followed, recovered = (found.false.rate(method, name) for name in ("follows_false", "recovers_true"))
        if followed is not None and recovered is not None:
            yield (
                f"{METHODS.title(method)} with up to {_COUNTERFACTUAL:.0%} false passages: follows the false answer on "
                f"{format_number(followed, '.0%')} of the questions, and has the true one on "
                f"{format_number(recovered, '.0%')}."
            )
    ordinary, web = (found.areas[source.name] for source in found.sources[:2])
    if ordinary is None or web is None or found.shift is None:
        yield (
            f"The AUC by source cannot be told: of each source it needs at least {MIN_QUESTIONS} questions with a "
            f"right answer and {MIN_QUESTIONS} with a wrong one."
        )
    else:
        yield (
            f"The calibrator ranks right before wrong with AUC {format_number(ordinary)} on ordinary evidence and "
            f"{format_number(web)} on web snippets: {format_number(found.shift, '+.3f')}."
        )


def _noise_table(noise: NoiseLevels) -> Table:
    own = METHODS.title(METHOD)
    columns = (
        Column("method"),
        Column("replaced", "share of what searches found", digits=1),
        Column("F1", bounded=True),
        Column("accuracy", bounded=True),
        Column("F1 lost", "difference to none", bounded=True),
        Column("support", "share of supporting passages retained", bounded=True),
        Column(f"{own} F1", "difference to this method", bounded=True),
        Column(f"{own} accuracy", "difference to this method", bounded=True),
    )
    rows: list[tuple[CellValue, ...]] = [
        (
            METHODS.title(method),
            level,
            noise.mean(method, level, "f1"),
            noise.mean(method, level, "accuracy"),
            noise.loss(method) if level == _MOST else None,
            noise.mean(method, level, "support") if noise.levels[level]["support"][method] else None,
            *(noise.lead(method, level, measure) for measure in ("f1", "accuracy")),
        )
        for method in COMPARED
        for level in NOISE_LEVELS
    ]
    note = "Without any replacement searches find irrelevant passages too: few questions have as many supporting ones."
    return Table("noise", "Answers by the share of hits that irrelevant passages replace", columns, tuple(rows), note)


def _false_table(false: FalseEvidence) -> Table:
    shares = ("false answer followed", "true answer recovered", "abstained", "read a false passage")
    columns = (
        Column("method"),
        *(Column(name, "share of questions", bounded=True) for name in shares),
        Column("support", "share of supporting passages retained", bounded=True),
        Column(f"{METHODS.title(METHOD)} follows", "difference to this method", bounded=True),
        Column(f"{METHODS.title(METHOD)} recovers", "difference to this method", bounded=True),
    )
    rows = tuple(
        (
            METHODS.title(method),
            *(false.rate(method, name) for name in RATES),
            *(false.lead(method, name) for name in ("follows_false", "recovers_true")),
        )
        for method in COMPARED
    )
    note = (
        "On the questions that all methods finished. An answer follows if it has the false answer and not the true "
        "one; the others said something else. False passages take the place of true ones first: where little support "
        "is left, there is little to recover from."
    )
    return Table("counterfactual", f"With up to {_COUNTERFACTUAL:.0%} false passages", columns, rows, note)


def _source_table(found: _Measured) -> Table:
    columns = (
        Column("source"),
        Column("AUC of answerability", bounded=True),
        Column("states", "with a known outcome"),
        Column("belief in conflict", "mean", bounded=True),
        Column("conflict gate fires", "share of states", bounded=True),
    )
    rows = tuple((s.name, found.areas[s.name], s.states, s.conflict, s.gate) for s in found.sources)
    title = f"The calibrator and the conflict gate of {METHODS.title(METHOD)} by the source of evidence"
    note = (
        f"The AUC is the simple mean over datasets with at least {MIN_QUESTIONS} questions that have a right answer "
        f"and {MIN_QUESTIONS} that have a wrong one."
    )
    return Table("sources", title, columns, rows, note)


def _collect_numbers(found: _Measured) -> dict[str, Any]:
    noise, others = found.noise, [method for method in COMPARED if method != METHOD]
    return {
        "noise": {
            method: {
                f"{level:g}": {measure: noise.mean(method, level, measure) for measure in ("f1", "accuracy")}
                for level in NOISE_LEVELS
            }
            for method in COMPARED
        },
        "ahead_at_most_noise": {
            method: {measure: noise.lead(method, _MOST, measure) for measure in ("f1", "accuracy")} for method in others
        },
        "f1_lost": {method: noise.loss(method) for method in COMPARED},
        "counterfactual": {"share": _COUNTERFACTUAL, **_rates(found.false)},
        "counterfactual_against": {
            method: {name: found.false.lead(method, name) for name in RATES} for method in others
        },
        "sources": {
            s.name: {"auc": found.areas[s.name], "states": s.states, "conflict": s.conflict, "gate": s.gate}
            for s in found.sources
        },
        "auc_shift": found.shift,
    }


def _write_notes(found: _Measured, recordings: Mapping[str, Recording], context: StudyContext) -> Iterator[str]:
    yield f"An answer is right by {context.label}; an abstention is not."
    ordinary, web = (recordings[name].run for name in (ORDINARY_RUN, noise_run(0.0)))
    if what := find_difference(ordinary, web):
        yield f"The runs of ordinary evidence and of web snippets differ in the {what} too, not in their source alone."
    if found.noise.left_out:
        yield (
            f"{found.noise.left_out} questions are left out of the noise: not every method finished them at every "
            "level."
        )
    if found.false.left_out:
        yield f"{found.false.left_out} questions are left out of the rates: not every method finished them."
    for name, recording in recordings.items():
        methods = (METHOD,) if name == ORDINARY_RUN else COMPARED
        if sentence := recording.describe_missing(*methods):
            yield f"Run {name}: {sentence}"


def _paper_values(found: _Measured) -> tuple[PaperValue, ...]:
    rates = _rates(found.false)
    others = [rate for m in COMPARED if m != METHOD and (rate := rates[m]["follows_false"]) is not None]
    ordinary, web, false = found.sources
    return compare_with_paper(
        {
            **{f"noise80_{method}": found.noise.mean(method, _MOST, "accuracy") for method in reversed(COMPARED)},
            "false_followed": rates[METHOD]["follows_false"],
            "false_followed_least": min(others, key=lambda rate: rate.value) if others else None,
            "false_followed_most": max(others, key=lambda rate: rate.value) if others else None,
            "true_recovered": rates[METHOD]["recovers_true"],
            "auc_wikipedia": found.areas[ordinary.name],
            "auc_web": found.areas[web.name],
            "gate_conflict_counterfactual": false.gate,
            "gate_conflict_ordinary": ordinary.gate,
        }
    )
