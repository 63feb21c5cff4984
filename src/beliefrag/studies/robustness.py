"""What happens when evidence is imperfect: irrelevant passages, false ones, and evidence of another source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.quality import auc
from beliefrag.methods import METHODS
from beliefrag.report.figure import draw_bars, draw_curves, label_axes
from beliefrag.report.table import CellValue, Column, Table, format_number
from beliefrag.runs.record import Injection, thresholds_of
from beliefrag.runs.states import Label, Trajectory
from beliefrag.runs.statistics import Estimate, Floats, compare, estimate_from_resamples, random_generator
from beliefrag.studies.study import (
    METHOD,
    STUDIES,
    WITH_FALSE_PASSAGES,
    WITH_NOISE,
    Compared,
    Extra,
    PaperValue,
    Recording,
    RequiredRun,
    StateTable,
    StudyContext,
    StudyResult,
    compare_with_paper,
    find_difference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RobustnessStudy"]

COMPARED = ("static", "iterative", "crag", METHOD)
"""The methods that the text of the paper gives numbers for."""
NOISE_LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Shares of irrelevant passages."""
_MOST = max(NOISE_LEVELS)
_RATES = {
    "follows_false": Column("false answer followed", "share of questions"),
    "recovers_true": Column("true answer recovered", "share of questions"),
    "abstained": Column("abstained", "share of questions"),
    "false_read": Column("read a false passage", "share of questions"),
}
_MIN_QUESTIONS = 5
"""Questions with a right answer, and as many with a wrong one, that an AUC needs."""
_COUNTERFACTUAL = 0.4
"""The share of false passages: two of five hits. The paper gives none."""
COUNTERFACTUAL_RUN = f"counterfactual_{100 * _COUNTERFACTUAL:02.0f}"
ORDINARY_RUN = "comparison"
"""The run in which other studies compare methods: ordinary questions and evidence."""


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
        "Noise: irrelevant passages replace a share of what each search finds, in the same places and scores.",
        "Irrelevant passages share no content word with the question or the query, and do not hold the answer.",
        f"Counterfactual: RGB's own false passages replace up to {_COUNTERFACTUAL:.0%} of the hits, true ones first.",
        "Injection is seeded by question and query: all methods face the same, and more noise includes less noise.",
        "An answer follows if it has the false answer and not the true one; it recovers if it has the true one.",
        "Source: answerability at the states of BeliefRAG's episodes, against whether the answer there is right.",
        "The conflict gate fires where the belief in conflict is at its threshold, at states with evidence.",
        "Intervals resample questions, 2,000 times, each with all its states.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name a run for each level of noise, one with false passages, and the ordinary one."""
        noisy = (
            RequiredRun(noise_run(level), COMPARED, WITH_NOISE, injection=Injection(noise=level), splits=("noise",))
            for level in NOISE_LEVELS
        )
        lies = Injection(counterfactual=_COUNTERFACTUAL)
        false = RequiredRun(COUNTERFACTUAL_RUN, COMPARED, WITH_FALSE_PASSAGES, injection=lies, splits=("fact",))
        return (*noisy, false, RequiredRun(ORDINARY_RUN, (METHOD,)))

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute answers by noise, the effect of false passages, and the AUC of the calibrator by source."""
        noise = compare_noise(recordings, context.label)
        false = compare_on_false_evidence(recordings[COUNTERFACTUAL_RUN])
        runs = {"ordinary": ORDINARY_RUN, "web snippets": noise_run(0.0), "counterfactual": COUNTERFACTUAL_RUN}
        sources = {s: EvidenceSource.from_recording(recordings[name], context.label) for s, name in runs.items()}
        states = ", ".join(f"{source.states:,} of {name}" for name, source in sources.items())
        sample = (
            f"Noise: {sum(noise.questions.values()):,} questions by {len(COMPARED)} methods at {len(NOISE_LEVELS)} "
            f"levels. Counterfactual: {sum(false.questions.values()):,} questions. States with an outcome: {states}."
        )
        if not noise.scopes:
            why = "Every method must have finished at least two questions at every level."
            return StudyResult.insufficient(why, sample=sample)
        areas = {name: mean_auc(source) for name, source in sources.items()}
        shift = auc_difference(sources["web snippets"], sources["ordinary"])
        lost = {m: _difference(noise, (m, _key("f1", _MOST)), (m, _key("f1", 0.0))) for m in COMPARED}
        notes = [f"An answer is right by {context.label}; an abstention is not."]
        notes += [f"Noise: {note}" for note in noise.notes()] + [f"False passages: {note}" for note in false.notes()]
        for name, recording in recordings.items():
            methods = (METHOD,) if name == ORDINARY_RUN else COMPARED
            notes += [f"Run {name}: {sentence}" for sentence in recording.missing_notes(*methods)]
        if what := find_difference(recordings[ORDINARY_RUN].run, recordings[noise_run(0.0)].run):
            notes.append(f"The runs of ordinary evidence and of web snippets also differ in the {what}.")

        def show_support(_: str, method: str) -> dict[str, CellValue]:
            means = {f"support at {level:.0%}": noise.mean(method, f"support_{level:g}") for level in NOISE_LEVELS}
            return {"F1 lost": lost[method], **means}

        note = (
            "At the share of hits that irrelevant passages replace; searches find others by themselves. Support: the "
            "share of supporting passages that was retained."
        )
        false_note = (
            "On the questions that all methods finished. False passages replace true ones first: where little support "
            "is left, there is little to recover from."
        )
        share = f"up to {_COUNTERFACTUAL:.0%} false passages"
        tables = [noise.means_table("noise", "Answers with irrelevant passages", note, show_support)]
        tables.append(noise.differences_table("noise_differences"))
        if false.scopes:
            support: Extra = lambda _, method: {"support (share retained)": false.mean(method, "support")}  # noqa: E731
            tables.append(false.means_table("counterfactual", f"With {share}", false_note, support))
            gap: Extra = lambda _, method: {  # noqa: E731
                "support difference": _difference(false, (METHOD, "support"), (method, "support"))
            }
            tables.append(false.differences_table("counterfactual_differences", extra=gap))
        return StudyResult(
            sample=sample,
            findings=(
                *noise.findings(_key("f1", _MOST)).values(),
                *(
                    f"{METHODS.title(m)} with {_MOST:.0%} of its hits replaced: F1 {format_number(each, '+.3f')}."
                    for m, each in lost.items()
                ),
                *(f"With {share}: {text}" for text in false.findings("follows_false", "recovers_true").values()),
                _describe_sources(areas, shift),
            ),
            numbers={"auc_shift": shift, "f1_lost": lost, "false_passages": _COUNTERFACTUAL},
            tables=(*tables, _source_table(sources, areas)),
            notes=tuple(notes),
            paper_values=_paper_values(noise, false, areas, sources),
            paper_note="Theirs is the accuracy by an LLM judge on RGB with gpt-oss-120b; how many of the passages were "
            f"false is not said. Ours is by {context.label} with another model. RGB's own noise is about the "
            "question's subject; here what replaces a hit shares no content word with the question.",
            draw=partial(_draw_robustness, noise, false, areas),
            figure_size=(12.0, 4.4),
            caption="F1 by the share of hits that irrelevant passages replace; the outcome when up to "
            f"{_COUNTERFACTUAL:.0%} of the passages are false; and the AUC of answerability by the source of the "
            "evidence. Lines across marks and bars are 95 % intervals.",
        )


def _key(measure: str, level: float) -> str:
    return f"{measure}_{level:g}"


_NOISE_MEASURES = {_key("f1", level): Column(f"F1 at {level:.0%}") for level in NOISE_LEVELS} | {
    _key("accuracy", level): Column(f"accuracy at {level:.0%}") for level in NOISE_LEVELS
}


def compare_noise(recordings: Mapping[str, Recording], label: Label) -> Compared:
    """Compare the methods in F1 and accuracy at each level, on the questions that all finished at all levels."""
    values: dict[str, Any] = {method: {"all": {}} for method in COMPARED}
    for level in NOISE_LEVELS:
        recording = recordings[noise_run(level)]
        for method in COMPARED:
            right = {key: float(value >= 0.5) for key, value in recording.pooled(method, label).items()}
            found = {"f1": recording.pooled(method, "f1"), "accuracy": right}
            found["support"] = recording.pooled(method, "evidence_recall")
            values[method]["all"] |= {_key(measure, level): own for measure, own in found.items()}
    return Compared.on_shared_questions(values, _NOISE_MEASURES)


def _difference(found: Compared, one: tuple[str, str], other: tuple[str, str]) -> Estimate | None:
    """Return the paired difference of two columns, each given by method and measure; None if they are empty."""
    first, second = ({"": found.column(*each, "all")} for each in (one, other))
    return compare(first, second).measures[""].difference.without_flat_interval() if first[""] else None


def compare_on_false_evidence(recording: Recording) -> Compared:
    """Compare the methods on the questions with a false answer that all of them finished."""
    values: dict[str, Any] = {m: {"all": {rate: {} for rate in (*_RATES, "support")}} for m in COMPARED}
    for method in COMPARED:
        for episode in recording.episodes_of(method):
            metrics = episode.metrics
            if episode.finished and metrics.get("follows_false") is not None:
                own = {rate: metrics[rate] or 0.0 for rate in ("follows_false", "recovers_true")}
                own["abstained"] = float(episode.outcome == "abstained")
                own["false_read"] = float((metrics["false_read"] or 0.0) > 0)
                if (support := metrics.get("evidence_recall")) is not None:
                    own["support"] = support
                for rate, value in own.items():
                    values[method]["all"][rate][f"{episode.key.dataset}/{episode.key.question_id}"] = float(value)
    return Compared.on_shared_questions(values, _RATES, min_questions=1)


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """States of BeliefRAG on evidence of one source."""

    examples: Mapping[str, Examples]
    """By dataset, the states with an answer that is known to be right or wrong."""
    conflict: Estimate | None
    """Mean belief in conflict at states with evidence."""
    gate: Estimate | None
    """The share of such states at which conflict is at its threshold."""

    @classmethod
    def from_recording(cls, recording: Recording, label: Label) -> EvidenceSource:
        """Select the states of a run with a drafted answer; without any, the last state of each episode."""
        own = recording.trajectories_of(METHOD)
        states = StateTable(own)
        conflict = states.column(lambda state: state.belief.conflict)
        fires = (conflict >= thresholds_of(recording.run).conflict).astype(np.float64)
        by_dataset = {name: [t for t in own if t.dataset == name] for name in recording.datasets}
        return cls(
            examples={name: _find_examples(each, recording, label) for name, each in by_dataset.items()},
            conflict=states.mean(conflict) if len(states) else None,
            gate=states.mean(fires) if len(states) else None,
        )

    @property
    def usable(self) -> dict[str, Examples]:
        """The datasets with enough questions answered right and enough answered wrong."""
        counts = {name: own.count for name, own in self.examples.items()}
        return {
            name: self.examples[name]
            for name, count in counts.items()
            if min(count.questions_positive, count.questions_negative) >= _MIN_QUESTIONS
        }

    @property
    def states(self) -> int:
        """How many states have a known outcome."""
        return sum(len(own) for own in self.examples.values())


def _find_examples(trajectories: Sequence[Trajectory], recording: Recording, label: Label) -> Examples:
    drafted, ended = [], []
    for t in trajectories:
        for state in t.states:
            right = state.correct(label)
            if state.retained and state.answerability is not None and right is not None:
                drafted.append(Example(t.dataset, t.question_id, state, right))
        given, last = recording.values(METHOD, t.dataset, label).get(t.question_id), t.states[-1]
        if given is not None and last.retained and last.answerability is not None:
            ended.append(Example(t.dataset, t.question_id, last, given >= 0.5))
    return Examples(drafted or ended)


def mean_auc(source: EvidenceSource) -> Estimate | None:
    """Return the AUC of answerability, the simple mean over datasets; None if no dataset has enough questions."""
    if not source.usable:
        return None
    value, drawn = _resample_auc(source)
    return estimate_from_resamples(value, drawn, questions=_fewest_questions(source))


def auc_difference(one: EvidenceSource, other: EvidenceSource) -> Estimate | None:
    """Return the AUC on one source minus that on the other; None if either has none."""
    if not (one.usable and other.usable):
        return None
    (value, drawn), (against, drawn_against) = _resample_auc(one), _resample_auc(other)
    # The sources have no question in common: their draws are combined in another order.
    shuffled = random_generator(1).permutation(drawn_against)
    questions = min(_fewest_questions(one), _fewest_questions(other))
    return estimate_from_resamples(value - against, drawn - shuffled, questions=questions)


def _resample_auc(source: EvidenceSource) -> tuple[float, Floats]:
    values, drawn = [], []
    for place, own in enumerate(source.usable.values()):
        p = np.array([example.state.answerability for example in own.each], dtype=np.float64)
        values.append(float(auc(p, own.outcomes, own.weights)))
        # Every dataset is drawn by the same seed: without another order their draws would be correlated.
        drawn.append(random_generator((0, place)).permutation(own.resample(partial(auc, p, own.outcomes))))
    return float(np.mean(values)), np.mean(drawn, axis=0)


def _fewest_questions(source: EvidenceSource) -> int:
    return min(len(own.question_ids) for own in source.usable.values())


Areas = Mapping[str, Estimate | None]


def _describe_sources(areas: Areas, shift: Estimate | None) -> str:
    if shift is None:
        return (
            f"The AUC by source needs at least {_MIN_QUESTIONS} questions of each source with a right answer, and as "
            "many with a wrong one."
        )
    ordinary, web = (format_number(areas[name]) for name in ("ordinary", "web snippets"))
    return (
        f"The calibrator ranks right before wrong with AUC {ordinary} on ordinary evidence and {web} on web snippets: "
        f"{format_number(shift, '+.3f')}."
    )


def _source_table(sources: Mapping[str, EvidenceSource], areas: Areas) -> Table:
    records = [
        {
            "source": name,
            "AUC of answerability": areas[name],
            "states (with a known outcome)": source.states,
            "belief in conflict (mean)": source.conflict,
            "conflict gate fires (share of states)": source.gate,
        }
        for name, source in sources.items()
    ]
    title = f"The calibrator and the conflict gate of {METHODS.title(METHOD)} by the source of evidence"
    note = f"The AUC is the simple mean over datasets with at least {_MIN_QUESTIONS} questions of each outcome."
    return Table.of_records("sources", title, records, note)


def _paper_values(
    noise: Compared, false: Compared, areas: Areas, sources: Mapping[str, EvidenceSource]
) -> tuple[PaperValue, ...]:
    followed = (false.mean(method, "follows_false") for method in COMPARED if method != METHOD)
    others = sorted(filter(None, followed), key=lambda rate: rate.value)
    return compare_with_paper(
        {
            **{f"noise80_{method}": noise.mean(method, _key("accuracy", _MOST)) for method in reversed(COMPARED)},
            "false_followed": false.mean(METHOD, "follows_false"),
            "false_followed_least": others[0] if others else None,
            "false_followed_most": others[-1] if others else None,
            "true_recovered": false.mean(METHOD, "recovers_true"),
            "auc_wikipedia": areas["ordinary"],
            "auc_web": areas["web snippets"],
            "gate_conflict_counterfactual": sources["counterfactual"].gate,
            "gate_conflict_ordinary": sources["ordinary"].gate,
        }
    )


def _draw_robustness(noise: Compared, false: Compared, areas: Areas, figure: Figure) -> None:
    curves_axes, false_axes, source_axes = figure.subplots(1, 3, width_ratios=(1.15, 1.25, 0.8))
    label_axes(curves_axes, "Irrelevant passages", "share of hits that was replaced (%)", "mean F1")
    curves = {m: [(100 * level, noise.mean(m, _key("f1", level))) for level in NOISE_LEVELS] for m in COMPARED}
    draw_curves(curves_axes, {METHODS.title(method): points for method, points in curves.items()}, apart=1.2)
    label_axes(false_axes, "False passages", y="share of questions")
    shown = ("follows_false", "recovers_true", "abstained")
    rates = {METHODS.title(method): [false.mean(method, rate) for rate in shown] for method in COMPARED}
    draw_bars(false_axes, [_RATES[rate].name for rate in shown], rates)
    label_axes(source_axes, "The calibrator by source", y="AUC: right answers ranked before wrong ones")
    draw_bars(source_axes, list(areas), {"": list(areas.values())}, ".2f")
    source_axes.axhline(0.5, color="black", linestyle=":", linewidth=1.2)
    for axes in (curves_axes, false_axes, source_axes):
        axes.set_ylim(0, 1.03)
