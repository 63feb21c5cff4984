"""Sends pipelined requests on many connections at once, and measures the server's memory and how soon it answers.

    python -m benchmarks.pipelined --trace FILE [--connections 20 60] [--seconds 20] [--out FILE]

Each connection sends 1 MB of small requests without a token and never reads a reply. The three servers are processes of
their own: `serve http`, `serve mcp --http` and `view`. Memory is that before, the most during, and after the attack.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

SENT = 1_000_000


def memory_mb(process: subprocess.Popen[str]) -> float:
    """Return the memory that a process holds now."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def ask_health(port: int, path: str) -> float:
    """Return the seconds until the server answers a request of another client."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120, source_address=("127.0.0.2", 0))
    connection.request("GET", path)
    connection.getresponse().read()
    connection.close()
    return time.monotonic() - began


def attack(port: int, path: str, seconds: float) -> int:
    """Send 1 MB of requests on one connection without reading; return how many bytes were taken."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    data = memoryview(request * (SENT // len(request)))
    taken, give_up = 0, time.monotonic() + seconds
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.setblocking(False)
        while time.monotonic() < give_up:
            try:
                taken += connection.send(data[taken : taken + 65_536]) if taken < len(data) else 0
                time.sleep(0 if taken < len(data) else 0.1)
            except BlockingIOError:
                time.sleep(0.01)
    return taken


def measure(process: subprocess.Popen[str], port: int, health: str, connections: int, seconds: float) -> dict[str, Any]:
    """Attack a server; return its memory and the slowest answer to another client."""
    row: dict[str, Any] = {"connections": connections, "idle_seconds": round(ask_health(port, health), 3)}
    before = most = memory_mb(process)
    taken: list[int] = []
    threads = [
        threading.Thread(target=lambda: taken.append(attack(port, "/v1/none", seconds))) for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        slowest = max(slowest, ask_health(port, health))
        most = max(most, memory_mb(process))
        time.sleep(0.1)
    ask_health(port, health)
    time.sleep(2)
    after = memory_mb(process)
    row |= {"bytes_taken": sum(taken), "slowest_seconds": round(slowest, 3)}
    row |= {"before_mb": round(before, 1), "most_mb": round(most, 1), "after_mb": round(after, 1)}
    return row | {"most_over_before": round(most / before, 2), "after_over_before": round(after / before, 2)}


@contextlib.contextmanager
def started(arguments: list[str], folder: Path) -> Any:
    """Start a command; yield its process and its port."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BELIEFRAG_", "OPENAI_"))}
    environment = clean | {"BELIEFRAG_CACHE_DIR": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    with (folder / "log").open("w+") as log:
        command = [sys.executable, "-m", "beliefrag", *arguments]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)
        try:
            for _ in range(600):
                said = (folder / "log").read_text("utf-8")
                if found := re.search(r"http://127\.0\.0\.1:(\d+)", said):
                    break
                if process.poll() is not None:
                    raise SystemExit(said)
                time.sleep(0.2)
            assert found is not None
            yield process, int(found[1])
        finally:
            process.terminate()
            process.wait(60)


def main() -> None:
    """Attack the three servers and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True, help="what the viewer shows")
    parser.add_argument("--connections", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        (folder / "docs" / "a.md").write_text("# Travel\n\nThe head of finance approves it.\n")
        (folder / "script.jsonl").write_text('{"purpose": "answer", "reply": "x", "repeat": true}\n')
        (folder / "token").write_text("a-token-of-some-length")
        shared = ["--docs", str(folder / "docs"), "--model", f"scripted:{folder / 'script.jsonl'}", "--port", "0"]
        shared += ["--token-file", str(folder / "token"), "--set", "borrow=published", "--set", "verifier=structured"]
        servers = {
            "http": (["serve", "http", *shared], "/healthz"),
            "mcp": (["serve", "mcp", "--http", *shared], "/healthz"),
            "view": (["view", str(given.trace.resolve()), "--no-open"], "/"),
        }
        for server, (arguments, health) in servers.items():
            for connections in given.connections:
                with started(arguments, folder) as (process, port):
                    row = {"server": server} | measure(process, port, health, connections, given.seconds)
                rows.append(row)
                print(json.dumps(row), flush=True)
    if given.out:
        given.out.write_text(json.dumps({"bytes_per_connection": SENT, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
