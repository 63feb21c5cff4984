"""Reads files in worker processes with limits on memory, time and text: a hostile file costs one line of the report.

A worker gets an open file and returns passages as lines of JSON. Limits are the same for all formats.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import re
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self

from beliefrag.retrieval.documents import CorpusFile, ReadPassage, Unreadable, cut_document, links_of, read_file
from beliefrag.types import Passage, Reading

Message = tuple[str, Any]
"""`passages` with their fields, `complaint` with its words, or `end` with a reason if the file cannot be read."""

_START = "import sys; sys.path[:] = sys.argv[2:]; from beliefrag.retrieval.isolation import work; work()"
_LARGE = 100_000_000
_BATCH = 32_000
"""Characters of passages that are sent at a time."""
_MOST_WORKERS = min(4, os.cpu_count() or 1)
_FILES_PER_WORKER = 128
_MOST_COMPLAINTS = 20
_HEAD = 4
_GARBLED = re.compile("\ufffd|\u00e2\u20ac|\u00c2[\u0080-\u00bf\u2013-\u2122]|\u00c3[\u0080-\u00bf\u2013-\u2122]")
"""Characters that could not be decoded, or that were decoded as Windows-1252 and are UTF-8."""
_PER_GARBLED = 100
_GRACE = 5.0
_OUT_OF_TIME = 1  # what faulthandler exits with
_OUT_OF_MEMORY = 3


def open_regular(path: str) -> BufferedReader:
    """Open a regular file, or raise `Unreadable`; never follow a link or wait for a pipe or a device."""
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
    try:
        descriptor = os.open(path, os.O_RDONLY | sum(flags))
    except OSError as problem:
        if problem.errno == errno.ENXIO:  # a socket
            raise Unreadable("is not a regular file") from problem
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise Unreadable("is not a regular file")


class FileReading:
    """Turns the messages about a file into passages as it is iterated over; `Unreadable` ends the iteration."""

    def __init__(self, messages: Iterator[Message] | list[Message], source: str) -> None:
        self._messages = messages
        self._source = source
        self._complaints: list[str] = []
        self._further = 0
        self.passages = 0
        """How many there were so far."""

    def load(self) -> None:
        """Read the whole file into memory so that a worker on another machine can send it back."""
        self._messages = list(self._messages)

    def __iter__(self) -> Iterator[Passage]:
        reason = ""
        for kind, value in self._messages:
            if kind == "passages":
                for name, title, text, place, metadata, links in value:
                    self.passages += 1
                    fields = (name, title, text, self._source, place, tuple(map(tuple, metadata)))
                    yield ReadPassage(*fields, links) if links else Passage(*fields)
            elif kind == "end":
                reason = value
            elif len(self._complaints) < _MOST_COMPLAINTS:
                self._complaints.append(value)
            else:
                self._further += 1
        reason = reason or ("" if self.passages or self._complaints else "holds no text")
        if reason:
            raise Unreadable(reason)

    def complaints(self) -> list[str]:
        """Return what was left out: the first few cases, and how many more there were."""
        return self._complaints + ([f"{self._further} more problems like these"] if self._further else [])


class ReadingWorkers:
    """Worker processes, started when needed and used for many files; one that exceeds a limit is replaced."""

    ahead = 8 * _MOST_WORKERS
    """How many readings to begin before the first one is used."""

    def __init__(self, limits: Reading) -> None:
        self.limits = limits
        self._workers: list[_Worker] = []
        self._begun = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()

    def begin(self, file: CorpusFile) -> FileReading:
        """Begin to read a file, which stays open until the reading has ended. Readings are used in their order."""
        # A process more for a few files takes longer to start than it saves.
        most = min(_MOST_WORKERS, 1 + self._begun // _FILES_PER_WORKER)
        self._begun += 1
        worker = self._start() if len(self._workers) < most else min(self._workers, key=lambda each: each.queued)
        return FileReading(self._receive(worker, worker.send(file), file), file.source)

    def _start(self) -> _Worker:
        self._workers.append(worker := _Worker(self.limits))
        return worker

    def _receive(self, worker: _Worker, number: int, file: CorpusFile) -> Iterator[Message]:
        received, is_done = 0, False
        while not is_done:
            try:
                for message in islice(worker.receive(), received, None):
                    received += 1
                    is_done = message[0] == "end"
                    yield message
            finally:
                if not is_done and (was_alive := worker in self._workers):
                    self._workers.remove(worker)
                    code = worker.kill(grace=_GRACE)
            if is_done:
                return
            if was_alive and (number == 1 or code == _OUT_OF_TIME):
                is_done = True
                yield "end", self._explain(code)
            else:
                # It died over a file before this one, or files before had left it little memory.
                worker = next((each for each in self._workers if not each.queued), None) or self._start()
                number = worker.send(file)

    def _explain(self, code: int) -> str:
        if code == _OUT_OF_TIME:
            return f"takes more than {self.limits.seconds:g} s to read (setting reading.seconds)"
        if code == _OUT_OF_MEMORY:
            return f"takes more than {self.limits.memory_mb:,} MB of memory to read (setting reading.memory_mb)"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"crashes its reader ({how})"


class _Worker:
    """The parent's end of one worker process."""

    def __init__(self, limits: Reading) -> None:
        import subprocess  # noqa: PLC0415 - a worker imports this module too, and no more than it needs

        command = [sys.executable, "-c", _START, json.dumps(asdict(limits)), *sys.path]
        with ExitStack() as stack:
            stdin: Any = subprocess.PIPE
            self._requests: socket.socket | None = None
            if sys.platform != "win32":
                self._requests, theirs = socket.socketpair()
                stdin = stack.enter_context(theirs)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=1 << 20
            )
        self._sent = 0
        self.queued = 0
        """How many files were sent whose last message was not received."""

    def send(self, file: CorpusFile) -> int:
        """Ask for the passages of an open file, and return how many were asked for so far."""
        self._sent += 1
        self.queued += 1
        size = os.fstat(file.content.fileno()).st_size
        request = {"name": file.name, "source": file.source, "parts": 1 + size // _LARGE}
        # A worker that has just died is noticed when its answer is read.
        with suppress(OSError):
            if sys.platform == "win32":
                import msvcrt  # noqa: PLC0415
                from multiprocessing.reduction import duplicate  # noqa: PLC0415

                handle = msvcrt.get_osfhandle(file.content.fileno())
                request["handle"] = duplicate(handle, int(self._process._handle))
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            elif self._requests is not None:
                data = json.dumps(request).encode()
                socket.send_fds(self._requests, [len(data).to_bytes(_HEAD)], [file.content.fileno()])
                self._requests.sendall(data)
        return self._sent

    def receive(self) -> Iterator[Message]:
        """Yield the messages about the next file; the last is `end` unless the process dies before."""
        assert self._process.stdout is not None
        while not self._process.stdout.closed and (line := self._process.stdout.readline()).endswith(b"\n"):
            kind, value = json.loads(line)
            if kind == "end":
                self.queued -= 1
                yield kind, value
                return
            yield kind, value

    def kill(self, *, grace: float = 0) -> int:
        """End the process and return its exit code; one that ends of itself in the seconds of grace keeps its own."""
        from subprocess import TimeoutExpired  # noqa: PLC0415 - as above

        try:
            code = self._process.wait(grace)
        except TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for stream in (self._requests, self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return code


def work() -> None:
    """Answer requests from standard input until it ends: the main function of a worker process."""
    limits = Reading(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    # Libraries print to standard output, so only this copy of it leads to the parent.
    with os.fdopen(os.dup(1), "wb") as out, Path(os.devnull).open("r+b") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        _limit_memory(limits.memory_mb)
        while (request := _next_request()) is not None:
            with os.fdopen(request.pop("descriptor"), "rb") as content:
                content.seek(0)
                parts = request.pop("parts")
                answer = _Answer(out, nowhere, limits.seconds * parts, limits.output_mb * parts)
                answer.read(CorpusFile(**request, content=content))


def _limit_memory(megabytes: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def _next_request() -> dict[str, Any] | None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415

        line = sys.stdin.buffer.readline()
        request = json.loads(line) if line else None
        if request is not None:
            request["descriptor"] = msvcrt.open_osfhandle(request.pop("handle"), os.O_RDONLY)
        return request
    with socket.socket(fileno=os.dup(0)) as requests:
        head, descriptors, _, _ = socket.recv_fds(requests, _HEAD, 1)
        data = requests.recv(int.from_bytes(head), socket.MSG_WAITALL) if head else b""
    return {**json.loads(data), "descriptor": descriptors[0]} if data else None


def _encode(kind: str, value: object) -> bytes:
    return json.dumps((kind, value)).encode() + b"\n"


class _Answer:
    """Reads one file in the worker and sends messages; time in which the parent does not take them is not counted."""

    def __init__(self, out: BinaryIO, nowhere: BinaryIO, seconds: float, megabytes: int) -> None:
        self._out = out
        self._nowhere = nowhere
        self._seconds = seconds
        self._megabytes = megabytes
        self._rest = b""

    def read(self, file: CorpusFile) -> None:
        """Send the passages of a file, what was left out, and the reason if it cannot be read."""
        self._start_timer()
        try:
            reason = self._send_passages(file)
        except Unreadable as problem:
            reason = problem.message
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except BaseException as problem:
            # A parser may fail in any way on a broken file; panics of Rust are not even an Exception.
            words = " ".join(str(problem).split())[:200]
            reason = f"cannot be read ({type(problem).__name__}: {words})"
        self._send(self._rest + _encode("end", reason))

    def _send_passages(self, file: CorpusFile) -> str:
        """Send the passages of a file but for the last ones, which go with the end: one line fewer to wait for."""
        batch: list[tuple[object, ...]] = []
        size = total = garbled = 0
        for document in read_file(replace(file, complain=lambda what: self._send_part("complaint", what))):
            for passage in cut_document(document):
                fields = (passage.id, passage.title, passage.text, passage.place, passage.metadata, links_of(passage))
                batch.append(fields)
                size += len(passage.title) + len(passage.text)
                garbled += 0 if passage.text.isascii() else len(_GARBLED.findall(passage.text))
                if size >= _BATCH:
                    self._send_part("passages", batch)
                    total += size
                    batch, size = [], 0
                    if total > self._megabytes * 1_000_000:
                        return f"holds more than {self._megabytes:,} MB of text (setting reading.output_mb)"
        self._rest = _encode("passages", batch)
        if garbled * _PER_GARBLED > total + size:
            self._send_part("complaint", f"looks garbled ({garbled:,} unreadable characters); it was read all the same")
        return ""

    def _send_part(self, kind: str, value: object) -> None:
        self._send(_encode(kind, value))
        self._start_timer()

    def _send(self, lines: bytes) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._seconds -= time.monotonic() - self._since
        self._out.write(lines)
        self._out.flush()

    def _start_timer(self) -> None:
        self._since = time.monotonic()
        # The timer is a thread of C: it ends the process even while a library holds the interpreter.
        faulthandler.dump_traceback_later(max(self._seconds, 0.001), exit=True, file=self._nowhere)
