"""Models: one protocol, three providers, and the layers around every call."""

from beliefrag.models.compose import Meter, compose
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, Message, TokenProbability
from beliefrag.models.providers import default_verifier, is_served, open_provider

__all__ = [
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "Message",
    "Meter",
    "TokenProbability",
    "compose",
    "default_verifier",
    "is_served",
    "open_provider",
]
