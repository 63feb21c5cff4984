"""Whether the memory of a long run stays flat: live against a server, and replayed."""

from __future__ import annotations

import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from beliefrag.record import EpisodeSummary
from benchmarks.harness.material import PASSAGES, write_dataset
from benchmarks.harness.runs import play
from benchmarks.harness.stub import stub

__all__ = ["memory"]

_METHOD = "static"
_AT_ONCE = 16
_SAMPLES = 100
_WARM_UP = 0.2


def memory(place: Path, *, episodes: int, passages: int = PASSAGES) -> dict[str, Any]:
    """Play so many episodes of a cheap method, live and then replayed, and return the resident memory on the way.

    Each run is a process of its own, which begins small. Linux only: it reads `/proc`.
    """
    data = write_dataset(place, episodes, passages)
    figures: dict[str, Any] = {"episodes": episodes, "method": _METHOD, "at_once": _AT_ONCE}
    with stub(0) as url, ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for name, replayed in (("live", False), ("replayed", True)):
            samples = processes.submit(_sampled, url, data, place, episodes, replayed).result()
            figures[name] = _summary(samples)
            print(f"memory, {name}: {figures[name]}", flush=True)
    return figures


class _Sampler:
    """Notes the resident memory now and then."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._seen = 0
        self.samples: list[tuple[int, int]] = []

    def count_episode(self, episode: EpisodeSummary) -> None:
        """Count one more episode."""
        self._seen += 1
        if self._seen % self._every == 0:
            self.samples.append((self._seen, _resident()))


def _sampled(url: str, data: Path, place: Path, episodes: int, replayed: bool) -> list[tuple[int, int]]:
    sampler = _Sampler(max(1, episodes // _SAMPLES))
    out = "replayed" if replayed else "live"
    play(
        url,
        data,
        place,
        at_once=_AT_ONCE,
        methods=(_METHOD,),
        replay=replayed,
        out=out,
        on_episode=sampler.count_episode,
    )
    return sampler.samples


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _summary(samples: list[tuple[int, int]]) -> dict[str, Any]:
    """Return the slope of a line through the samples after the warm-up; what grows with each episode shows in it."""
    warm = samples[int(len(samples) * _WARM_UP) :]
    slope = statistics.linear_regression([seen for seen, _ in warm], [size for _, size in warm]).slope
    return {
        "bytes_per_episode": round(slope, 1),
        "mb_after_warm_up": round(warm[0][1] / 1e6, 1),
        "mb_at_the_end": round(warm[-1][1] / 1e6, 1),
        "mb_at_most": round(max(size for _, size in samples) / 1e6, 1),
    }
