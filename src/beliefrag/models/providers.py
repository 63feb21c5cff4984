"""Turns what a person typed after --model into a provider."""

from __future__ import annotations

from beliefrag.models.protocol import ChatModel

__all__ = ["default_verifier", "open_provider"]

_LOCAL = "local:"
_SCRIPTED = "scripted:"


def open_provider(
    model: str,
    *,
    base_url: str | None = None,
    timeout: float = 120.0,
    context: int = 6144,
    threads: int | None = None,
) -> ChatModel:
    """The provider for `local:NAME`, `local:FILE.gguf`, `scripted:FILE`, or else the name of an endpoint's model.

    Raises:
        ModelError: The weights are not there.
        SettingsError: The script or the address cannot be used.
    """
    # Each provider brings its own heavy library; only the one that is asked for is imported.
    if model.startswith(_LOCAL):
        from beliefrag.models.embedded import Embedded
        from beliefrag.models.weights import resolve

        return Embedded(resolve(model), context=context, threads=threads)
    if model.startswith(_SCRIPTED):
        from beliefrag.models.scripted import Scripted

        return Scripted(model.removeprefix(_SCRIPTED))
    from beliefrag.models.openai_compatible import OpenAICompatible

    return OpenAICompatible(model, base_url=base_url, timeout=timeout)


def default_verifier(model: str) -> str:
    """The verifier form that suits a model: chosen by measurement, see docs/prompts.md."""
    return "probability" if model.startswith(_LOCAL) else "structured"
