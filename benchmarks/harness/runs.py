"""Plays one run with the machinery of `beliefrag bench run`, and takes the time of its episodes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beliefrag.bench.plan import make_plan
from beliefrag.bench.runner import InProcessPlayer, Runner, episodes_for
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.record import EpisodeSummary
from beliefrag.runs.run_files import EpisodeLog
from beliefrag.settings import Settings

__all__ = ["METHODS", "Spent", "play"]

METHODS = ("no_rag", "static", "iterative", "crag", "beliefrag")
_SEED = 0


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock and on the processors, for so many episodes."""

    wall: float
    processor: float
    episodes: int = 0


def play(
    url: str,
    data: Path,
    place: Path,
    *,
    at_once: int,
    methods: tuple[str, ...] = METHODS,
    n: int | None = None,
    replay: bool = False,
    out: str = "run",
    on_episode: Callable[[EpisodeSummary], object] = lambda _: None,
) -> Spent:
    """Play a run from nothing and time its episodes, without the opening of dataset and index.

    Args:
        url: The server.
        data: The dataset.
        place: Where the run's folder and its cache go. What an earlier run cached there is found.
        at_once: Calls at a time.
        methods: Whom to play.
        n: Questions.
        replay: Take all replies from the cache.
        out: The run's folder in `place`; it must be new.
        on_episode: Called with each episode.

    Raises:
        RuntimeError: An episode failed; its time would mean nothing.
    """
    os.environ["BELIEFRAG_CACHE_DIR"] = str(place / "cache")
    settings = Settings(model="stub", base_url=url, borrow="published", concurrency=at_once)
    wanted = RunSpec(data=(data,), methods=methods, n=n, seed=_SEED, judge=False, replay=replay)
    setup = set_up(settings, wanted)
    with EpisodeLog(place / out, synced=not replay) as log:
        setup.record.write(place / out)
        return asyncio.run(_timed(setup, log, at_once, on_episode))


async def _timed(setup: Setup, log: EpisodeLog, at_once: int, on_episode: Callable[[EpisodeSummary], object]) -> Spent:
    plan = make_plan(setup, log.summaries, at_once=at_once)
    runner = Runner(InProcessPlayer(setup), log, at_once=episodes_for(at_once), on_episode=on_episode)
    wall, processor = time.perf_counter(), time.process_time()
    tally = await runner.run(plan)
    spent = Spent(time.perf_counter() - wall, time.process_time() - processor, tally.finished)
    await setup.aclose()
    if tally.failed or tally.finished < plan.total:
        raise RuntimeError(f"{tally.failed} of {plan.total} episodes failed, {tally.finished} finished")
    return spent
