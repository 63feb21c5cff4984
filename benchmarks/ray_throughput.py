"""How fast a run is on Ray beside one process, against a stub server that takes the same time for every call.

    python -m benchmarks.ray_throughput [--questions N] [--latency S] [--repeats N] [--out FILE]

Both sides play the same episodes from an empty cache, in turns, with the same number of calls at a time in all. Ray is
started on this machine once; its start is timed, and is in no ratio. What a run on Ray costs before its first episode
(processes that open the dataset) is timed as well: the ratio counts it, and a second one leaves it out. Everything
shares the processors of this machine, the server included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from beliefrag import __version__, bench
from beliefrag.bench.benchmark import RunProgress
from beliefrag.ray_cluster import join_cluster
from beliefrag.runs.run_files import comparable_lines
from beliefrag.settings import Settings
from benchmarks.harness.material import write_dataset
from benchmarks.harness.runs import METHODS
from benchmarks.harness.stub import stub


def play(url: str, data: Path, place: Path, *, at_once: int, on: str | None) -> tuple[float, float]:
    """Play a run, and return the seconds in all and those from the opened workers to the end."""
    os.environ["BELIEFRAG_CACHE_DIR"] = str(place / "cache")
    settings = Settings(model="stub", base_url=url, borrow="published", concurrency=at_once)
    spec = bench.RunSpec(data=(data,), methods=METHODS, judge=False)
    prepared = bench.prepare_run(spec, out=place / "run", settings=settings)
    moments: list[float] = []

    def note(progress: RunProgress) -> None:
        if progress.episode is None:
            moments.append(time.perf_counter())

    began = time.perf_counter()
    tally = bench.carry_out(prepared, on=on, progress=note).tally
    ended = time.perf_counter()
    if tally.failed:
        raise SystemExit(f"{tally.failed} episodes failed: {tally.last_error}")
    return ended - began, ended - moments[0]


def measure(given: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Play both sides in turns."""
    data = write_dataset(place, given.questions, given.passages)
    began = time.perf_counter()
    with join_cluster("ray") as cluster, stub(given.latency) as url:
        started = time.perf_counter() - began
        workers = sum(node.processors for node in cluster.nodes())
        pairs = []
        for repeat in range(given.repeats):
            here = place / str(repeat)
            alone = play(url, data, here / "alone", at_once=given.at_once, on=None)
            spread = play(url, data, here / "spread", at_once=given.at_once, on="ray")
            if comparable_lines(here / "alone" / "run") != comparable_lines(here / "spread" / "run"):
                raise SystemExit("the two runs have different episodes")
            print(f"alone {alone[1]:.1f} s, on Ray {spread[0]:.1f} s, of which {spread[1]:.1f} s played", flush=True)
            pairs.append((alone, spread))
    return {
        "episodes": given.questions * len(METHODS),
        "workers": workers,
        "seconds_to_start_ray": round(started, 1),
        "seconds_to_open_workers": round(statistics.median(all_ - played for _, (all_, played) in pairs), 1),
        "seconds_alone": [round(alone[1], 2) for alone, _ in pairs],
        "seconds_played_on_ray": [round(spread[1], 2) for _, spread in pairs],
        "throughput_ratio": round(statistics.median(alone[1] / spread[1] for alone, spread in pairs), 3),
        "throughput_ratio_with_opening": round(statistics.median(alone[0] / spread[0] for alone, spread in pairs), 3),
    }


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.3, help="seconds that the server takes for a call")
    parser.add_argument("--at-once", type=int, default=32, help="calls at a time, over all workers together")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(given, Path(scratch))
    result = {
        "what": "a run on Ray beside one process, against a stub server",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks.ray_throughput", *sys.argv[1:]]),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "load_before": round(load, 1)},
        "versions": {"beliefrag": __version__, "ray": version("ray"), "python": platform.python_version()},
        "latency_seconds": given.latency,
        "at_once": given.at_once,
        **found,
    }
    text = json.dumps(result, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
