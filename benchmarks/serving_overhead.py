"""What serving adds to an episode: processor time of the server per question, less that of the same episode in process.

    python -m benchmarks.serving_overhead [--batches 30] [--tree DIR] [--out FILE]

A scripted model replies at once, so that nothing but our own work is left. The server runs in a process of its own, and
its processor time is read from the operating system before and after the questions of a few clients.
Then the same questions are asked in a process without a server. Both take turns with the tree of another version, if
one is named: on a busy machine the ratio of two versions is steadier than either time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beliefrag import __version__

QUESTION = "Who approves travel above the limit?"
DOCUMENTS = {
    "travel.md": "# Travel\n\nTravel above the limit is approved by the head of finance.\n",
    "leave.md": "# Leave\n\nLeave is approved by the team lead.\n",
}
SCRIPT = (
    {
        "purpose": "verifier",
        "reply": '{"unhelpful_doc_ids": [], "support": 0.95, "conflict": 0.0, "gap": 0.0, "uncertainty": 0.0}',
        "repeat": True,
    },
    {"purpose": "answer", "reply": "the head of finance", "repeat": True},
)
AT_ONCE = 4
"""As many as the server answers at a time by default."""
BATCH = 24
"""Questions that are asked in a row before it is the other version's turn."""


@contextlib.contextmanager
def served(tree: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Serve the documents with the sources of a tree, in a process of its own; return the process and its port."""
    command = [sys.executable, "-m", "beliefrag", "serve", "http", "--docs", str(folder / "docs"), "--port", "0"]
    command += [
        "--model",
        f"scripted:{folder / 'script.jsonl'}",
        "--set",
        "verifier=structured",
        "--set",
        "cache=false",
    ]
    command += ["--set", "borrow=published"]
    log = folder / "log.jsonl"
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(command, env=_environment(tree, folder), stderr=stderr)
    try:
        while not (listening := [line for line in log.read_text("utf-8").splitlines() if '"listening"' in line]):
            if process.poll() is not None:
                raise SystemExit(f"the server did not start: {log.read_text('utf-8')}")
            time.sleep(0.1)
        yield process, int(json.loads(listening[0])["address"].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(timeout=60)


def ask(port: int, count: int) -> None:
    """Ask so many questions, a few at a time on a connection each, so that the server is never idle in between."""
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(AT_ONCE)]
    body, headers = json.dumps({"question": QUESTION}), {"Content-Type": "application/json"}
    for _ in range(count // AT_ONCE):
        for connection in connections:
            connection.request("POST", "/v1/ask", body, headers)
        for connection in connections:
            response = connection.getresponse()
            reply = json.loads(response.read())
            if response.status != 200 or reply["answer"] != "the head of finance":
                raise SystemExit(f"the server answered {response.status}: {reply}")
    for connection in connections:
        connection.close()


@contextlib.contextmanager
def in_process(tree: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that runs so many episodes without a server as each line of its input says."""
    command = [sys.executable, str(Path(__file__).resolve()), "--run-episodes", str(folder)]
    process = subprocess.Popen(
        command, env=_environment(tree, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def run_episodes(folder: Path) -> None:
    """Run as many episodes as a line of the input says, and return how many milliseconds of processor time one took."""
    from beliefrag.engine import loop  # noqa: PLC0415 - of the tree that PYTHONPATH names
    from beliefrag.opening import assemble  # noqa: PLC0415
    from beliefrag.settings import Settings  # noqa: PLC0415
    from beliefrag.types import Question  # noqa: PLC0415

    settings = Settings(
        model=f"scripted:{folder / 'script.jsonl'}", verifier="structured", cache=False, borrow="published"
    )
    assembly = assemble(settings, docs=[folder / "docs"])

    async def run(times: int) -> None:
        for _ in range(times):
            async for _ in loop.run(Question(QUESTION), assembly.method, assembly.harness):
                pass

    with asyncio.Runner() as runner:
        for line in sys.stdin:
            before = time.process_time_ns()
            runner.run(run(int(line)))
            print((time.process_time_ns() - before) / 1e6 / int(line), flush=True)


def measure(trees: dict[str, Path], batches: int) -> dict[str, Any]:
    """Ask each tree in turn, with a server and without, as many small batches as wanted."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "docs").mkdir()
        for file, text in DOCUMENTS.items():
            (folder / "docs" / file).write_text(text, encoding="utf-8")
        (folder / "script.jsonl").write_text("\n".join(map(json.dumps, SCRIPT)), encoding="utf-8")
        servers = {tree: stack.enter_context(served(path, folder)) for tree, path in trees.items()}
        runners = {tree: stack.enter_context(in_process(path, folder)) for tree, path in trees.items()}
        taken: dict[str, list[tuple[float, float]]] = {tree: [] for tree in trees}
        for _ in range(batches + 2):
            for tree in trees:
                process, port = servers[tree]
                before = _processor_seconds(process.pid)
                ask(port, BATCH)
                spent = 1000 * (_processor_seconds(process.pid) - before) / BATCH
                taken[tree].append((spent, _run_batch(runners[tree])))
    # The first batches import modules and fill caches.
    taken = {tree: pairs[2:] for tree, pairs in taken.items()}
    overhead = {tree: _least(pairs, 0) - _least(pairs, 1) for tree, pairs in taken.items()}
    result: dict[str, Any] = {
        tree: {
            "served_ms": round(_least(pairs, 0), 3),
            "in_process_ms": round(_least(pairs, 1), 3),
            "overhead_ms": round(overhead[tree], 3),
        }
        for tree, pairs in taken.items()
    }
    if len(trees) == 2:
        result["overhead_ratio"] = round(overhead["this"] / overhead["other"], 3)
    return result


def _run_batch(runner: subprocess.Popen[str]) -> float:
    assert runner.stdin is not None and runner.stdout is not None
    runner.stdin.write(f"{BATCH}\n")
    runner.stdin.flush()
    return float(runner.stdout.readline())


def _least(pairs: list[tuple[float, float]], which: int) -> float:
    return min(pair[which] for pair in pairs)


def _environment(tree: Path, folder: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(tree / "src"), "BELIEFRAG_CACHE_DIR": str(folder / "cache")}
    return {name: value for name, value in os.environ.items() if not name.startswith("BELIEFRAG_")} | own


def _processor_seconds(process: int) -> float:
    """Add up the time on a processor of all threads, which the kernel counts in nanoseconds."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--tree", type=Path, help="the checkout of another version, which is measured in turn")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--run-episodes", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run_episodes:
        run_episodes(given.run_episodes)
        return
    trees = {"this": Path(__file__).resolve().parents[1]} | ({"other": given.tree.resolve()} if given.tree else {})
    result = {
        "what": "milliseconds of processor time per question, least of all batches",
        "date": datetime.now(UTC).date().isoformat(),
        "beliefrag": __version__,
        "python": platform.python_version(),
        "questions": BATCH * given.batches,
        **measure(trees, given.batches),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
