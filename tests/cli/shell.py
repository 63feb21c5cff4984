"""Runs the command line as a person or a script would, and makes what it needs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beliefrag.cli import main
from tests.support.episodes import verdict

SURE = verdict(0.95, 0.05, 0.05)
UNSURE = verdict(0.0, 1.0, 1.0)
ANSWER = {"purpose": "answer", "reply": "Larvik"}
QUESTION = "Where was the designer of the Fram born?"
BORROWED = ("--set", "borrow=published", "--set", "verifier=structured")


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def in_process(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    """Run a command through the entry point, in this process."""
    capsys.readouterr()
    log = logging.getLogger("beliefrag")
    level = log.level
    try:
        code = main([str(argument) for argument in arguments])
    finally:
        # A command ends its process; here --debug must not hold for the tests that follow.
        log.setLevel(level)
    said = capsys.readouterr()
    return Ran(code, said.out, said.err)


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of another process."""
    return [sys.executable, "-m", "beliefrag", *map(str, arguments)]


def in_shell(
    *arguments: str | Path, env: Mapping[str, str] | None = None, timeout_seconds: float = 300, **how: Any
) -> Ran:
    """Run a command in a process of its own, without a terminal."""
    done = subprocess.run(
        command(*arguments),
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        env={**os.environ, **(env or {})},
        **how,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def without_progress(err: str) -> str:
    """Drop the progress lines of a long command."""
    return re.sub(r"^(indexing: .*|.*, \d+ s)\n", "", err, flags=re.MULTILINE)


def on_terminal(
    *arguments: str | Path, typed: str = "", columns: int = 80, term: str = "xterm-256color", errors: Path | None = None
) -> tuple[int, str]:
    """Run a command on a terminal on which `typed` is typed; return its exit code and all that it sent to the screen.

    `errors` takes standard error; by default it goes to the terminal too.
    """
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": term, "COLUMNS": str(columns), "LINES": "40"}
    with errors.open("w") if errors else contextlib.nullcontext(theirs) as stderr:
        process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=stderr, env=env)
    os.close(theirs)
    os.write(ours, typed.encode())
    screen = b""
    try:
        while chunk := os.read(ours, 65536):
            screen += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error
    finally:
        os.close(ours)
    return process.wait(timeout=300), screen.decode()


def write_docs(folder: Path) -> Path:
    """Return a small folder of documents."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "fram.md").write_text("# Fram\n\nThe polar ship Fram was designed by Colin Archer.\n", encoding="utf-8")
    (docs / "archer.md").write_text("# Colin Archer\n\nColin Archer was born in Larvik.\n", encoding="utf-8")
    (docs / "gjoa.md").write_text("# Gjøa\n\nThe ship Gjøa took Amundsen through the ice.\n", encoding="utf-8")
    return docs


def write_script(folder: Path, *lines: Mapping[str, Any], name: str = "script.jsonl") -> str:
    """Write a scripted model, and return its name for --model."""
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return f"scripted:{path}"


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def expect_one_line(ran: Ran, code: int, *words: str) -> None:
    """Assert that the command printed one error line with these words, and nothing else."""
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert ran.err.startswith("error: ") and ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err
