"""How fast finished episodes are played again from the cache, through the whole runner to the lines on disk."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from beliefrag.runs.run_files import comparable_lines
from benchmarks.harness.material import PASSAGES, write_dataset
from benchmarks.harness.runs import METHODS, play
from benchmarks.harness.stub import stub

__all__ = ["AIM", "replay"]

AIM = 300
_AT_ONCE = 16


def replay(place: Path, *, questions: int, repeats: int, passages: int = PASSAGES) -> dict[str, Any]:
    """Play a run once with a server, then again and again without, and return episodes per second.

    Raises:
        RuntimeError: A replayed episode is not the one that was recorded.
    """
    data = write_dataset(place, questions, passages)
    with stub(0) as url:
        play(url, data, place, at_once=_AT_ONCE, out="first")
    first = comparable_lines(place / "first")
    print(f"replay: recorded {len(first):,} episodes", flush=True)
    speeds, processor = [], []
    for repeat in range(repeats):
        # The server is gone: a reply that is not in the cache would be a failed episode.
        spent = play(url, data, place, at_once=_AT_ONCE, replay=True, out=f"again-{repeat}")
        if comparable_lines(place / f"again-{repeat}") != first:
            raise RuntimeError("the replayed episodes differ from the recorded ones")
        speeds.append(spent.episodes / spent.wall)
        processor.append(1000 * spent.processor / spent.episodes)
        print(f"replay: {speeds[-1]:.0f} episodes per second", flush=True)
    return {
        "episodes": len(first),
        "methods": list(METHODS),
        "at_once": _AT_ONCE,
        "aim": AIM,
        "episodes_per_second": round(statistics.median(speeds), 1),
        "range": [round(min(speeds), 1), round(max(speeds), 1)],
        "processor_ms_per_episode": round(statistics.median(processor), 2),
    }
