"""A LlamaIndex retriever that searches for BeliefRAG."""

from __future__ import annotations

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore

from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.integrations.passages import foreign_passage
from beliefrag.integrations.scores import UNKNOWN_SCALE, hits_of
from beliefrag.policy import ScoreScale
from beliefrag.types import Hit, Passage

__all__ = ["FromLlamaIndex"]

_TITLES = ("title", "document_title", "file_name")
_SOURCES = ("source", "url", "file_path")


class FromLlamaIndex:
    """Any LlamaIndex retriever, as a retriever of ours: `BeliefRAG(retriever=FromLlamaIndex(index.as_retriever()))`.

    A passage's id is the node's. The retriever decides itself how many nodes it returns: give it a `similarity_top_k`
    of at least the budget's `top_k`. Where it gives no scores, ranks stand in for them.

    Args:
        retriever: The retriever.
        scale: Where its scores lie, for the relevance diagnostic; see `measured_scale`. Without it relevance is held at
            one half, whatever the scores.
        identity: Names the ranking (engine, embedding, settings). With it, a calibration that was fitted with another
            ranking is refused; without it, it is used with a note that says so.

    Raises:
        SettingsError: It is no LlamaIndex retriever.
    """

    def __init__(
        self, retriever: BaseRetriever, *, scale: ScoreScale | None = None, identity: str | None = None
    ) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise SettingsError(
                f"A {type(retriever).__name__} is no LlamaIndex retriever.", remedy="Give what as_retriever() returns."
            )
        self._retriever = retriever
        self._scaled = scale is not None
        self.score_scale = scale or UNKNOWN_SCALE
        self.identity = identity

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k passages, in LlamaIndex's order.

        Raises:
            RetrievalError: LlamaIndex, or what stands behind it, failed.
        """
        try:
            found = [(_passage(node), node.score) for node in self._retriever.retrieve(query)]
            return hits_of(found, k, scores_needed=self._scaled)
        except BeliefRAGError:
            raise
        except Exception as error:
            name = type(self._retriever).__name__
            raise RetrievalError(
                f"The search with LlamaIndex's {name} failed, {type(error).__name__}: {error}.",
                remedy="Check the retriever.",
            ) from error


def _passage(found: NodeWithScore) -> Passage:
    # Metadata is not part of the text: a file name or an excluded field is nothing that a model should read.
    return foreign_passage(
        found.node.get_content(MetadataMode.NONE),
        found.node.metadata,
        identifier=found.node.node_id,
        title_keys=_TITLES,
        source_keys=_SOURCES,
    )
