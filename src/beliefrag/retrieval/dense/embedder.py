"""Turns texts into vectors with an embedding model in GGUF format, inside this process."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beliefrag.errors import RetrievalError

__all__ = ["Embed", "GgufEmbedder", "scale_to_unit"]

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Floats]
"""Gives one vector of length 1 for each text."""

_CONTEXT = 512
"""Tokens of a text that the model reads: it was made for no more."""
_MOST_WORDS = 250
_MOST_CHARACTERS = 2000


def scale_to_unit(rows: Sequence[Floats]) -> Floats:
    """Gives the vectors as rows of length 1; one of zeros stays as it is."""
    if not rows:
        return np.zeros((0, 0), np.float32)
    vectors = np.array(rows, np.float32)
    result: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return result


class GgufEmbedder:
    """An embedding model in memory. Safe to call from several threads: one works at a time.

    Each text is read alone. Eight together take a tenth longer on a processor, and the vector of a text then depends on
    the seven others, by up to 0.003 in a number; alone it follows from the text, whichever process makes it.

    Args:
        path: The weights.
        threads: How many threads compute.

    Raises:
        RetrievalError: The weights are not there, or they cannot be loaded.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        if not path.is_file():
            raise RetrievalError(f"There are no weights {path} for dense retrieval.", remedy="Check the path.")
        # With the default policy idle OpenMP threads spin; on a busy machine that starves the working ones.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import xllamacpp  # noqa: PLC0415 - 40 MB of native code that other retrievers do not need

        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.embedding = True
        parameters.n_parallel = 1
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = _CONTEXT
        workers = threads or os.cpu_count() or 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = workers
        parameters.warmup = False
        parameters.verbosity = 0
        # The binding always opens a port on the loopback interface. Nobody is given this key.
        parameters.api_keys = [secrets.token_urlsafe(32)]
        parameters.n_threads_http = 1
        parameters.ui = False
        parameters.endpoint_slots = False
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError, MemoryError):
            raise RetrievalError(
                f"The weights {path} cannot be loaded for dense retrieval.", remedy="Name an embedding model (*.gguf)."
            ) from None
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Gives one vector of length 1 for each text; of a very long text only the beginning is read.

        Raises:
            RetrievalError: The model refused a text.
        """
        with self._lock:
            return scale_to_unit([self._embed(_shorten(text, _MOST_WORDS)) for text in texts])

    def _embed(self, text: str, words: int = _MOST_WORDS) -> Floats:
        try:
            reply = self._server.handle_embeddings({"input": [text], "encoding_format": "float"})
            return np.array(reply["data"][0]["embedding"], np.float32).ravel()
        except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as problem:
            # Words of other scripts have many tokens: what is too long for the model is read up to its half.
            if words < 8:
                raise RetrievalError(
                    f"The embedding model refused a text: {' '.join(str(problem).split())[:200]}",
                    remedy="Name another model.",
                ) from problem
            half = words // 2
            return self._embed(_shorten(text, half), half)


def _shorten(text: str, words: int) -> str:
    # Half of a surrogate pair cannot cross into the runtime.
    text = text.encode("utf-8", "replace").decode()[: _MOST_CHARACTERS * words // _MOST_WORDS]
    return " ".join(text.split()[:words]) or "."
