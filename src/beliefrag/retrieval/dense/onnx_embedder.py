"""Turns texts into vectors with an embedding model in ONNX format; needs `pip install 'beliefrag[dense]'`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from beliefrag.errors import RetrievalError, explain_missing_extra
from beliefrag.retrieval.dense.embedder import Floats, scale_to_unit

__all__ = ["OnnxEmbedder", "find_tokenizer", "import_onnx"]

_MOST_TOKENS = 512
"""Tokens of a text that the model reads: gte-small and its like were made for no more."""
_MOST_CHARACTERS = 10_000


def import_onnx() -> tuple[ModuleType, ModuleType]:
    """Imports `onnxruntime` and `tokenizers`, 80 MB that nothing else needs.

    Raises:
        MissingExtra: They are not installed.
    """
    with explain_missing_extra("An embedding model in ONNX format", "dense"):
        import onnxruntime  # noqa: PLC0415
        import tokenizers  # noqa: PLC0415
    return onnxruntime, tokenizers


def find_tokenizer(weights: Path) -> Path:
    """Gives the file with the tokenizer of a model: NAME.tokenizer.json beside NAME.onnx, or a tokenizer.json.

    Raises:
        RetrievalError: There is none.
    """
    places = (
        weights.with_name(f"{weights.stem}.tokenizer.json"),
        weights.with_name("tokenizer.json"),
        # Models on the hub have their weights in a folder onnx, and the tokenizer beside it.
        weights.parent.parent / "tokenizer.json",
    )
    for place in places:
        if place.is_file():
            return place
    raise RetrievalError(
        f"The weights {weights} have no tokenizer beside them.",
        remedy="Put the model's tokenizer.json into their folder, or get known ones again with `beliefrag model pull`.",
    )


class OnnxEmbedder:
    """An embedding model in memory, whose vector of a text is the mean over its tokens. Safe to call from threads.

    Each text is read alone, so that its vector follows from the text, whatever else is embedded with it.

    Args:
        path: The weights, with their tokenizer beside them.
        threads: How many threads compute.

    Raises:
        RetrievalError: The weights or the tokenizer cannot be loaded.
        MissingExtra: The libraries are not installed.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        onnxruntime, tokenizers = import_onnx()
        place = find_tokenizer(path)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(place))
        except Exception:  # the library raises nothing narrower
            raise RetrievalError(f"The tokenizer {place} cannot be read.", remedy="Get the file again.") from None
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or os.cpu_count() or 1
        options.inter_op_num_threads = 1
        # Waiting threads sleep: on a busy machine spinning ones starve those that work.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception:  # the library raises nothing narrower
            raise RetrievalError(
                f"The weights {path} cannot be loaded for dense retrieval.", remedy="Name an embedding model (*.onnx)."
            ) from None
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Gives one vector of length 1 for each text; of a very long text only the beginning is read.

        Raises:
            RetrievalError: The model refused a text.
        """
        with self._lock:
            return scale_to_unit([self._embed(text) for text in texts])

    def _embed(self, text: str) -> Floats:
        # Half of a surrogate pair cannot cross into the library.
        whole = text.encode("utf-8", "replace").decode()[:_MOST_CHARACTERS]
        tokens = self._tokenizer.encode(whole).ids or self._tokenizer.encode(".").ids
        ids = np.array([tokens], np.int64)
        given: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            layer = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            if layer.ndim != 3 or layer.shape[:2] != ids.shape:
                raise ValueError(f"it gives {layer.shape} numbers for {len(tokens)} tokens")
            vector: Floats = layer[0].mean(axis=0)
        except Exception as problem:
            raise RetrievalError(
                f"The embedding model refused a text: {' '.join(str(problem).split())[:200]}",
                remedy="Name a model that takes token ids and gives a vector for each, as gte-small does.",
            ) from problem
        return vector
