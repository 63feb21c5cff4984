"""A real run of all methods, killed with -9 again and again, against the same run made in one go and as a replay.

    python -m benchmarks.interrupted --model local:smollm2-135m --borrow qwen2.5-coder-1.5b --n 5 --kills 20 --work DIR

Three runs share one reply cache in DIR, which nothing else has written to; weights are those that are on this machine
already. The first is killed at random moments and resumed until it is complete: all its replies come from the live
model, and the result says how many calls that were. The second is made without a break, and the third with `--replay`.
All three must hold the same episodes, byte for byte apart from timings, each once; the second must have asked the model
nothing, for a reply that a kill had lost would have to be asked for again. (Two live runs with separate caches could
not be compared byte for byte: llama.cpp's probabilities move in the last digits with how much of a prompt is still in
its memory.)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from beliefrag.methods import METHODS
from beliefrag.models.cache import ReplyStore
from beliefrag.runs.run_files import comparable_lines, read_episode_at, read_lines, read_summaries
from beliefrag.settings import cache_dir

DATASETS = (
    "hotpotqa",
    "2wikimultihopqa",
    "musique",
    "nq",
    "triviaqa",
    "popqa",
    "rgb",
    "holobench_standin_spider",
)

_ENDED = (0, 1)
"""1: some episodes failed, as those of a weak model may. They are listed, and must be the same in all three runs; a run
that was given up ends with 1 too, and is told by the episodes that it lacks."""
_BUDGET = "BELIEFRAG_BUDGET__"


def surroundings(work: Path) -> dict[str, str]:
    """Return the environment of every run: a cache of their own, so that no reply is there before they ask for it."""
    cache, weights = work.absolute() / "cache", cache_dir() / "models"
    cache.mkdir(parents=True, exist_ok=True)
    weights.mkdir(parents=True, exist_ok=True)
    if not (cache / "models").exists():
        (cache / "models").symlink_to(weights, target_is_directory=True)
    return {**os.environ, "BELIEFRAG_CACHE_DIR": str(cache)}


def budget_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment says about the budget: without it nobody could make the same runs."""
    return {name: value for name, value in sorted(environment.items()) if name.upper().startswith(_BUDGET)}


def command(given: argparse.Namespace, out: Path, *more: str) -> list[str]:
    """Return the run, into one folder."""
    data = Path(os.environ.get("BELIEFRAG_DATA", "../shared/data"))
    folders = [str(data / name) for name in DATASETS]
    borrowed = ["--set", f"borrow={given.borrow}"] if given.borrow else []
    rest = ["--methods", "all", "--n", str(given.n), "--no-judge", "--yes", "--out", str(out)]
    run = [sys.executable, "-m", "beliefrag", "bench", "run", "--data", *folders]
    return [*run, "--model", given.model, *borrowed, *rest, *more]


def killed(given: argparse.Namespace, out: Path, log: Path) -> list[float]:
    """Run to the end, killed on the way; the moments of the kills in seconds after each start."""
    chance = random.Random(given.seed)
    moments: list[float] = []
    done_file = given.work / "kills.json"
    if done_file.exists():
        moments = json.loads(done_file.read_text())
    while True:
        wait = chance.uniform(given.soonest, given.latest) if len(moments) < given.kills else None
        with log.open("ab") as output:
            process = subprocess.Popen(
                command(given, out),
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=surroundings(given.work),
            )
            began = time.monotonic()
            try:
                code = process.wait(timeout=wait)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                moments.append(round(time.monotonic() - began, 2))
                done_file.write_text(json.dumps(moments))
                continue
        if code not in _ENDED:
            raise SystemExit(f"the run ended with {code}; see {log}")
        return moments


def whole(given: argparse.Namespace, out: Path, log: Path, *more: str) -> None:
    """Run in one go."""
    with log.open("ab") as output:
        code = subprocess.run(
            command(given, out, *more), stdout=output, stderr=output, check=False, env=surroundings(given.work)
        ).returncode
    if code not in _ENDED:
        raise SystemExit(f"the run ended with {code}; see {log}")


def check_whole(given: argparse.Namespace, out: Path, log: Path) -> None:
    """Make sure that a run holds every episode: two runs that were given up could be equal, too."""
    wanted, there = len(METHODS) * len(DATASETS) * given.n, len(read_summaries(out))
    if there != wanted:
        raise SystemExit(f"the run {out.name} holds {there} of {wanted} episodes; see {log}")


def live_calls(out: Path) -> int:
    """Return how many calls of a run's episodes the model itself answered, and not the cache."""
    episodes = [read_episode_at(out, line.offset) for line in read_lines(out)]
    return sum(episode.usage.calls - episode.usage.cached_calls for episode in episodes)


def main() -> None:
    """Read the command line, make the three runs, compare them and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2-135m")
    parser.add_argument("--borrow", default="qwen2.5-coder-1.5b")
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--soonest", type=float, default=15.0, help="Seconds after a start.")
    parser.add_argument("--latest", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="Where to write the result as JSON.")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    log = given.work / "runs.log"
    runs = {name: given.work / name for name in ("killed", "whole", "replayed")}
    moments = killed(given, runs["killed"], log)
    check_whole(given, runs["killed"], log)
    with ReplyStore(given.work / "cache" / "replies.sqlite", read_only=True) as store:
        replies = sum(store.count().values())
    whole(given, runs["whole"], log)
    check_whole(given, runs["whole"], log)
    whole(given, runs["replayed"], log, "--replay")
    check_whole(given, runs["replayed"], log)
    episodes = read_summaries(runs["killed"])
    lines = Counter(line.summary.key for line in read_lines(runs["killed"]))
    budget = budget_of(os.environ)
    set_before = "".join(f"{name}={shlex.quote(value)} " for name, value in budget.items())
    result = {
        "made": datetime.now(UTC).date().isoformat(),
        # Without folders: where somebody keeps their runs is nobody's business.
        "command": f"{set_before}python -m benchmarks.interrupted --model {given.model} --borrow {given.borrow} "
        f"--n {given.n} --kills {given.kills} --soonest {given.soonest:g} --latest {given.latest:g}",
        "model": given.model,
        "budget_from_the_environment": budget,
        "episodes": len(episodes),
        "outcomes": dict(Counter(episode.outcome for episode in episodes.values())),
        "episodes_with_more_than_one_line": sum(count > 1 for count in lines.values()),
        "kills": len(moments),
        "seconds_to_each_kill": moments,
        "killed_equals_whole": comparable_lines(runs["killed"]) == comparable_lines(runs["whole"]),
        "killed_equals_replayed": comparable_lines(runs["killed"]) == comparable_lines(runs["replayed"]),
        "calls_of_the_killed_run": sum(line.summary.usage.calls for line in read_lines(runs["killed"])),
        # The others repeat one of these, or one of an episode that a kill broke off.
        "live_calls_of_the_killed_run": live_calls(runs["killed"]),
        "replies_that_the_killed_run_left_in_the_cache": replies,
        "calls_that_the_whole_run_had_to_make_again": live_calls(runs["whole"]),
    }
    text = json.dumps(result, indent=1)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
