"""What happens when evidence is imperfect: irrelevant passages, false ones, and evidence of another source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.quality import auc
from beliefrag.methods import METHODS
from beliefrag.report.figure import draw_bars, draw_curves, label_axes
from beliefrag.report.table import Column, Table, format_number
from beliefrag.runs.record import Injection, thresholds_of
from beliefrag.runs.states import Label, Trajectory
from beliefrag.runs.statistics import Estimate, Floats, compare, estimate_from_resamples, random_generator
from beliefrag.studies.study import (
    METHOD,
    STUDIES,
    WITH_FALSE_PASSAGES,
    WITH_NOISE,
    Compared,
    PaperValue,
    Recording,
    RequiredRun,
    StateTable,
    StudyContext,
    StudyResult,
    compare_with_paper,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = ("static", "iterative", "crag", METHOD)
NOISE_LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
_MOST = max(NOISE_LEVELS)
_NOISE_MEASURES = {
    f"{measure}_{level:g}": Column(f"{name} at {level:.0%}")
    for measure, name in (("f1", "F1"), ("accuracy", "accuracy"))
    for level in NOISE_LEVELS
}
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
        sample = (
            f"Noise: {sum(noise.questions.values()):,} questions by {len(COMPARED)} methods at {len(NOISE_LEVELS)} "
            f"levels. Counterfactual: {sum(false.questions.values()):,} questions."
        )
        if not noise.scopes:
            why = "Every method must have finished at least two questions at every level."
            return StudyResult.insufficient(why, sample=sample)
        areas = {name: mean_auc(source) for name, source in sources.items()}
        shift = auc_difference(sources["web snippets"], sources["ordinary"])
        notes = [f"An answer is right by {context.label}; an abstention is not."]
        notes += [f"Noise: {note}" for note in noise.notes()] + [f"False passages: {note}" for note in false.notes()]
        for name, recording in recordings.items():
            methods = (METHOD,) if name == ORDINARY_RUN else COMPARED
            notes += [f"Run {name}: {sentence}" for sentence in recording.missing_notes(*methods)]
        share = f"up to {_COUNTERFACTUAL:.0%} false passages"
        tables = [
            noise.means_table(
                "noise",
                "Answers with irrelevant passages",
                "At the share of hits that irrelevant passages replace; searches find others by themselves.",
                lambda _, method: {"F1 lost": _find_loss(noise, method)},
            ),
            noise.differences_table("noise_differences"),
        ]
        if false.scopes:
            note = "False passages replace true ones first: little support is left to recover from."
            tables.append(false.means_table("counterfactual", f"With {share}", note))
            tables.append(false.differences_table("counterfactual_differences"))
        by_source = ", ".join(f"{name} {format_number(each)}" for name, each in areas.items())
        return StudyResult(
            sample=sample,
            findings=(
                *noise.findings(f"f1_{_MOST:g}"),
                *(f"With {share}: {text}" for text in false.findings("follows_false", "recovers_true")),
                f"AUC by source: {by_source}; web snippets minus ordinary {format_number(shift, '+.3f')}.",
            ),
            numbers={"auc_shift": shift, "false_passages": _COUNTERFACTUAL},
            tables=(*tables, _source_table(sources, areas)),
            notes=tuple(notes),
            paper_values=_paper_values(noise, false, areas, sources),
            paper_note="Theirs is the accuracy by an LLM judge on RGB with gpt-oss-120b and RGB's own noise; how many "
            "of the passages were false is not said.",
            draw=partial(_draw_robustness, noise, false, areas),
            figure_size=(12.0, 4.4),
            caption="F1 by noise, outcomes with false passages, and AUC by source. Lines are 95 % intervals.",
        )


def compare_noise(recordings: Mapping[str, Recording], label: Label) -> Compared:
    """Compare the methods in F1 and accuracy at each level, on the questions that all finished at all levels."""

    def read(method: str, _: str, name: str) -> dict[str, float]:
        measure, level = name.split("_")
        values = recordings[noise_run(float(level))].pooled(method, "f1" if measure == "f1" else label)
        return values if measure == "f1" else {key: float(value >= 0.5) for key, value in values.items()}

    return Compared.on_shared_questions(COMPARED, ["all"], read, _NOISE_MEASURES)


def _find_loss(noise: Compared, method: str) -> Estimate:
    """Return the paired difference in F1 from no irrelevant passages to the most."""
    most, none = ({"f1": noise.values[method]["all"][f"f1_{level:g}"]} for level in (_MOST, 0.0))
    return compare(most, none).measures["f1"].difference.without_flat_interval()


def compare_on_false_evidence(recording: Recording) -> Compared:
    """Compare the methods on the questions with a false answer that all of them finished."""

    def read(method: str, _: str, rate: str) -> dict[str, float]:
        found = {}
        for episode in recording.episodes_of(method):
            if episode.finished and episode.metrics.get("follows_false") is not None:
                value = episode.metrics.get(rate) or 0.0
                if rate == "abstained":
                    value = episode.outcome == "abstained"
                elif rate == "false_read":
                    value = value > 0
                found[f"{episode.key.dataset}/{episode.key.question_id}"] = float(value)
        return found

    return Compared.on_shared_questions(COMPARED, ["all"], read, _RATES, min_questions=1)


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """States of BeliefRAG on evidence of one source."""

    examples: Mapping[str, Examples]
    """By dataset, the states with an answer that is known to be right or wrong; without datasets with too few."""
    gate: Estimate | None
    """The share of states with evidence at which conflict is at its threshold."""

    @classmethod
    def from_recording(cls, recording: Recording, label: Label) -> EvidenceSource:
        """Select the states of a run with a drafted answer; without any, the last state of each episode."""
        own = recording.trajectories_of(METHOD)
        states = StateTable(own)
        fires = states.column(lambda state: state.belief.conflict) >= thresholds_of(recording.run).conflict
        found = {d: _find_examples([t for t in own if t.dataset == d], recording, label) for d in recording.datasets}
        counts = {name: examples.count for name, examples in found.items()}
        least = {name: min(each.questions_positive, each.questions_negative) for name, each in counts.items()}
        return cls(
            examples={name: examples for name, examples in found.items() if least[name] >= _MIN_QUESTIONS},
            gate=states.mean(fires.astype(np.float64)) if len(states) else None,
        )

    @property
    def fewest_questions(self) -> int:
        """How many questions the smallest dataset has."""
        return min(len(own.question_ids) for own in self.examples.values())

    def resample_auc(self) -> tuple[float, Floats]:
        """Return the AUC of answerability, the simple mean over datasets, and its resamples."""
        values, drawn = [], []
        for place, own in enumerate(self.examples.values()):
            p = np.array([example.state.answerability for example in own.each], dtype=np.float64)
            values.append(float(auc(p, own.outcomes, own.weights)))
            # Every dataset is drawn by the same seed: without another order their draws would be correlated.
            drawn.append(random_generator((0, place)).permutation(own.resample(partial(auc, p, own.outcomes))))
        return float(np.mean(values)), np.mean(drawn, axis=0)


def _find_examples(trajectories: list[Trajectory], recording: Recording, label: Label) -> Examples:
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
    """Return the AUC of answerability with its interval; None if no dataset has enough questions."""
    if not source.examples:
        return None
    return estimate_from_resamples(*source.resample_auc(), questions=source.fewest_questions)


def auc_difference(one: EvidenceSource, other: EvidenceSource) -> Estimate | None:
    """Return the AUC on one source minus that on the other; None if either has none."""
    if not (one.examples and other.examples):
        return None
    (value, drawn), (against, drawn_against) = one.resample_auc(), other.resample_auc()
    # The sources have no question in common: their draws are combined in another order.
    shuffled = random_generator(1).permutation(drawn_against)
    questions = min(one.fewest_questions, other.fewest_questions)
    return estimate_from_resamples(value - against, drawn - shuffled, questions=questions)


Areas = Mapping[str, Estimate | None]


def _source_table(sources: Mapping[str, EvidenceSource], areas: Areas) -> Table:
    records = [
        {"source": name, "AUC of answerability": areas[name], "conflict gate fires (share of states)": source.gate}
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
            **{f"noise80_{method}": noise.mean(method, f"accuracy_{_MOST:g}") for method in reversed(COMPARED)},
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
    curves = {m: [(100 * level, noise.mean(m, f"f1_{level:g}")) for level in NOISE_LEVELS] for m in COMPARED}
    draw_curves(curves_axes, {METHODS.title(method): points for method, points in curves.items()}, apart=1.2)
    shown = ("follows_false", "recovers_true", "abstained")
    rates = {METHODS.title(method): [false.mean(method, rate) for rate in shown] for method in COMPARED}
    draw_bars(false_axes, "False passages", "share of questions", [_RATES[rate].name for rate in shown], rates)
    by_source = {"": list(areas.values())}
    draw_bars(
        source_axes, "The calibrator by source", "AUC (0.5: no signal)", list(areas), by_source, form=".2f", line=0.5
    )
    for axes in (curves_axes, false_axes, source_axes):
        axes.set_ylim(0, 1.03)
