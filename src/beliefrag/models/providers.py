"""The registered model providers, and how the text after `--model` becomes one of them.

`local:NAME`, `scripted:FILE` and other packages' providers come before a colon. Any other text, with or without colons,
names a model of an OpenAI-compatible server.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatModel
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.settings import Settings

# Each provider imports its own library when a model is opened.
# ruff: noqa: PLC0415

_DEFAULT_PROVIDER = "openai"
_HOW_TO_SET = "with --model, or with model= in Python"


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Which model to open, and the settings that all providers are given."""

    name: str
    """What was typed after the provider's name and its colon."""
    base_url: str | None = None
    timeout: float = 120.0
    """Seconds of one call."""
    context: int = 6144
    """Tokens of a prompt and its reply together, for an embedded model."""
    threads: int | None = None


class ModelProvider(Protocol):
    """What a provider registers: a frozen dataclass whose fields are its options."""

    default_verifier: ClassVar[str]
    """The verifier form that suits its models."""

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Open a model, or raise `ModelError` or `SettingsError`."""


MODEL_PROVIDERS: Registry[ModelProvider, None] = Registry(
    "model provider", "beliefrag.models", dict.fromkeys((_DEFAULT_PROVIDER, "local", "scripted"), __name__)
)


@MODEL_PROVIDERS.register(
    _DEFAULT_PROVIDER,
    title="OpenAI-compatible server",
    summary="Asks any server that speaks OpenAI's chat API: hosted, vLLM, Ollama, llama.cpp.",
)
@dataclass(frozen=True, slots=True)
class OpenAIProvider:
    """A model behind a server."""

    default_verifier: ClassVar[str] = "structured"
    temperature: float | None = 0.0
    limit_replies: bool = True
    """False sends no max_tokens where a call names none, as the paper."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each request."""
    reasoning_effort: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers; `$NAME` is replaced by a variable of the environment."""

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Open the model with the name that the server knows."""
        from beliefrag.models.capabilities import learned_path
        from beliefrag.models.openai_compatible import OpenAICompatible

        own = {"reasoning_effort": self.reasoning_effort, "chat_template_kwargs": dict(self.chat_template_kwargs)}
        return OpenAICompatible(
            address.name,
            base_url=address.base_url,
            timeout=address.timeout,
            temperature=self.temperature,
            limit_replies=self.limit_replies,
            extra_body={**self.extra_body, **{name: value for name, value in own.items() if value}},
            headers=self.headers,
            learned=learned_path(),
        )


@MODEL_PROVIDERS.register(
    "local", title="Embedded model", summary="Runs GGUF weights in this process: no server, no key, no network."
)
@dataclass(frozen=True, slots=True)
class LocalProvider:
    """A model in this process; docs/prompts.md has the measurement behind its verifier."""

    default_verifier: ClassVar[str] = "slots"
    reuse_prefix: bool = True
    prompt_memory_mib: int = 512

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Open weights by a name of the catalogue or by the path of a file."""
        from beliefrag.models.embedded import Embedded, check_is_gguf
        from beliefrag.models.weights import resolve

        path = resolve(f"local:{address.name}")
        check_is_gguf(path)
        return Embedded(
            path,
            context=address.context,
            threads=address.threads,
            reuse_prefix=self.reuse_prefix,
            prompt_memory_mib=self.prompt_memory_mib,
        )


@MODEL_PROVIDERS.register("scripted", title="Scripted model", summary="Reads its replies from a JSON Lines file.")
@dataclass(frozen=True, slots=True)
class ScriptedProvider:
    """A model whose replies are in a file."""

    default_verifier: ClassVar[str] = "structured"

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Open the script at a path."""
        from beliefrag.models.scripted import Scripted

        return Scripted(address.name)


def choose_provider(
    model: str, options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[ExtensionChoice[ModelProvider, None], str]:
    """Return the provider that a model's text names, and the rest of the text."""
    prefix, colon, rest = model.partition(":")
    if colon and prefix != _DEFAULT_PROVIDER and prefix in MODEL_PROVIDERS:
        return MODEL_PROVIDERS.choose(prefix, options), rest
    return MODEL_PROVIDERS.choose(_DEFAULT_PROVIDER, options), model


def open_provider(
    model: str,
    *,
    base_url: str | None = None,
    timeout: float = 120.0,
    context: int = 6144,
    threads: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> ChatModel:
    """Open the model that a text names (`local:NAME`, `scripted:FILE`, ...), without any layer around it."""
    choice, name = choose_provider(model, options)
    opened = choice.build(None).open_model(ModelAddress(name, base_url, timeout, context, threads))
    if not isinstance(opened, ChatModel):
        what = f"The model provider {choice.name!r} opened {type(opened).__name__}, which is not a chat model."
        raise SettingsError(what, remedy="It needs identity, chat and aclose: see beliefrag.models.ChatModel.")
    return opened


def default_verifier(model: str) -> str:
    """Return the verifier form that suits a model."""
    return choose_provider(model)[0].build(None).default_verifier


def is_served(model: str) -> bool:
    """Return whether a model is one of an OpenAI-compatible server."""
    return choose_provider(model)[0].name == _DEFAULT_PROVIDER


def use_server_model(settings: Settings) -> Settings:
    """Return settings that name a model: where they name a server and no model, the one model that the server has.

    OPENAI_BASE_URL alone does not count: it may be set for other programs.
    """
    if "model" in settings.model_fields_set or not settings.base_url:
        return settings
    names = list_server_models(settings.base_url)
    if len(names) != 1:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        listed = f"{len(names)} models: {', '.join(names[:10])}{more}" if names else "no model"
        raise SettingsError(
            f"The server {public_url(settings.base_url)} has {listed}.", remedy=f"Choose one {_HOW_TO_SET}."
        )
    return settings.model_copy(update={"model": names[0]})


def list_server_models(base_url: str) -> list[str]:
    """List the models that a server says it has."""
    import httpx2

    key = (os.environ.get("OPENAI_API_KEY") or "").strip()
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        url = httpx2.URL(base_url)
        asked = url.copy_with(path=f"{url.path.rstrip('/')}/models")
        with httpx2.Client(timeout=10.0) as client, client.stream("GET", asked, headers=headers) as response:
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > 4 * 1024 * 1024:
                    raise ValueError("its list of models is larger than 4 MB")
        if response.status_code != 200:
            raise ValueError(f"it replied with status {response.status_code}")
        reply = json.loads(body)
        if not isinstance(reply, dict) or not isinstance(entries := reply.get("data"), list):
            raise ValueError("its reply is not a list of models")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise SettingsError(
            f"The server {public_url(base_url)} does not list its models: {said[:200] or type(error).__name__}.",
            remedy=f"Check --base-url, or name a model {_HOW_TO_SET}.",
        ) from None
    # A name is shown on a terminal and sent back to the server.
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name and name.isprintable() and len(name) <= 300]


def describe_destination(settings: Settings) -> str | None:
    """Return who is sent the passages that are found; None if they stay on this machine or nothing is known."""
    choice, name = choose_provider(settings.model, settings.models)
    if choice.name != _DEFAULT_PROVIDER:
        return None
    import httpx2

    given = settings.base_url or os.environ.get("OPENAI_BASE_URL")
    if not (given or os.environ.get("OPENAI_API_KEY")):
        return None  # Without a key nothing can be sent to OpenAI.
    url = public_url(given or "https://api.openai.com/v1")
    with contextlib.suppress(ValueError, httpx2.InvalidURL):
        host = httpx2.URL(url).host
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return None
    return f"{name} at {url} is asked: the question and the passages that are found are sent there."


def public_url(base_url: str) -> str:
    """Return an address without user, password and query: any of them may be a key."""
    import httpx2

    try:
        return str(httpx2.URL(base_url).copy_with(username=None, password=None, query=None, fragment=None))
    except (httpx2.InvalidURL, ValueError):
        return "at an address that cannot be read"
