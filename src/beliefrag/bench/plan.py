"""What a run still has to do, what that will take in calls, tokens and time, and how it is dealt out."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from beliefrag.bench.setup import Setup
from beliefrag.methods import typical_cost
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.registry import TypicalCost
from beliefrag.types import Usage

JUDGE = TypicalCost(1, 190, 2)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An estimate of what is ahead, in calls, tokens and time."""

    methods: Usage
    judge: Usage
    """Calls and tokens of the judge, which are in no method's cost."""
    seconds: float
    measured: bool
    """Whether it rests on episodes of this run, for every method."""
    unknown: tuple[str, ...] = ()
    """Methods that are left out because their typical cost is unknown."""

    @property
    def calls(self) -> int:
        """All calls, of methods and judge."""
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
        """The number of episodes to play or to judge."""
        return len(self.to_play) + len(self.to_judge)

    @property
    def total(self) -> int:
        """The number of all episodes."""
        return self.left + self.done


def make_plan(setup: Setup, episodes: Mapping[EpisodeKey, EpisodeSummary], *, at_once: int) -> Plan:
    """Return what is left to do, given the episodes so far.

    All methods of a question come one after the other: a run that was stopped early still has the same questions for
    all methods. What failed comes last, the oldest failure first so that an episode that always fails blocks no other.
    """
    untried: list[EpisodeKey] = []
    failed: list[EpisodeSummary] = []
    to_judge: list[EpisodeSummary] = []
    done = verdicts = 0
    for dataset in setup.datasets.values():
        for question_id, labelled in dataset.questions.items():
            judging = setup.judge is not None and not labelled.gold.is_set
            for method in dataset.methods:
                key = EpisodeKey(dataset.name, method, question_id, setup.record.seed)
                episode = episodes.get(key)
                if episode is None:
                    untried.append(key)
                elif not episode.finished:
                    failed.append(episode)
                elif judging and episode.metrics.get("judge") is None:
                    to_judge.append(episode)
                else:
                    done += 1
                    continue
                verdicts += judging
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
    means = {method: _mean_cost(own) for method, own in seen.items()}
    ahead = Counter(key.method for key in to_play)
    total, unknown = TypicalCost(0, 0, 0), []
    for method, count in ahead.items():
        cost = means.get(method) or typical_cost(method, setup.record.setups[method].verifier)
        if cost is None:
            unknown.append(method)
        else:
            total += cost.times(count)
    judge = JUDGE.times(verdicts)
    took = sum(episode.usage.seconds for own in seen.values() for episode in own)
    expected = sum(expected_seconds(setup.record.model, cost.times(len(seen[m]))) for m, cost in means.items())
    seconds = expected_seconds(setup.record.model, total) * (took / expected if took and expected else 1.0)
    if setup.judge is not None:
        seconds += expected_seconds(setup.judge.identity, judge)
    return CostEstimate(
        _round_usage(total), _round_usage(judge), seconds / at_once, ahead.keys() <= seen.keys(), tuple(unknown)
    )


def _mean_cost(episodes: Sequence[EpisodeSummary]) -> TypicalCost:
    names = ("calls", "tokens_in", "tokens_out")
    return TypicalCost(*(fmean(getattr(episode.usage, name) for episode in episodes) for name in names))


def _round_usage(figure: TypicalCost) -> Usage:
    return Usage(calls=round(figure.calls), tokens_in=round(figure.tokens_in), tokens_out=round(figure.tokens_out))


def expected_seconds(identity: str, figure: TypicalCost) -> float:
    """Return about how long these calls and tokens take, one call after another, by the kind of the model."""
    kind = identity.partition(":")[0]
    if kind == "scripted":
        return 0.0
    if kind == "local":
        # Over whole episodes on two busy cores; what prompts have in common with the one before is read only once.
        return figure.tokens_in / 150 + figure.tokens_out / 8
    # A guess: servers differ by a factor of ten.
    return figure.calls + figure.tokens_out / 60


class Job(NamedTuple):
    """One episode to play, or only to judge."""

    key: EpisodeKey
    only_judge: bool


class Jobs:
    """The jobs of a plan in their order, for one or several lanes, each of which plays episodes in one place.

    A lane that begins a question gets all its episodes that come next, so equal requests meet in one process and are
    paid for once. A lane without work takes over what waits elsewhere.
    """

    def __init__(self, plan: Plan, *, lanes: int) -> None:
        # A judge that fails on what was played before must not keep anything from being played.
        played = (Job(key, only_judge=False) for key in plan.to_play)
        self._waiting = deque([*played, *(Job(key, only_judge=True) for key in plan.to_judge)])
        self._reserved: list[deque[Job]] = [deque() for _ in range(lanes)]

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._reserved))

    def take(self, lane: int) -> Job | None:
        """Return the next job of a lane, or None at the end."""
        own = self._reserved[lane]
        if own:
            return own.popleft()
        if not self._waiting:
            fullest = max(self._reserved, key=len)
            return fullest.pop() if fullest else None
        job = self._waiting.popleft()
        question = job.key.dataset, job.key.question_id
        while self._waiting and (self._waiting[0].key.dataset, self._waiting[0].key.question_id) == question:
            own.append(self._waiting.popleft())
        return job
