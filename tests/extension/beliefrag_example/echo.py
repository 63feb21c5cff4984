"""A model provider: `--model echo:TEXT` opens a model that always answers with that text.

Its option stands in the settings file: `ends_with = "!"` under `[models.echo]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.models import ChatModel, ChatReply, ChatRequest
from beliefrag.models.cost import LOCAL_COUNT, count_prompt, count_tokens
from beliefrag.models.providers import MODEL_PROVIDERS, ModelAddress


class EchoModel:
    """Answers every request with the same text."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def identity(self) -> str:
        """Different texts are different models."""
        return f"echo:{self._text}"

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the text, with its cost."""
        tokens_in, tokens_out = count_prompt(request.messages), count_tokens(self._text)
        return ChatReply(self._text, tokens_in, tokens_out, seconds=0.0, counted_by=LOCAL_COUNT)

    async def aclose(self) -> None:
        """Nothing is open."""


@MODEL_PROVIDERS.register("echo", title="Echo", summary="Answers every request with the same text.")
@dataclass(frozen=True, slots=True)
class EchoProvider:
    """Opens a model by the text after the colon."""

    default_verifier: ClassVar[str] = "structured"
    ends_with: str = ""

    def open_model(self, address: ModelAddress) -> ChatModel:
        """Return the model that answers with the text after the colon, and with what the option adds to it."""
        return EchoModel(address.name + self.ends_with)
