"""The dense vectors of a collection of Milvus: whether they fit a model, and the search among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pymilvus import DataType

from beliefrag.errors import CorpusError
from beliefrag.retrieval.dense.embedding_model import EmbeddingModel
from beliefrag.retrieval.engines.engine import IndexState

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.milvus import MilvusCollection

__all__ = ["EMBEDDING", "MilvusVectors", "check_embedding", "round_vectors"]

EMBEDDING = "embedding"
"""The field of vectors in a collection that we make, and what its note calls the model that made them."""
_EXACT = "FLAT"
"""The index of Milvus that compares every vector."""
_DISTANCES = ("L2",)
"""Metrics by which the smallest number is the nearest."""


def round_vectors(vectors: NDArray[np.float32]) -> list[list[float]]:
    """Gives vectors as they are stored: rounded to 16 bits, as the embedded engine keeps them, so both rank alike."""
    rounded: list[list[float]] = vectors.astype(np.float16).astype(np.float32).tolist()
    return rounded


def check_embedding(collection: str, made_by: str, model: str) -> None:
    """Checks that the vectors of a collection were made by a model.

    Args:
        collection: The name of the collection.
        made_by: The model that its note names; empty where it has no vectors.
        model: The model that is wanted.

    Raises:
        CorpusError: They were not, or there are none.
    """
    if not made_by:
        raise CorpusError(
            f"The collection {collection} was made without vectors, which hybrid=true needs.",
            remedy="Fill another collection with `beliefrag index ... --to milvus:...,hybrid=true`, or leave hybrid "
            "out.",
        )
    if made_by != model:
        raise CorpusError(
            f"The vectors of the collection {collection} were made by {made_by}, and not by {model}.",
            remedy="Name the weights of that model with weights=FILE, or another collection.",
        )


class MilvusVectors:
    """Searches a collection by its dense vectors.

    Raises:
        CorpusError: The collection has no vectors, or they are of another model.
    """

    def __init__(self, collection: MilvusCollection, model: EmbeddingModel) -> None:
        self._collection = collection
        options = collection.options
        self._field = options.dense or EMBEDDING
        if options.is_own_collection:
            self._check_own_field(model)
        else:
            check_embedding(options.collection, collection.read_note_value(EMBEDDING), model.name)
        kind, self._metric = collection.describe_vector_index(self._field)
        if options.approximate and kind == _EXACT:
            raise CorpusError(
                f"The collection {options.collection} was made without approximate=true and compares every vector.",
                remedy="Leave approximate=true out, or fill another collection with it.",
            )
        self.vector_ranking = f"dense {model.name}"
        if options.is_own_collection:
            self.vector_ranking += f" with vectors of {self._field} by {self._metric}"
        if kind != _EXACT:
            self.vector_ranking += f", approximately by {kind}"

    def _check_own_field(self, model: EmbeddingModel) -> None:
        name = self._collection.options.collection
        field = self._collection.describe_fields().get(self._field)
        if field is None or field["type"] != DataType.FLOAT_VECTOR:
            problem = "has no field" if field is None else "keeps no vectors of 32-bit numbers in the field"
            raise CorpusError(
                f"The collection {name} {problem} {self._field}.",
                remedy="Name the field of its dense vectors with dense=FIELD, or leave hybrid=true out.",
            )
        held = int(field["params"]["dim"])
        if held != model.dimensions:
            raise CorpusError(
                f"The vectors of {self._field} in {name} have {held} numbers, and those of {model.name} have "
                f"{model.dimensions}.",
                remedy="Name the weights that made them with weights=NAME or weights=FILE.",
            )

    def find_nearest_ids(self, vector: NDArray[np.float32], limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the nearest passages, nearest first, and the state of the collection."""
        name = self._collection.options.id
        rows = self._collection.search_field(
            vector.tolist(), field=self._field, metric=self._metric, limit=limit, fields=[name]
        )
        sign = -1 if self._metric in _DISTANCES else 1
        found = [(str(row["entity"][name]), sign * float(row["distance"])) for row in rows]
        return found, self._collection.read_state()
