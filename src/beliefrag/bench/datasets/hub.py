"""Gets published files from the Hugging Face hub, for formats that are there in the form that we read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from beliefrag.bench.datasets.catalogue import format_named
from beliefrag.bench.datasets.format import HubFiles
from beliefrag.runs.errors import DataError

__all__ = ["fetch_published"]

_HUB = "https://huggingface.co"
_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
_STALLED = 30.0
"""Seconds without a byte after which a connection counts as broken."""


def fetch_published(name: str, folder: Path, *, told: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Downloads the published files of a format; gives their paths.

    The hub's address can be changed with `HF_ENDPOINT`. No token is sent: all of these are public.

    Args:
        name: The format.
        folder: Where to put them. Files that are there already are kept.
        told: Is given a line for each file.

    Raises:
        DataError: The format is not on the hub in a form that we read, or the hub does not give it.
    """
    published = format_named(name)
    if published.hub is None:
        raise DataError(
            f"{published.title} is not on the hub in its published form.",
            remedy=f"Take {published.expects} from {published.source}, then 'beliefrag data import {name} FILE...'.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with httpx2.Client(timeout=_STALLED, follow_redirects=True) as client:
        for file in published.hub.files or _listed(client, published.hub):
            path = folder / file
            if not path.exists():
                told(f"Getting {file} of {published.hub.repository}")
                path.parent.mkdir(parents=True, exist_ok=True)
                _download(client, f"datasets/{published.hub.repository}/resolve/{published.hub.revision}/{file}", path)
            paths.append(path)
    return paths


def _listed(client: httpx2.Client, hub: HubFiles) -> list[str]:
    """The files of a repository that end as wanted."""
    with _explained(hub.repository):
        address = f"{_base()}/api/datasets/{hub.repository}/tree/{hub.revision}"
        response = client.get(address, params={"recursive": "true"})
        response.raise_for_status()
        names = [str(item["path"]) for item in response.json()]
    # A listing is somebody else's text: a name that is not plain words and slashes never becomes a path.
    return [name for name in names if name.endswith(hub.every) and _PLAIN.fullmatch(name)]


def _download(client: httpx2.Client, address: str, path: Path) -> None:
    aside = path.with_name(f".{path.name}.part")
    try:
        with (
            _explained(address),
            client.stream("GET", f"{_base()}/{address}") as response,
            aside.open("wb") as file,
        ):
            response.raise_for_status()
            for piece in response.iter_bytes():
                file.write(piece)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _base() -> str:
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or _HUB


@contextmanager
def _explained(what: str) -> Iterator[None]:
    remedy = "Check the network and HF_ENDPOINT; or get the files elsewhere and use 'beliefrag data import'."
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise DataError(f"The hub answered {error.response.status_code} for {what}.", remedy=remedy) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DataError(f"The hub cannot be reached ({type(error).__name__}).", remedy=remedy) from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"The hub's listing of {what} cannot be read.", remedy=remedy) from None
