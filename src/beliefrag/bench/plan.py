"""What a run still has to do, and about what that will cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from beliefrag.bench.results import Episode, EpisodeKey
from beliefrag.bench.setup import Course

__all__ = ["Estimate", "Plan", "make_plan"]

_SECONDS_PER_CALL = 3.0


@dataclass(frozen=True, slots=True)
class _Figure:
    """What an episode of one method takes."""

    calls: float
    tokens: float


_TYPICAL = {
    "no_rag": _Figure(1, 200),
    "static": _Figure(1, 1_100),
    "iterative": _Figure(3, 4_500),
    "adaptive_k": _Figure(1, 1_500),
    "adaptive_rag": _Figure(2, 2_500),
    "self_rag": _Figure(4, 3_500),
    "crag": _Figure(5, 5_000),
    "rl_search": _Figure(3, 4_000),
    "ircot": _Figure(4, 5_500),
    "flare": _Figure(4, 4_500),
    "uncertainty_gate": _Figure(2, 1_300),
    "beliefrag": _Figure(6, 6_500),
}
"""Rough sizes with top-k 5 and passages of about a hundred words, until the run itself has measured better ones."""
_JUDGE = _Figure(1, 250)


@dataclass(frozen=True, slots=True)
class Estimate:
    """About what is ahead. Money is left out: prices differ between contracts, and a wrong one is worse than none."""

    calls: int
    tokens: int
    seconds: float
    measured: bool
    """Whether it rests on episodes of this run, for every method."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The episodes of a run, by what is to be done with them."""

    to_play: tuple[EpisodeKey, ...]
    """Never tried, or failed."""
    to_judge: tuple[EpisodeKey, ...]
    """Finished, without a verdict."""
    done: int
    failed_before: int
    estimate: Estimate

    @property
    def total(self) -> int:
        """All episodes that were asked for."""
        return len(self.to_play) + len(self.to_judge) + self.done


def make_plan(
    courses: Mapping[str, Course],
    episodes: Mapping[EpisodeKey, Episode],
    *,
    seed: int,
    judging: bool,
    at_once: int,
) -> Plan:
    """What is left to do.

    All methods of a question come one after the other, so that a run that was stopped early still has the same
    questions for all methods, and an embedded model finds passages that it has just read.
    """
    to_play: list[EpisodeKey] = []
    to_judge: list[EpisodeKey] = []
    done = failed = 0
    for course in courses.values():
        for question_id, labelled in course.questions.items():
            for method in course.methods:
                key = EpisodeKey(course.name, method, question_id, seed)
                episode = episodes.get(key)
                if episode is None or not episode.finished:
                    to_play.append(key)
                    failed += episode is not None
                elif judging and not labelled.gold.is_set and episode.metrics.get("judge") is None:
                    to_judge.append(key)
                else:
                    done += 1
    estimate = _estimate(to_play, to_judge, episodes.values(), judging=judging, at_once=at_once)
    return Plan(tuple(to_play), tuple(to_judge), done, failed, estimate)


def _estimate(
    to_play: Iterable[EpisodeKey],
    to_judge: list[EpisodeKey],
    episodes: Iterable[Episode],
    *,
    judging: bool,
    at_once: int,
) -> Estimate:
    seen: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.finished:
            seen[episode.key.method].append(episode)
    figures = dict(_TYPICAL)
    for method, known in seen.items():
        figures[method] = _Figure(
            sum(episode.usage["calls"] for episode in known) / len(known),
            sum(episode.usage["tokens"] for episode in known) / len(known),
        )
    calls_known = sum(episode.usage["calls"] for known in seen.values() for episode in known)
    seconds_known = sum(episode.seconds for known in seen.values() for episode in known)
    per_call = seconds_known / calls_known if calls_known and seconds_known else _SECONDS_PER_CALL
    calls = tokens = 0.0
    methods: set[str] = set()
    for key in to_play:
        figure = figures.get(key.method, _TYPICAL["beliefrag"])
        methods.add(key.method)
        calls += figure.calls + _JUDGE.calls * judging
        tokens += figure.tokens + _JUDGE.tokens * judging
    calls += _JUDGE.calls * len(to_judge)
    tokens += _JUDGE.tokens * len(to_judge)
    return Estimate(round(calls), round(tokens), calls * per_call / at_once, methods <= seen.keys())
