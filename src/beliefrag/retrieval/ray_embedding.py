"""Makes vectors on the workers of a Ray cluster.

Every worker must have the weights that this process has; one that has none, or others, is refused by name before
anything is embedded. A vector follows from its text and the weights alone, so it does not matter which worker made it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from beliefrag.errors import MissingExtra, RetrievalError
from beliefrag.ray_cluster import RayCluster, WorkerPool
from beliefrag.retrieval.dense.embedding_model import (
    DenseOptions,
    Embed,
    EmbeddingModel,
    Floats,
    hash_weights,
    load_model,
    name_model,
    open_embedder,
)

__all__ = ["open_ray_model"]


@dataclass(frozen=True, slots=True)
class _EmbedOnWorker:
    """Embeds texts with the weights that the worker has, if they are the ones that are meant. It runs on workers."""

    weights: str
    sha256: str

    def __call__(self, texts: list[str]) -> Floats | str:
        """Gives the vectors, or why there are none."""
        try:
            path = DenseOptions(self.weights).path
            if hash_weights(path) != self.sha256:
                return f"The weights {path} on {socket.gethostname()} are others than those of this machine."
            return _load_embedder(path)(texts)
        except (MissingExtra, RetrievalError) as problem:
            return f"On {socket.gethostname()}: {problem.message}"


@lru_cache(maxsize=1)
def _load_embedder(path: Path) -> Embed:
    # There is one worker for each processor.
    return open_embedder(path, threads=1)


def open_ray_model(cluster: RayCluster, pool: WorkerPool, options: DenseOptions) -> EmbeddingModel:
    """Gives the model on workers of a cluster, each of which loads the weights once.

    Args:
        cluster: The cluster.
        pool: Its workers.
        options: The weights.

    Raises:
        RetrievalError: The weights are not on this machine, or a worker has none or others.
        ClusterError: Workers keep dying, or the cluster is gone.
    """
    path = options.path
    embed = _EmbedOnWorker(options.name or str(path), hash_weights(path))

    def embed_blocks(blocks: Iterable[list[str]]) -> Iterator[Floats]:
        for reply in cluster.map_on(pool, embed, blocks):
            if isinstance(reply, str):
                raise RetrievalError(
                    reply,
                    remedy="Put the same file there, with `beliefrag model pull` where it is a known one, and the same "
                    "extras, or leave --on out.",
                )
            yield reply

    # One block without texts for each worker, in turn: all of them load the weights, or say why they cannot.
    for _ in embed_blocks([[]] * pool.size):
        pass
    return EmbeddingModel(name_model(path), lambda texts: load_model(options).embed(texts), embed_blocks)
