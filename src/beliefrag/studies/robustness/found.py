"""What the runs of the study come to: noise by level, what false passages do, and the calibrator by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beliefrag.runs.episode import EpisodeSummary
from beliefrag.runs.statistics import Estimate, compare, mean_estimate
from beliefrag.studies.recording import Recording
from beliefrag.studies.robustness.runs import (
    COMPARED,
    COUNTERFACTUAL_RUN,
    LEVELS,
    METHOD,
    ORDINARY_RUN,
    noise_run,
)
from beliefrag.studies.robustness.sources import Source, difference, mean_area, source_of
from beliefrag.studies.study import StudyOptions
from beliefrag.studies.variants import accuracy

__all__ = ["MOST", "RATES", "Found", "Level", "Misled", "find", "misled_by", "noise_levels"]

MOST = max(LEVELS)
RATES = ("follows_false", "recovers_true", "abstained", "false_read", "support")


@dataclass(frozen=True, slots=True)
class Misled:
    """What false passages do to the methods, on the questions that all of them finished."""

    values: Mapping[str, Mapping[str, Mapping[str, float]]]
    """By method, measure and question."""
    questions: int
    left_out: int
    """Questions that only some of the methods finished."""

    def rate(self, method: str, measure: str) -> Estimate | None:
        """The share of questions, or of their supporting passages; None where there is none."""
        own = self.values[method][measure]
        return mean_estimate(own).without_flat_interval() if own else None

    def difference(self, method: str, measure: str) -> Estimate | None:
        """How far BeliefRAG's share lies from this method's, on the same questions; None where there is none."""
        if not self.values[method][measure] or method == METHOD:
            return None
        own, other = ({measure: self.values[each][measure]} for each in (METHOD, method))
        return compare(own, other).measures[measure].difference.without_flat_interval()


@dataclass(frozen=True, slots=True)
class Level:
    """What the methods came to at one level of noise, on the questions that all finished at all levels."""

    f1: Mapping[str, Mapping[str, float]]
    """By method and question."""
    accuracy: Mapping[str, Mapping[str, float]]
    support: Mapping[str, Mapping[str, float]]
    """The share of supporting passages that were retained at the end, where questions have any."""


@dataclass(frozen=True, slots=True)
class Found:
    """All of it."""

    levels: Mapping[float, Level]
    """By the share of noise; empty where too few questions were finished at every level."""
    dropped: int
    """Questions that are left out of the levels."""
    misled: Misled
    sources: tuple[Source, Source, Source]
    """Ordinary evidence, web snippets, counterfactual evidence."""
    areas: Mapping[str, Estimate | None]
    """The calibrator's AUC by source."""
    shift: Estimate | None
    """How far it lies on web snippets from that on ordinary evidence."""

    def f1(self, method: str, level: float) -> Estimate:
        """The mean F1 of a method at a level of noise."""
        return mean_estimate(self.levels[level].f1[method]).without_flat_interval()

    def accuracy(self, method: str, level: float) -> Estimate:
        """The share of right answers of a method at a level of noise."""
        return mean_estimate(self.levels[level].accuracy[method]).without_flat_interval()

    def support(self, method: str, level: float) -> Estimate | None:
        """The share of supporting passages that a method retained at the end; None where no question has any."""
        own = self.levels[level].support[method]
        return mean_estimate(own).without_flat_interval() if own else None

    def ahead(self, method: str, level: float, measure: str) -> Estimate | None:
        """How far BeliefRAG's F1 or accuracy lies from this method's, on the same questions; None for itself."""
        if method == METHOD:
            return None
        values = getattr(self.levels[level], measure)
        own, other = ({measure: values[each]} for each in (METHOD, method))
        return compare(own, other).measures[measure].difference.without_flat_interval()

    def lost(self, method: str) -> Estimate:
        """How far F1 at most noise lies from F1 without any, on the same questions."""
        worst, clean = ({"f1": self.levels[level].f1[method]} for level in (MOST, 0.0))
        return compare(worst, clean).measures["f1"].difference.without_flat_interval()


def find(recordings: Mapping[str, Recording], asked: StudyOptions) -> Found:
    """Works everything out."""
    levels, dropped = noise_levels(recordings, asked)
    ordinary, web, false = (recordings[name] for name in (ORDINARY_RUN, noise_run(0.0), COUNTERFACTUAL_RUN))
    sources = (
        source_of("ordinary", ordinary, METHOD, asked.label, ordinary.datasets),
        source_of("web snippets", web, METHOD, asked.label, web.datasets),
        source_of("counterfactual", false, METHOD, asked.label, false.datasets),
    )
    return Found(
        levels=levels,
        dropped=dropped,
        misled=misled_by(false),
        sources=sources,
        areas={source.name: mean_area(source) for source in sources},
        shift=difference(sources[1], sources[0]),
    )


def noise_levels(recordings: Mapping[str, Recording], asked: StudyOptions) -> tuple[dict[float, Level], int]:
    """The levels, on the questions that every method finished at every level; and how many others there are."""
    f1: dict[tuple[float, str], dict[str, float]] = {}
    right: dict[tuple[float, str], dict[str, float]] = {}
    for level in LEVELS:
        recording = recordings[noise_run(level)]
        for method in COMPARED:
            for name in recording.datasets:
                own = recording.values(method, name, "f1")
                f1.setdefault((level, method), {}).update({f"{name}/{key}": value for key, value in own.items()})
                label = accuracy(recording, method, name, asked.label)
                right.setdefault((level, method), {}).update({f"{name}/{key}": value for key, value in label.items()})
    if len(f1) < len(LEVELS) * len(COMPARED):
        return {}, 0
    ids = [set(values) for values in (*f1.values(), *right.values())]
    shared = sorted(set.intersection(*ids))
    dropped = len(set.union(*ids)) - len(shared)
    if len(shared) < 2:
        return {}, dropped
    return {
        level: Level(
            {method: {key: f1[level, method][key] for key in shared} for method in COMPARED},
            {method: {key: right[level, method][key] for key in shared} for method in COMPARED},
            {method: _supported(recordings[noise_run(level)], method, shared) for method in COMPARED},
        )
        for level in LEVELS
    }, dropped


def _supported(recording: Recording, method: str, shared: Sequence[str]) -> dict[str, float]:
    found = {
        f"{name}/{key}": value
        for name in recording.datasets
        for key, value in recording.values(method, name, "evidence_recall").items()
    }
    return {key: found[key] for key in shared if key in found}


def misled_by(recording: Recording) -> Misled:
    """How often each method follows the false answer, has the true one, abstains, and read a false passage at all.

    And the share of supporting passages that it retained at the end: what it could recover from.
    """
    told = {method: {_question(e): e for e in recording.of(method) if _was_told(e)} for method in COMPARED}
    shared = sorted(set.intersection(*map(set, told.values())))
    left_out = len(set.union(*map(set, told.values()))) - len(shared)
    return Misled({method: _ends([own[key] for key in shared]) for method, own in told.items()}, len(shared), left_out)


def _was_told(episode: EpisodeSummary) -> bool:
    return episode.finished and episode.metrics.get("follows_false") is not None


def _ends(episodes: Sequence[EpisodeSummary]) -> dict[str, dict[str, float]]:
    return {
        "follows_false": {_question(e): float(e.metrics["follows_false"] or 0.0) for e in episodes},
        "recovers_true": {_question(e): float(e.metrics["recovers_true"] or 0.0) for e in episodes},
        "abstained": {_question(e): float(e.outcome == "abstained") for e in episodes},
        "false_read": {_question(e): float((e.metrics["false_read"] or 0.0) > 0) for e in episodes},
        "support": {_question(e): own for e in episodes if (own := e.metrics.get("evidence_recall")) is not None},
    }


def _question(episode: EpisodeSummary) -> str:
    return f"{episode.key.dataset}/{episode.key.question_id}"
