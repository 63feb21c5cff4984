"""What a run still has to do, and about what that will take in calls, tokens and time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from beliefrag.bench.setup import Setup
from beliefrag.methods import typical_cost
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.registry import TypicalCost
from beliefrag.types import Usage

__all__ = ["JUDGE", "CostEstimate", "Pace", "Plan", "make_plan", "model_pace"]


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An estimate of what is ahead, in calls, tokens and time."""

    methods: Usage
    """Calls and tokens of the methods."""
    judge: Usage
    """Calls and tokens of the judge, which are in no method's cost."""
    seconds: float
    measured: bool
    """Whether it rests on episodes of this run, for every method."""
    unknown: tuple[str, ...] = ()
    """Methods that are not in it, because nobody has said what they typically cost."""

    @property
    def calls(self) -> int:
        """All calls, whoever asks."""
        return self.methods.calls + self.judge.calls


@dataclass(frozen=True, slots=True)
class Plan:
    """The episodes of a run, by what is to be done with them."""

    to_play: tuple[EpisodeKey, ...]
    """Episodes that were never tried, then those that failed."""
    to_judge: tuple[EpisodeKey, ...]
    """Finished episodes without a verdict: never judged, then those on which the judge failed."""
    done: int
    failed_before: int
    estimate: CostEstimate

    @property
    def left(self) -> int:
        """The episodes that something is still to be done with."""
        return len(self.to_play) + len(self.to_judge)

    @property
    def total(self) -> int:
        """All episodes that were asked for."""
        return self.left + self.done


def make_plan(setup: Setup, episodes: Mapping[EpisodeKey, EpisodeSummary], *, at_once: int) -> Plan:
    """Gives what is left to do.

    All methods of a question come one after the other, so that a run that was stopped early still has the same
    questions for all methods, and an embedded model finds passages that it has just read. What failed comes last, and
    first of it what was tried the longest ago: whatever keeps failing, every attempt to go on gets to something else.

    Args:
        setup: What is wanted.
        episodes: What there is.
        at_once: How many episodes at a time.
    """
    untried: list[EpisodeKey] = []
    failed: list[EpisodeSummary] = []
    to_judge: list[EpisodeSummary] = []
    done = verdicts = 0
    for course in setup.datasets.values():
        for question_id, labelled in course.questions.items():
            judging = setup.judge is not None and not labelled.gold.is_set
            for method in course.methods:
                key = EpisodeKey(course.name, method, question_id, setup.record.seed)
                episode = episodes.get(key)
                if episode is None:
                    untried.append(key)
                    verdicts += judging
                elif not episode.finished:
                    failed.append(episode)
                    verdicts += judging
                elif judging and episode.metrics.get("judge") is None:
                    to_judge.append(episode)
                    verdicts += 1
                else:
                    done += 1
    places = {key: place for place, key in enumerate(episodes)}
    failed.sort(key=lambda episode: places[episode.key])
    to_judge.sort(key=lambda episode: (bool(episode.judge_failure), places[episode.key]))
    to_play = (*untried, *(episode.key for episode in failed))
    estimate = _estimate(setup, to_play, verdicts, episodes.values(), at_once=at_once)
    return Plan(to_play, tuple(episode.key for episode in to_judge), done, len(failed), estimate)


def _estimate(
    setup: Setup, to_play: Sequence[EpisodeKey], verdicts: int, episodes: Iterable[EpisodeSummary], *, at_once: int
) -> CostEstimate:
    seen: dict[str, list[EpisodeSummary]] = defaultdict(list)
    for episode in episodes:
        if episode.finished:
            seen[episode.key.method].append(episode)
    ahead = Counter(key.method for key in to_play)
    methods = TypicalCost(0, 0, 0)
    unknown: list[str] = []
    for method, count in ahead.items():
        cost = (
            _mean_cost(seen[method]) if method in seen else typical_cost(method, setup.record.setups[method].verifier)
        )
        if cost is None:
            unknown.append(method)
        else:
            methods += cost.times(count)
    judge = JUDGE.times(verdicts)
    seconds = model_pace(setup.record.model).seconds(methods) * _slowness(setup.record.model, seen)
    if setup.judge is not None:
        seconds += model_pace(setup.judge.identity).seconds(judge)
    return CostEstimate(
        _round_usage(methods), _round_usage(judge), seconds / at_once, ahead.keys() <= seen.keys(), tuple(unknown)
    )


def _mean_cost(episodes: Sequence[EpisodeSummary]) -> TypicalCost:
    calls, tokens_in, tokens_out = (
        sum(getattr(episode.usage, name) for episode in episodes) / len(episodes)
        for name in ("calls", "tokens_in", "tokens_out")
    )
    return TypicalCost(calls, tokens_in, tokens_out)


def _slowness(model: str, seen: Mapping[str, Sequence[EpisodeSummary]]) -> float:
    """Gives the time that the episodes so far took, divided by their estimate; 1 where there are none."""
    took = sum(episode.usage.seconds for episodes in seen.values() for episode in episodes)
    expected = sum(model_pace(model).seconds(_mean_cost(episodes).times(len(episodes))) for episodes in seen.values())
    return took / expected if took and expected else 1.0


def _round_usage(figure: TypicalCost) -> Usage:
    return Usage(calls=round(figure.calls), tokens_in=round(figure.tokens_in), tokens_out=round(figure.tokens_out))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a kind of model is."""

    seconds_per_call: float = 0.0
    seconds_per_token_in: float = 0.0
    seconds_per_token_out: float = 0.0

    def seconds(self, figure: TypicalCost) -> float:
        """Says how long these calls and tokens take, one call after another."""
        tokens = figure.tokens_in * self.seconds_per_token_in + figure.tokens_out * self.seconds_per_token_out
        return figure.calls * self.seconds_per_call + tokens


JUDGE = TypicalCost(1, 190, 2)

_EMBEDDED = Pace(seconds_per_token_in=1 / 150, seconds_per_token_out=1 / 8)
"""Over whole episodes on two busy cores; what prompts have in common with the one before is read only once."""
_ENDPOINT = Pace(seconds_per_call=1.0, seconds_per_token_out=1 / 60)
"""A guess: servers differ by a factor of ten."""
_SCRIPT = Pace()


def model_pace(identity: str) -> Pace:
    """Says how fast a model is, by what kind it is."""
    kind = identity.partition(":")[0]
    return {"local": _EMBEDDED, "scripted": _SCRIPT}.get(kind, _ENDPOINT)
