"""The installation and the cache folder."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from beliefrag.cli.checkup.finding import Finding, State, fine, problem, warning
from beliefrag.errors import BeliefRAGError
from beliefrag.models.reply_store import ReplyStore
from beliefrag.paths import cache_dir

__all__ = ["check_cache", "check_installation"]

_DISTRIBUTION = "beliefrag"
_OLDEST = (3, 11)
_LITTLE_SPACE = 2_000_000_000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_installation() -> Iterator[Finding]:
    """Python, and every package that this one needs."""
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        yield Finding(State.PROBLEM, "python", version, f"Install Python {oldest} or newer.")
    else:
        yield fine("python", version)
    modules = {name: module for module, names in metadata.packages_distributions().items() for name in names}
    for name in _requirements():
        yield _package(name, modules.get(name, name.replace("-", "_")))


def _requirements() -> list[str]:
    needed = [text for text in metadata.requires(_DISTRIBUTION) or () if "extra ==" not in text]
    return sorted(match[0] for text in needed if (match := _NAME.match(text)))


def _package(name: str, module: str) -> Finding:
    try:
        importlib.import_module(module)
        return fine(name, metadata.version(name))
    except Exception as error:
        # Whatever a broken package does when it is imported, the others are still worth looking at.
        detail = f"cannot be imported: {type(error).__name__}: {error}"
        return Finding(State.PROBLEM, name, detail, "Install it again: pip install --force-reinstall " + name)


def check_cache() -> Iterator[Finding]:
    """The cache folder: can it be written to, is there room, and what is recorded in it."""
    try:
        folder = cache_dir()
    except BeliefRAGError as error:
        yield problem("cache folder", error)
        return
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if reason := _not_writable(there):
        remedy = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to."
        yield Finding(State.PROBLEM, "cache folder", f"{folder}: {reason}", remedy)
    else:
        free = shutil.disk_usage(there).free
        detail = f"{folder}, {free / 1e9:.1f} GB free" + ("" if there == folder else ", not made yet")
        if free < _LITTLE_SPACE:
            yield warning("cache folder", detail, "Free some space, or set BELIEFRAG_CACHE_DIR to another disk.")
        else:
            yield fine("cache folder", detail)
    yield _replies(folder / "replies.sqlite")


def _not_writable(folder: Path) -> str:
    if not folder.is_dir():
        return "is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written to"
    try:
        # Rights are not all: the disk may be full or read-only. The file has no name, so nothing is left behind.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
    return ""


def _replies(path: Path) -> Finding:
    if not path.is_file():
        return fine("recorded replies", "none yet")
    try:
        with ReplyStore(path, read_only=True) as store:
            stats = store.stats()
    except BeliefRAGError as error:
        return problem("recorded replies", error)
    except sqlite3.Error as error:
        return Finding(State.PROBLEM, "recorded replies", f"{path}: {error}", "Move the file away.")
    return fine("recorded replies", f"{stats.entries:,}, from {len(stats.by_model)} models, {stats.bytes / 1e6:.1f} MB")
