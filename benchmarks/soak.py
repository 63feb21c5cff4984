"""Serves for a long time under faults and kills, and checks that no answer is wrong or lost and memory stays flat.

    python -m benchmarks.soak [--minutes 30] [--clients 20] [--kill-seconds 120] [--hostile-seconds 10] [--seed 0]

Clients ask for the codes of items that the documents list, so that each answer can be checked. The model's server is
part of this program and replies from the passages that it is shown, but for one call in seven, which fails in one of
the ways that real servers fail. Some clients misbehave too: they leave, send half a request or what is no request, or
stop reading. The server is killed with SIGKILL when it has lived two minutes, and started again at the same address. It
follows the folder of the documents, in which files lie that no reader can read: one arrives and one vanishes every ten
seconds.

At the end the model's server is switched off, and each answered question is asked again: its replies must all have been
stored, so that the same answer comes without a model. An answer that cannot be given again was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from beliefrag import __version__
from benchmarks.fuzz_readers import make_file, read, write_seeds
from tests.retrieval.test_isolation import write_wide_cell

ITEMS = 200
FAULTY_CALLS = 1 / 7
BAD_CLIENTS = 1 / 10
EXPECTED_STATUSES = frozenset({200, 429, 502, 503, 504})
"""What a question may get: an answer, or one of the refusals that the documentation names."""
_STARTED_WITHIN = 600.0


def code_of(item: int) -> str:
    """Return the code that the documents list for an item."""
    return f"K{item * 7919 % 90_000 + 10_000}"


def question_of(item: int, number: int) -> str:
    """Return a question about an item; the number makes it a new one."""
    return f"For request {number}, what is the code of item-{item}?"


class _QuietServer(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a killed client ends its connections."""


class ModelServer:
    """A chat server that replies from the passages in the prompt, and often fails.

    Args:
        seed: Which calls fail, and how.
        thinking_seconds: The longest time that a good call takes.
    """

    def __init__(self, seed: int, thinking_seconds: float) -> None:
        self.faults: Counter[str] = Counter()
        self.calls = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._thinking_seconds = thinking_seconds
        self._server = _QuietServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for --base-url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._server.server_close()

    def choose(self) -> tuple[str, float]:
        """Return the fault of the next call, or an empty text, and how long the call takes."""
        with self._lock:
            self.calls += 1
            seconds = self._random.uniform(0, self._thinking_seconds)
            if self._random.random() >= FAULTY_CALLS:
                return "", seconds
            fault = self._random.choice(FAULTS)
            self.faults[fault] += 1
            return fault, seconds

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fault, seconds = model.choose()
                time.sleep(3.0 if fault == "hangs" else seconds)
                with contextlib.suppress(OSError):
                    self._send(fault, _reply_to(body))

            def _send(self, fault: str, text: str) -> None:
                if fault == "closes":
                    self.close_connection = True
                    return
                status = {"500": 500, "429": 429}.get(fault, 200)
                if fault == "thoughts":
                    text = "<think>" + "\n" * 20_000 + "</think>" + text
                payload = b'{"choices": ' if fault == "garbage" else _completion("" if fault == "empty" else text)
                if fault == "huge":
                    payload += b" " * 30_000_000
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(payload[:40] if fault == "cut" else payload)
                self.close_connection = fault == "cut"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Log nothing."""

        return Handler


FAULTS = ("500", "429", "garbage", "cut", "empty", "closes", "hangs", "thoughts", "huge")


def _reply_to(body: dict[str, Any]) -> str:
    words = "\n".join(message["content"] for message in body["messages"])
    asked = re.findall(r"code of (item-\d+)\?", words)
    found = re.search(rf"{asked[-1]} has the code (K\d+)", words) if asked else None
    if "response_format" in body:
        support, gap = (0.95, 0.0) if found else (0.0, 1.0)
        doubt = {"conflict": 0.0, "gap": gap, "uncertainty": gap}
        return json.dumps({"unhelpful_doc_ids": [], "support": support, **doubt})
    return found[1] if found else "unknown"


def _completion(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    used = {"prompt_tokens": 100, "completion_tokens": 10}
    return json.dumps({"id": "soak", "object": "chat.completion", "choices": [choice], "usage": used}).encode()


class KilledServer:
    """The server under test: started again at the same address after each kill.

    Args:
        folder: Where its documents, cache and log are.
        model_url: The model's server.
    """

    def __init__(self, folder: Path, model_url: str) -> None:
        self.log = folder / "log.jsonl"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._command = [sys.executable, "-m", "beliefrag", "serve", "http", "--docs", str(folder / "items")]
        self._command += [
            "--set",
            "reading.seconds=3",
            "--set",
            "reading.memory_mb=256",
            "--set",
            "reading.output_mb=1",
        ]
        self._command += ["--port", str(self.port), "--set", "limits.concurrency=20", "--set", "limits.timeout=20"]
        self._command += ["--model", "soak", "--base-url", model_url, "--set", "verifier=structured"]
        self._command += ["--set", "borrow=published"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("BELIEFRAG_", "OPENAI_"))}
        self._environment = clean | {"BELIEFRAG_CACHE_DIR": str(folder / "cache"), "BELIEFRAG_RETRY_SECONDS": "6"}
        self._environment["NO_PROXY"] = "127.0.0.1"
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start it and wait until it answers."""
        with self.log.open("a", encoding="utf-8") as stderr:
            self.process = subprocess.Popen(self._command, env=self._environment, stderr=stderr)
        give_up = time.monotonic() + _STARTED_WITHIN
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if request(self.port, "GET", "/healthz")[0] == 200:
                    return self.process
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise SystemExit(f"the server did not start: {self.log.read_text('utf-8')[-2000:]}")

    def kill(self) -> None:
        """End it without any warning."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def memory_mb(self) -> float:
        """Return how much memory it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def request(port: int, method: str, path: str, body: Any = None, *, stream: bool = False) -> tuple[int, bytes]:
    """Send one request on a connection of its own."""
    headers = {"Content-Type": "application/json"} | ({"Accept": "text/event-stream"} if stream else {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def read_answer(reply: bytes, *, stream: bool) -> dict[str, Any]:
    """Return the answer of a reply, or of the last event of a stream; an interrupted one is an error.

    Raises:
        http.client.HTTPException: The stream ended before its last event.
    """
    if not stream:
        answer: dict[str, Any] = json.loads(reply)
        return answer
    *_, last = [block for block in reply.decode().split("\n\n") if "data: " in block] or [""]
    if not re.search(r"^event: (result|error)$", last, re.MULTILINE):
        raise http.client.IncompleteRead(reply)
    streamed: dict[str, Any] = json.loads(last.partition("data: ")[2])
    return streamed


@dataclass
class Tally:
    """What the clients have seen."""

    statuses: Counter[str] = field(default_factory=Counter)
    answered: dict[str, str] = field(default_factory=dict)
    """The given answer of each question."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """Count one request."""
        with self.lock:
            self.statuses[what] += 1


def run_client(port: int, tally: Tally, rng: random.Random, stop: threading.Event, pause: float) -> None:
    """Ask until it is told to stop, and misbehaves now and then."""
    while not stop.wait(rng.uniform(0, 2 * pause)):
        if rng.random() < BAD_CLIENTS:
            with contextlib.suppress(OSError):
                rng.choice(MISBEHAVIOURS)(port)
            tally.count("misbehaved")
            continue
        item = rng.randrange(ITEMS)
        text, stream = question_of(item, rng.randrange(1_000_000)), rng.random() < 0.5
        try:
            status, reply = request(port, "POST", "/v1/ask", {"question": text}, stream=stream)
            answer = read_answer(reply, stream=stream)
        except (OSError, http.client.HTTPException):
            tally.count("connection lost")
            continue
        # A stream has begun with 200 when its question fails; the error is its last event.
        status = answer.get("status", status)
        tally.count(str(answer["outcome"] if status == 200 else status))
        with tally.lock:
            if status not in EXPECTED_STATUSES:
                tally.wrong.append(f"{text} got {status}: {answer}")
            elif status == 200 and answer["answer"] is not None:
                tally.answered[text] = answer["answer"]
                if answer["answer"] != code_of(item):
                    tally.wrong.append(f"{text} got {answer['answer']}")


def _leave(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        body = json.dumps({"question": question_of(1, 1)}).encode()
        head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _send_half(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: loc")
        time.sleep(1)


def _send_garbage(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\0\xff" * 50 + b"\r\n\r\n")
        connection.recv(1000)


def _send_too_much(port: int) -> None:
    with contextlib.suppress(http.client.HTTPException):
        request(port, "POST", "/v1/ask", {"question": "x" * 300_000})


_MOST_HOSTILE = 12
"""They are there from the beginning: each life of the server begins with as many."""


class HostileFiles:
    """Keeps a folder full of files that cannot be read: again and again one arrives and the oldest vanishes.

    None of them gives a passage, so that the prompts at the end are those of the answers before.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.arrived: Counter[str] = Counter()
        self._folder = folder
        self._kinds = [
            *WRITERS,
            *(f"damaged{ending}" for ending in (".pdf", ".docx", ".xlsx", ".zip", ".epub", ".odt")),
        ]
        self._damaged = {
            kind: _find_unreadable(kind.removeprefix("damaged"), seed) for kind in self._kinds[len(WRITERS) :]
        }
        self._present: list[Path] = []
        for _ in range(_MOST_HOSTILE):
            self._add()

    def run(self, seconds: float, stop: threading.Event) -> None:
        """Replace the oldest file by a new one until it is told to stop, then remove them all."""
        while not stop.wait(seconds):
            self._add()
            self._present.pop(0).unlink()
        for path in self._present:
            path.unlink()

    def _add(self) -> None:
        number = self.arrived.total()
        kind = self._kinds[number % len(self._kinds)]
        path = self._folder / f"hostile{number}{kind[kind.index('.') :]}"
        if kind in WRITERS:
            WRITERS[kind](path)
        else:
            path.write_bytes(self._damaged[kind])
        self.arrived[kind] += 1
        self._present.append(path)


def _find_unreadable(ending: str, seed: int) -> bytes:
    seeds = write_seeds()[ending]
    return next(
        data
        for number in range(1000)
        if read(f"a{ending}", data := make_file(ending, seeds, number, seed)) == "unreadable"
    )


WRITERS: dict[str, Callable[[Path], Any]] = {
    "wide cell.docx": write_wide_cell,
    "attributes.html": lambda path: path.write_text(
        f"<p {' '.join(f'a{each}=1' for each in range(300_000))}>words</p>"
    ),
    "commas.csv": lambda path: path.write_bytes(b"a,b\n" + b"," * 30_000_000),
    "one line.txt": lambda path: path.write_bytes(b"word " * 20_000_000),
    "bomb.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b'{"text": "the same again"}\n' * 200_000)),
    "pipe.txt": os.mkfifo,
    "link to a device.txt": lambda path: path.symlink_to("/dev/zero"),
    "link to a file.txt": lambda path: path.symlink_to("/etc/passwd"),
}

MISBEHAVIOURS: tuple[Callable[[int], None], ...] = (_leave, _send_half, _send_garbage, _send_too_much)


def soak(
    folder: Path,
    seconds: float,
    clients: int,
    kill_seconds: float,
    pause: float,
    seed: int,
    hostile_seconds: float = 10,
) -> dict[str, Any]:
    """Run it all in a folder, and return what was counted."""
    write_documents(folder)
    hostile = HostileFiles(folder / "items", seed)
    model, tally, stop = ModelServer(seed, thinking_seconds=0.3), Tally(), threading.Event()
    server = KilledServer(folder, model.url)
    lives: list[dict[str, float]] = []
    life_seconds = min(seconds, kill_seconds)
    kills = max(1, int(seconds // kill_seconds))
    threads = [
        threading.Thread(target=run_client, args=(server.port, tally, random.Random(f"{seed} {number}"), stop, pause))
        for number in range(clients)
    ]
    threads.append(threading.Thread(target=hostile.run, args=(hostile_seconds, stop)))
    began = time.monotonic()
    try:
        for thread in threads:
            thread.start()
        for number in range(kills):
            life = _live(server, life_seconds)
            server.kill()
            killed = time.monotonic()
            if number < kills - 1:
                server.start()
            lives.append(life | {"killed_at": killed - began, "down": time.monotonic() - killed})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        server.kill()
    model.stop()
    lost = _find_lost(server, tally)
    return {
        "minutes": round(seconds / 60, 2),
        "clients": clients,
        "kills": len(lives),
        "killed_at_seconds": [round(life["killed_at"]) for life in lives],
        "seconds_until_it_answered_again": [round(life["down"], 1) for life in lives if life["down"] > 0.1],
        "requests": dict(sorted(tally.statuses.items())),
        "model_calls": model.calls,
        "model_faults": dict(sorted(model.faults.items())),
        "hostile_files": dict(sorted(hostile.arrived.items())),
        "processes_left": _count_processes(folder),
        "answers": len(tally.answered),
        "wrong": tally.wrong[:20],
        "lost": lost[:20],
        "memory": {
            "lives_mb": [[round(life["begin_mb"]), round(life["end_mb"])] for life in lives],
            "median_end_over_begin": round(statistics.median(life["end_mb"] / life["begin_mb"] for life in lives), 3),
        },
        "log_bytes": server.log.stat().st_size,
    }


def _count_processes(folder: Path) -> int:
    """Count the processes that have the folder in their environment: workers that outlived their server."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += f"BELIEFRAG_CACHE_DIR={folder}/".encode() in path.read_bytes()
    return found


def write_documents(folder: Path) -> None:
    """Write what the documents list: a file for each item."""
    documents = folder / "items"
    documents.mkdir()
    for item in range(ITEMS):
        text = f"# Item {item}\n\nThe store keeps it in hall {item % 9}. item-{item} has the code {code_of(item)}.\n"
        (documents / f"item-{item}.md").write_text(text, encoding="utf-8")


def _live(server: KilledServer, seconds: float) -> dict[str, float]:
    """Let the server run; return the least memory that it held in the second and in the last quarter of the time.

    Replies, and a second index while the documents change, come and go. What leaks stays.
    """
    time.sleep(seconds / 4)
    begin = _least_memory(server, seconds / 4)
    time.sleep(seconds / 4)
    return {"begin_mb": begin, "end_mb": _least_memory(server, seconds / 4)}


def _least_memory(server: KilledServer, seconds: float) -> float:
    give_up, least = time.monotonic() + seconds, server.memory_mb()
    while time.monotonic() < give_up:
        time.sleep(seconds / 20)
        least = min(least, server.memory_mb())
    return least


def _find_lost(server: KilledServer, tally: Tally) -> list[str]:
    """Ask each answered question again without a model; return those that do not get the same answer."""
    server.start()
    try:
        return [text for text, given in tally.answered.items() if _ask_again(server.port, text) != given]
    finally:
        server.kill()


def _ask_again(port: int, text: str) -> str | None:
    status, reply = request(port, "POST", "/v1/ask", {"question": text})
    answer: str | None = json.loads(reply)["answer"] if status == 200 else f"status {status}"
    return answer


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True)
        yield given
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def main() -> int:
    """Read the command line, run, print and write; ends with 1 if an answer was wrong or lost, or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--kill-seconds", type=float, default=120.0)
    parser.add_argument("--hostile-seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=2.0, help="mean seconds between two questions of a client")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="a new folder that is kept; by default one that is removed")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with _folder(given.work) as folder:
        result = soak(
            folder,
            60 * given.minutes,
            given.clients,
            given.kill_seconds,
            given.pause,
            given.seed,
            given.hostile_seconds,
        )
    head = {"date": datetime.now(UTC).date().isoformat(), "beliefrag": __version__, "seed": given.seed}
    text = json.dumps(head | result, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    return int(
        bool(result["wrong"] or result["lost"] or result["processes_left"])
        or result["memory"]["median_end_over_begin"] > 1.1
    )


if __name__ == "__main__":
    sys.exit(main())
