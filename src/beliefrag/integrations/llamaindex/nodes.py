"""Passages as LlamaIndex nodes."""

from __future__ import annotations

from llama_index.core.schema import NodeWithScore, TextNode

from beliefrag.integrations.passages import metadata_of
from beliefrag.types import Passage

__all__ = ["node_of"]


def node_of(passage: Passage, score: float | None = None) -> NodeWithScore:
    """The passage with its title and source in the metadata, and its score beside it."""
    return NodeWithScore(node=TextNode(id_=passage.id, text=passage.text, metadata=metadata_of(passage)), score=score)
