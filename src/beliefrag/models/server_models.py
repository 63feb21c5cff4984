"""Which models an OpenAI-compatible server has, for people who name a server and no model."""

from __future__ import annotations

import json
import os
from typing import Any

from beliefrag.errors import SettingsError
from beliefrag.settings import Settings

__all__ = ["choose_server_model", "list_server_models", "use_server_model"]

# Every question passes here, and only those who name a server and no model need the library.
# ruff: noqa: PLC0415

_HOW = "with --model, or with model= in Python"

_SECONDS = 10.0
_LARGEST_BODY = 4 * 1024 * 1024
_MOST_NAMED = 10


def use_server_model(settings: Settings) -> Settings:
    """Gives settings that name a model: where they name a server and no model, the one model that the server has.

    Somebody who gives us a `base_url` means its model and not the embedded one. OPENAI_BASE_URL alone does not: it may
    be set for other programs, and documents go to no server that was not named for them. A model that is named stays.

    Raises:
        SettingsError: The server has no model or several, or does not say.
    """
    if "model" in settings.model_fields_set or not settings.base_url:
        return settings
    return settings.with_model(choose_server_model(settings.base_url))


def choose_server_model(base_url: str) -> str:
    """Gives the one model that a server has.

    Raises:
        SettingsError: It has none or several, or does not say.
    """
    names = list_server_models(base_url)
    if len(names) == 1:
        return names[0]
    if not names:
        raise SettingsError(f"The server {_public(base_url)} has no model.", remedy=f"Name one {_HOW}.")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    raise SettingsError(
        f"The server {_public(base_url)} has {len(names)} models: {', '.join(names[:_MOST_NAMED])}{more}.",
        remedy=f"Choose one {_HOW}.",
    )


def list_server_models(base_url: str) -> list[str]:
    """Lists the models that a server says it has.

    Raises:
        SettingsError: It cannot be asked, or its reply is no list of models.
    """
    import httpx2

    key = (os.environ.get("OPENAI_API_KEY") or "").strip()
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        url = httpx2.URL(base_url)
        asked = url.copy_with(path=f"{url.path.rstrip('/')}/models")
        with httpx2.Client(timeout=_SECONDS) as client, client.stream("GET", asked, headers=headers) as response:
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > _LARGEST_BODY:
                    raise ValueError("its list of models is larger than 4 MB")
        if response.status_code != 200:
            raise ValueError(f"it replied with status {response.status_code}")
        return _read_names(json.loads(body))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError, RecursionError) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise SettingsError(
            f"The server {_public(base_url)} does not say which models it has: {said}.",
            remedy=f"Check --base-url, or name a model {_HOW}.",
        ) from None


def _read_names(reply: Any) -> list[str]:
    rows = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(rows, list):
        raise ValueError("its reply is no list of models")
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    # A name is shown on a terminal and sent back to the server.
    return [name for name in names if isinstance(name, str) and name and name.isprintable() and len(name) <= 300]


def _public(base_url: str) -> str:
    import httpx2

    try:
        return str(httpx2.URL(base_url).copy_with(username=None, password=None, query=None, fragment=None))
    except (httpx2.InvalidURL, ValueError):
        return "at an address that cannot be read"
