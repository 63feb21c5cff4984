"""How near a run comes to the fastest way of making the same calls: a bare `openai` loop at the same concurrency."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai

from beliefrag.models.cache import ReplyStore
from benchmarks.harness.material import PASSAGES, write_dataset
from benchmarks.harness.runs import METHODS, Spent, play
from benchmarks.harness.stub import recorded, stub

__all__ = ["AIM", "throughput"]

AIM = 0.9
_CALLS_PER_QUESTION = 9
"""What all methods together ask the server about one question of the made-up benchmark, on average."""


def throughput(
    place: Path, *, levels: Sequence[int], latency: float, repeats: int, waves: int, passages: int = PASSAGES
) -> dict[str, Any]:
    """Play runs and bare loops in turn at each level of concurrency, and return the ratios of their speeds.

    Every run starts from nothing: an empty cache, a new folder, a limiter that knows nothing of the server; its ramp-up
    is timed, and so are the last episodes, when there are no further ones to fill the places. The bare loop makes the
    calls that a server recorded of an untimed run, body for body, and waits for none before it makes the next.

    Args:
        place: A folder to work in.
        levels: Calls at a time.
        latency: Seconds that the server takes for every call.
        repeats: Pairs at each level.
        waves: About how many calls are made one after the other: the more, the less weigh ramp-up and end.
        passages: The size of the corpus.
    """
    data = write_dataset(place, max(1, max(levels) * waves // _CALLS_PER_QUESTION), passages)
    with stub(latency) as url:
        at = {str(level): _level(url, data, place / str(level), level, repeats, waves) for level in levels}
    return {"latency_seconds": latency, "methods": list(METHODS), "aim": AIM, "at_once": at}


def _level(url: str, data: Path, place: Path, level: int, repeats: int, waves: int) -> dict[str, Any]:
    n = max(1, level * waves // _CALLS_PER_QUESTION)
    with stub(0, record=True) as fast:
        play(fast, data, place / "recorded", at_once=level, n=n)
        calls = recorded(fast)
    print(f"{level} at once: recorded {len(calls):,} calls", flush=True)
    # The client imports much of itself at its first call.
    asyncio.run(_bare(url, calls[:1], level))
    pairs = []
    for repeat in range(repeats):
        here = place / str(repeat)
        # The sides take turns in being first, so that neither gains from what drifts.
        if repeat % 2:
            bare = asyncio.run(_bare(url, calls, level))
            ours = _ours(url, data, here, level, n, len(calls))
        else:
            ours = _ours(url, data, here, level, n, len(calls))
            bare = asyncio.run(_bare(url, calls, level))
        pairs.append((ours, bare))
        print(f"{level} at once: ratio {bare.wall / ours.wall:.3f}", flush=True)
    return _summary(pairs, len(calls))


def _ours(url: str, data: Path, place: Path, level: int, n: int, calls: int) -> Spent:
    spent = play(url, data, place, at_once=level, n=n)
    with ReplyStore(place / "cache" / "replies.sqlite") as store:
        made = sum(store.count().values())
    if made != calls:
        raise RuntimeError(f"the run made {made} calls where the recorded one made {calls}")
    return spent


async def _bare(url: str, calls: list[dict[str, Any]], level: int) -> Spent:
    turn = asyncio.Semaphore(level)

    async def one(body: dict[str, Any]) -> None:
        async with turn:
            await client.chat.completions.create(**body)

    wall, processor = time.perf_counter(), time.process_time()
    async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, timeout=120) as client:
        await asyncio.gather(*(one(body) for body in calls))
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def _summary(pairs: list[tuple[Spent, Spent]], calls: int) -> dict[str, Any]:
    ratios = sorted(bare.wall / ours.wall for ours, bare in pairs)
    return {
        "episodes": pairs[0][0].episodes,
        "calls": calls,
        "ratio": round(statistics.median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        **_figures("ours", [ours for ours, _ in pairs], calls),
        **_figures("bare", [bare for _, bare in pairs], calls),
    }


def _figures(side: str, all_spent: list[Spent], calls: int) -> dict[str, float]:
    return {
        f"{side}_calls_per_second": round(statistics.median(calls / spent.wall for spent in all_spent), 1),
        f"{side}_processor_ms_per_call": round(statistics.median(1000 * s.processor / calls for s in all_spent), 2),
    }
