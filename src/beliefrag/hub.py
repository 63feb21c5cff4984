"""Downloads from the Hugging Face hub, or from the mirror in `HF_ENDPOINT`, for model weights and benchmark files.

All calls go through `huggingface_hub`. It is imported at the first download: it takes a fifth of a second. A whole file
comes with `hf_hub_download`; weights are streamed, because that function begins a killed download again from the start.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from beliefrag.errors import SettingsError, TransportError

# The library is imported where it is needed.
# ruff: noqa: PLC0415

__all__ = ["DownloadError", "HubFile", "check_file", "download_file", "hub_host", "list_files", "open_stream"]

_PUBLIC_HUB = "https://huggingface.co"
_STALL_SECONDS = 30.0
"""Seconds without a byte after which a connection counts as broken."""
_PARTIAL_CONTENT = 206
_STATUS_WORDS = {
    401: "asks for a token",
    403: "does not allow this download",
    404: "does not have this file (any more)",
}


class DownloadError(TransportError):
    """A file cannot be downloaded from one place at the moment; another place may have it."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a repository on the hub."""

    repository: str
    file: str
    revision: str = "main"
    kind: Literal["model", "dataset"] = "model"


def hub_host() -> str:
    """Gives the host of the hub or of its mirror, for people.

    Raises:
        SettingsError: `HF_ENDPOINT` is not a web address.
    """
    return urlsplit(_address()).hostname or ""


def check_file(file: HubFile, *, seconds: float) -> None:
    """Returns when the hub has the file and lets us download it.

    Args:
        file: The file.
        seconds: How long the check may take in all.

    Raises:
        DownloadError: The hub does not answer in time, or does not give the file.
        SettingsError: `HF_ENDPOINT` or `HF_TOKEN` cannot be used.
    """
    _prepare_import()
    from huggingface_hub import get_hf_file_metadata

    address, token, host = _file_address(file), _token(), hub_host()
    problems: list[Exception] = []

    def ask() -> None:
        try:
            with _explain_errors():
                get_hf_file_metadata(address, token=token, timeout=seconds, endpoint=_address())
        except Exception as error:
            problems.append(error)

    # In a thread of its own: a name server that does not answer blocks for longer than any timeout of the client.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    if asking.is_alive():
        raise DownloadError(f"{host} did not answer within {seconds:g} s.")
    if problems:
        raise problems[0]


@contextmanager
def open_stream(file: HubFile, start: int) -> Iterator[tuple[bool, Iterator[bytes]]]:
    """Opens a download from a byte on; gives whether it really starts there (or at 0), and the bytes as they come.

    Raises:
        DownloadError: The hub does not give the file, or the connection breaks; it is retryable where a new attempt
            may help.
    """
    _prepare_import()
    from huggingface_hub import get_session
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

    headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
    if token := _token():
        # Sent to this host only: the HTTP client drops it when the hub redirects to its storage.
        headers["Authorization"] = f"Bearer {token}"
    with _explain_errors():
        opened = get_session().stream("GET", _file_address(file), headers=headers, timeout=_STALL_SECONDS)
        with opened as response:
            hf_raise_for_status(response)
            # As they come: larger pieces would lose the last one when a connection breaks.
            yield response.status_code == _PARTIAL_CONTENT, response.iter_raw()


def download_file(file: HubFile, folder: Path) -> Path:
    """Downloads one file whole into a folder, under its name in the repository; gives its path.

    Raises:
        DownloadError: The hub does not give the file.
    """
    # `hf_hub_download` takes 24 seconds to report that there is no network.
    check_file(file, seconds=_STALL_SECONDS)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import silent_tqdm  # type: ignore[attr-defined]

    with _explain_errors():
        found = hf_hub_download(
            file.repository,
            file.file,
            repo_type=file.kind,
            revision=file.revision,
            local_dir=folder,
            endpoint=_address(),
            token=_token(),
            tqdm_class=silent_tqdm,
        )
    return Path(found)


def list_files(repository: str, revision: str, kind: Literal["model", "dataset"]) -> list[str]:
    """Gives the names of all files of a repository.

    Raises:
        DownloadError: The hub does not give the list.
    """
    _prepare_import()
    from huggingface_hub import HfApi

    with _explain_errors():
        return HfApi(endpoint=_address(), token=_token()).list_repo_files(repository, revision=revision, repo_type=kind)


def _prepare_import() -> None:
    # Both are read when the library is imported. It would else fetch a list of programs to name in its requests, and
    # print its own warnings between our lines.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Turns the errors of the library into one line. Addresses are left out: that of a redirect has a signature."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    host = hub_host()
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadError(
            f"{host} {_STATUS_WORDS.get(status, 'failed')} (HTTP {status}).",
            remedy="Check HF_TOKEN." if status in (401, 403) else "",
            status=status,
            retryable=status >= 500 or status in (408, 429),
        ) from None
    except OfflineModeIsEnabled:
        raise DownloadError(f"{host} is not used, because HF_HUB_OFFLINE is set.", remedy="Unset it.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DownloadError(
            f"{host} cannot be reached, or broke the connection ({type(error).__name__}).",
            remedy="Try again: a download continues where it stopped.",
            retryable=isinstance(error, httpx2.TransportError),
        ) from None


def _file_address(file: HubFile) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(file.repository, file.file, repo_type=file.kind, revision=file.revision, endpoint=_address())


def _address() -> str:
    address = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or _PUBLIC_HUB
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("HF_ENDPOINT is not a web address.", remedy=f"Unset it, or give one like {_PUBLIC_HUB}.")
    return address


def _token() -> str | Literal[False]:
    """Gives the token in `HF_TOKEN`; False tells the library to send none."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise SettingsError("HF_TOKEN has characters that no token has.", remedy="Copy it again.")
    return token or False
