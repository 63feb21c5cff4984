"""Downloads from the Hugging Face hub, or from the mirror in `HF_ENDPOINT`, through `huggingface_hub`.

`hf_hub_download` starts a killed download again from the beginning, so weights are streamed with `open_stream`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from beliefrag.errors import SettingsError, TransportError

# The library takes a fifth of a second to import: it is imported at the first download.
# ruff: noqa: PLC0415


_CONNECT_SECONDS = 5.0
_STALL_SECONDS = 20.0
"""Seconds without a byte after which a connection counts as broken."""


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

        found = hf_hub_download(
            file.repository,
            file.file,
            repo_type=file.kind,
            revision=file.revision,
            local_dir=folder,
            endpoint=_endpoint(),
            token=_token(),
            tqdm_class=silent_tqdm,
        )
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
    # Both are read when the library is imported: no request that lists programs, no warnings between our lines.
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
            f"{host} did not deliver the file (HTTP {status}).",
            remedy="Check HF_TOKEN." if status in (401, 403) else "",
            status=status,
            retryable=status >= 500 or status in (408, 429),
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise DownloadError(
            f"{host} cannot be reached, or broke the connection ({type(error).__name__}).",
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
        raise SettingsError("HF_TOKEN has characters that no token has.", remedy="Copy it again.")
    return token or False
