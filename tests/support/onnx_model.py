"""A tiny embedding model in ONNX format, written byte by byte: each known word has a vector of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

WORDS = ("beacon", "ships", "sailors", "night", "bread", "butter", "engineer")
_INT64, _FLOAT = 7, 1


def write_onnx_model(
    folder: Path, *, name: str = "tiny", words: Sequence[str] = WORDS, alike: bool = False, inputs: int = 1
) -> Path:
    """Write NAME.onnx and NAME.tokenizer.json; return the first.

    Args:
        folder: Where.
        name: The name of the files.
        words: The words that it knows.
        alike: All its words mean the same.
        inputs: With 2 it asks for something that nobody gives.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {word: at for at, word in enumerate(words, 1)}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / f"{name}.tokenizer.json"))
    table = np.eye(len(words) + 1, dtype=np.float32)
    if alike:
        table[1:] = table[1]
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, "vectors") + _text(4, "Gather")
    stored = b"".join(_number(1, size) for size in table.shape) + _number(2, _FLOAT)
    stored += _text(8, "table") + _bytes(9, table.tobytes())
    graph = _bytes(1, node) + _text(2, "graph") + _bytes(5, stored) + _bytes(11, _value("input_ids", _INT64, 2))
    if inputs > 1:
        graph += _bytes(11, _value("pixels", _FLOAT, 2))
    graph += _bytes(12, _value("vectors", _FLOAT, 3))
    path = folder / f"{name}.onnx"
    path.write_bytes(_number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 17)))
    return path


def _value(name: str, kind: int, dimensions: int) -> bytes:
    shape = b"".join(_bytes(1, _text(2, f"{name}_{at}")) for at in range(dimensions))
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
