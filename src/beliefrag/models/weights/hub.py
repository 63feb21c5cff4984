"""Weights from the Hugging Face hub: one file over HTTP, continued where the last attempt broke off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from beliefrag.errors import SettingsError
from beliefrag.models.weights.aside import Aside
from beliefrag.models.weights.catalogue import HubFile, Weights
from beliefrag.models.weights.sources import SourceError, SourceName

__all__ = ["Hub"]

_HUB = "https://huggingface.co"
_STALLED = 30.0
"""Seconds without a byte after which a connection counts as broken."""


class Hub:
    """Fetches from the hub, or from the mirror in `HF_ENDPOINT`, with the token in `HF_TOKEN` if there is one.

    The token goes to that one host only. The hub answers with a redirect to its storage, and the HTTP client drops the
    token there.

    Args:
        patience: Seconds that `check` may take altogether.
        attempts: How often in a row a connection may break before anything has come.
        pause: Seconds to wait before connecting again; doubled each time that nothing came.
    """

    def __init__(self, *, patience: float = 5.0, attempts: int = 5, pause: float = 1.0) -> None:
        self._patience = patience
        self._attempts = attempts
        self._pause = pause

    @property
    def name(self) -> SourceName:
        """`hub`."""
        return SourceName.HUB

    def has(self, weights: Weights) -> bool:
        """Whether the catalogue names a file on the hub."""
        return weights.hub is not None

    def describe(self, weights: Weights) -> str:
        """The host and the repository."""
        return f"{_endpoint().host}, {_file(weights).repository}"

    def scratch(self, weights: Weights) -> int:
        """Nothing: the bytes go straight into the file."""
        return 0

    def check(self, weights: Weights) -> None:
        """Asks for the file's headers."""
        url = _url(weights)
        problems: list[Exception] = []

        def ask() -> None:
            try:
                with httpx2.Client(timeout=self._patience) as client, _explained(url.host):
                    response = client.head(url, headers=_credentials())
                    if response.is_error:
                        response.raise_for_status()
            except Exception as error:
                problems.append(error)

        # A name server that does not answer blocks for longer than any timeout of the client.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(self._patience)
        if asking.is_alive():
            raise SourceError(f"{url.host} did not answer within {self._patience:g} s.")
        if problems:
            raise problems[0]

    def fetch(self, weights: Weights, aside: Aside) -> None:
        """Downloads the rest of the file, continuing after a broken connection."""
        url = _url(weights)
        with httpx2.Client(timeout=_STALLED) as client, _explained(url.host):
            fruitless = 0
            while aside.size < aside.limit:
                before = aside.size
                try:
                    self._continue(client, url, aside)
                except httpx2.HTTPError as error:
                    fruitless = 0 if aside.size > before else fruitless + 1
                    if fruitless == self._attempts or not _worth_another_try(error):
                        raise
                    time.sleep(self._pause * 2**fruitless)

    def _continue(self, client: httpx2.Client, url: httpx2.URL, aside: Aside) -> None:
        headers = _credentials() | {"Range": f"bytes={aside.size}-", "Accept-Encoding": "identity"}
        with client.stream("GET", url, headers=headers, follow_redirects=True) as response:
            response.raise_for_status()
            if response.status_code != httpx2.codes.PARTIAL_CONTENT:
                aside.cut(0)
            # Raw and in whatever pieces they come: collecting larger ones would lose the last when a connection breaks.
            aside.append(response.iter_raw())
        if aside.size < aside.limit:
            raise httpx2.RemoteProtocolError("the server closed the connection early")


def _worth_another_try(error: Exception) -> bool:
    if isinstance(error, httpx2.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code in (408, 429)
    return isinstance(error, httpx2.TransportError)


@contextmanager
def _explained(host: str) -> Iterator[None]:
    """Turns what the HTTP client raises into one line. Addresses are left out: a redirect's holds a signature."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        status = error.response.status_code
        what = {401: "asks for a token", 403: "does not allow this download", 404: "does not have this file (any more)"}
        raise SourceError(
            f"{host} {what.get(status, 'failed')} (HTTP {status}).",
            remedy="Check HF_TOKEN." if status in (401, 403) else "",
            status=status,
        ) from None
    except httpx2.RequestError as error:
        kind = type(error).__name__
        raise SourceError(
            f"{host} cannot be reached, or broke the connection ({kind}).",
            remedy="Pull again to go on where it stopped.",
        ) from None


def _file(weights: Weights) -> HubFile:
    if weights.hub is None:
        raise SourceError(f"{weights.name} is not known to be on the hub.")
    return weights.hub


def _url(weights: Weights) -> httpx2.URL:
    file = _file(weights)
    endpoint = _endpoint()
    base = endpoint.path.rstrip("/")
    return endpoint.copy_with(path=f"{base}/{file.repository}/resolve/{file.revision}/{file.file}")


def _endpoint() -> httpx2.URL:
    try:
        url = httpx2.URL(os.environ.get("HF_ENDPOINT", "").strip() or _HUB)
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError("HF_ENDPOINT is not a web address.", remedy=f"Unset it, or give one like {_HUB}.")
    return url


def _credentials() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise SettingsError("HF_TOKEN has characters that no token has.", remedy="Copy it again.")
    return {"Authorization": f"Bearer {token}"} if token else {}
