"""A small embedding for tests that need no weights, and the real weights for those that do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from beliefrag.models.download import DownloadError, pull


class WordVectors:
    """A real, if simple, embedding: the sum of one fixed random direction for each word. Counts its texts."""

    dimensions = 64

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        rows = np.stack(
            [
                sum(
                    (_direction(word, self.dimensions) for word in text.lower().split()), np.full(self.dimensions, 1e-6)
                )
                for text in texts
            ]
        )
        result: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return result


@lru_cache(maxsize=10_000)
def _direction(word: str, dimensions: int) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.strip(".,?").encode("utf-8", "replace")).digest()[:4])
    return np.random.default_rng(seed).normal(size=dimensions)


def pull_weights() -> Path:
    """Return the weights of dense retrieval; a test that needs them is skipped where they cannot be had."""
    try:
        return pull("all-minilm-l6-v2")
    except DownloadError as error:
        pytest.skip(f"the weights all-minilm-l6-v2 cannot be had: {error.message}")
