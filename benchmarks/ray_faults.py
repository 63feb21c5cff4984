"""A run and an indexing on Ray whose workers and drivers are killed with -9 at random moments.

    python -m benchmarks.ray_faults [--kills N] [--questions N] [--rows N] [--out FILE]

It starts a Ray cluster of two nodes on this machine, and a stub in place of a model. Drivers
that were killed are started again with the same command, until the work is done. The episodes must be those of a run in
one process, each once; the index must have the fingerprint of one that was made without Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.retrieval.indexing import index_paths
from beliefrag.runs.run_files import comparable_lines, read_lines
from beliefrag.settings import Settings
from benchmarks.harness.material import write_dataset
from benchmarks.harness.stub import stub
from tests.support.ray_cluster import find_workers, kill_process, run_ray

METHODS = ("static", "iterative", "crag")


def go_through_kills(command: Sequence[str], worker: str, kills: int, chance: random.Random) -> Counter[str]:
    """Run a command to its end, again after each kill of it; return how often each thing was killed.

    Nothing is killed before there are workers: a driver would never get past its start.

    Args:
        command: What to run.
        worker: The kind of its workers.
        kills: How often something is killed in all.
        chance: Draws what is killed, and when.
    """
    done: Counter[str] = Counter()
    while True:
        with subprocess.Popen([sys.executable, "-m", "beliefrag", *command], stderr=subprocess.PIPE) as driver:
            while driver.poll() is None:
                if done.total() >= kills:
                    driver.wait()
                elif find_workers(worker):
                    time.sleep(chance.uniform(0, 5))
                    kind = chance.choice(["driver", "worker"])
                    if kind == "driver":
                        kill_process(driver.pid)
                    elif workers := find_workers(worker):
                        kill_process(chance.choice(workers))
                    else:
                        continue
                    done[kind] += 1
                    print(f"{done.total()} kills: {kind}", flush=True)
                else:
                    time.sleep(0.1)
            _, said = driver.communicate()
        if driver.returncode == 0:
            return done
        if driver.returncode > 0:
            print(said.decode(errors="replace").splitlines()[-1:], flush=True)


def break_run(given: argparse.Namespace, work: Path, address: str) -> dict[str, Any]:
    """Let a run be killed, and compare it with one that was not."""
    data = write_dataset(work, given.questions, 200)
    chance = random.Random(given.seed)
    with stub(given.latency) as url:
        command = ["bench", "run", "--data", str(data), "--methods", ",".join(METHODS), "--model", "stub"]
        command += ["--base-url", url, "--set", "borrow=published", "--no-judge", "--yes", "--set", "concurrency=6"]
        command += ["--out", str(work / "killed"), "--on", f"ray:{address}"]
        kills = go_through_kills(command, "EpisodeWorker", given.kills, chance)
        spec = bench.RunSpec(data=(data,), methods=METHODS, judge=False)
        plain = Settings(model="stub", base_url=url, borrow="published", cache=False)
        bench.run(spec, out=work / "whole", settings=plain)
    lines = Counter(line.summary.key for line in read_lines(work / "killed"))
    return {
        "kills": dict(kills),
        "episodes": len(lines),
        "episodes_with_more_than_one_line": sum(count > 1 for count in lines.values()),
        "equal_to_one_process": comparable_lines(work / "killed") == comparable_lines(work / "whole"),
    }


def break_indexing(given: argparse.Namespace, work: Path, address: str) -> dict[str, Any]:
    """Let an indexing be killed, and compare the index with one that was not."""
    docs = work / "docs"
    docs.mkdir()
    for part in range(20):
        with (docs / f"part-{part}.jsonl").open("w") as file:
            for number in range(given.rows // 20):
                text = f"Port {number % 90} of part {part} lies at mile {number}. " * 8
                file.write(json.dumps({"id": f"{part}-{number}", "title": f"Row {number}", "text": text}) + "\n")
    command = ["index", str(docs), "--out", str(work / "killed.index"), "--on", f"ray:{address}"]
    kills = go_through_kills(command, "TaskWorker", given.kills, random.Random(given.seed + 1))
    whole = index_paths(docs, work / "whole.index")
    completed = index_paths(docs, work / "killed.index")
    return {
        "kills": dict(kills),
        "passages": whole.passages_total,
        "fingerprint_equal_to_one_process": completed.fingerprint == whole.fingerprint,
        "files_read_again_afterwards": completed.files_read,
    }


def main() -> int:
    """Read the command line, breaks things, compare and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of the run, and as many of the indexing")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--latency", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the result to this JSON file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, run_ray() as nodes:
        work = Path(scratch)
        os.environ["BELIEFRAG_CACHE_DIR"] = str(work / "cache")
        run = break_run(given, work, nodes.address)
        print(json.dumps(run), flush=True)
        indexing = break_indexing(given, work, nodes.address)
    result = {
        "what": "a run and an indexing on Ray, killed with -9 at random moments",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m benchmarks.ray_faults --kills {given.kills} --questions {given.questions} "
        f"--rows {given.rows} --latency {given.latency:g} --seed {given.seed}",
        "run": run,
        "indexing": indexing,
    }
    text = json.dumps(result, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
