"""The registered model providers, and how the text after `--model` becomes one of them.

`local:NAME` and `scripted:FILE` name their provider before the colon, and so do the providers of other packages. Any
other text is the name of a model behind an OpenAI-compatible server; such names may have colons of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatModel
from beliefrag.registry import ExtensionChoice, Registry

__all__ = ["MODEL_PROVIDERS", "ModelAddress", "ModelProvider", "choose_provider", "default_verifier", "open_provider"]

# Each provider imports its own library when a model is opened.
# ruff: noqa: PLC0415

_DEFAULT_PROVIDER = "openai"


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Which model to open, and the settings that all providers are given. A provider uses those that it needs."""

    name: str
    """What was typed after the provider's name and its colon."""
    base_url: str | None = None
    timeout: float = 120.0
    context: int = 6144
    threads: int | None = None


class ModelProvider(Protocol):
    """What a provider registers: a frozen dataclass whose fields are its options."""

    default_verifier: ClassVar[str]
    """The verifier form that suits its models."""
    reports_probabilities: ClassVar[bool | None]
    """Whether its replies have token probabilities; None where this depends on the server."""

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Opens a model.

        Raises:
            ModelError: The model is not there.
            SettingsError: An option or the address cannot be used.
        """


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
    reports_probabilities: ClassVar[bool | None] = None
    temperature: float | None = 0.0

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Opens the model with the name that the server knows."""
        from beliefrag.models.openai_compatible import OpenAICompatible

        return OpenAICompatible(
            address.name, base_url=address.base_url, timeout=address.timeout, temperature=self.temperature
        )


@MODEL_PROVIDERS.register(
    "local", title="Embedded model", summary="Runs GGUF weights in this process: no server, no key, no network."
)
@dataclass(frozen=True, slots=True)
class LocalProvider:
    """A model in this process."""

    default_verifier: ClassVar[str] = "slots"
    """Chosen by measurement; see docs/prompts.md."""
    reports_probabilities: ClassVar[bool | None] = True
    reuse_prefix: bool = True
    prompt_memory_mib: int = 512

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Opens weights by a name of the catalogue or by the path of a file."""
        from beliefrag.models.embedded import Embedded
        from beliefrag.models.llama_engine import check_is_gguf
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
    reports_probabilities: ClassVar[bool | None] = True

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Opens the script at a path."""
        from beliefrag.models.scripted import Scripted

        return Scripted(address.name)


def choose_provider(
    model: str, options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[ExtensionChoice[ModelProvider, None], str]:
    """Gives the provider that a model's text names, and the rest of the text.

    Args:
        model: As in the settings: `PROVIDER:NAME`, or the name of a model behind a server.
        options: Options by the name of the provider.

    Raises:
        SettingsError: The package that offers the provider cannot be used, or an option is wrong.
    """
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
    """Opens the model that a text names, without any layer around it.

    Args:
        model: `local:NAME`, `local:FILE.gguf`, `scripted:FILE`, `PROVIDER:NAME` of another package, or else the name
            of a model behind a server.
        base_url: The server's address.
        timeout: The longest time of one call, in seconds.
        context: Tokens of a prompt and its reply together, for an embedded model.
        threads: Threads of an embedded model; None uses all processors.
        options: Options by the name of the provider.

    Raises:
        ModelError: The model is not there.
        SettingsError: The provider, an option or the address cannot be used.
    """
    choice, name = choose_provider(model, options)
    address = ModelAddress(name, base_url, timeout, context, threads)
    opened = choice.build(None).open_model(address)
    if not isinstance(opened, ChatModel):
        raise SettingsError(
            f"The model provider {choice.name!r} opened {type(opened).__name__}, which is not a chat model.",
            remedy="A chat model has identity, chat and aclose: see beliefrag.models.ChatModel.",
        )
    return opened


def default_verifier(model: str) -> str:
    """Gives the verifier form that suits a model."""
    return choose_provider(model)[0].build(None).default_verifier
