"""Ranks the passages of a set with LinearRAG's public code, for `benchmarks.find.leave_one_out --ranked`.

    python -m benchmarks.find.linear_rag --set musique --spacy en_core_web_md --weights onnx/model.onnx \
        --work scratch --out ranked

Needs a copy of github.com/DEEP-PolyU/LinearRAG (commit 4ecfa25) on PYTHONPATH, and spaCy, igraph, pandas, pyarrow and
OpenVINO, which computes the vectors in bfloat16: 1.7 times as fast as 32 bits, with cosines to those of 0.9999.
It ranks twice: with the defaults of its run.py, and with the settings that its scripts/run.sh has for the set. It links
each passage to the next one, as chunks of one document. These passages are not, so they stay unlinked; `--neighbours`
links them, in the order of their ids. Vectors and entities are kept in the work folder, with the seconds they took.
Its language model is not asked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.bench import load_dataset
from benchmarks.find.leave_one_out import questions_of
from benchmarks.find.mixed_corpus import MULTI_HOP, MixedCorpus, data_folder

_Settings = dict[str, float]
_DEFAULTS: _Settings = {"max_iterations": 3, "passage_ratio": 2, "iteration_threshold": 0.4, "top_k_sentence": 3}
_SHORT_CHAINS: _Settings = {**_DEFAULTS, "passage_ratio": 0.05, "top_k_sentence": 1}
_LONG_CHAINS: _Settings = {**_DEFAULTS, "max_iterations": 5, "iteration_threshold": 0.1, "top_k_sentence": 4}
_OF_SET = {"hotpotqa": _SHORT_CHAINS, "2wikimultihopqa": _SHORT_CHAINS, "musique": _LONG_CHAINS}
_CHUNK = 1024
"""Texts whose vectors are kept together."""
_BATCH = 16
_MOST_TOKENS = 256


class Encoder:
    """The encoder that its code calls. It keeps vectors on disk, with the processor time that they took."""

    def __init__(self, weights: Path, kept: Path) -> None:
        """Load the model. `kept` is the folder for vectors."""
        self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(weights.parents[1] / "tokenizer.json"))
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.no_padding()
        wanted = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "bf16"}
        self._model = import_module("openvino").Core().compile_model(str(weights), "CPU", wanted)
        self._kept = kept
        self.saved = 0.0

    def encode(self, texts: str | Sequence[str], **_: object) -> NDArray[np.float32]:
        """Return the vectors of the texts, of length 1."""
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self._embed([texts])[0]
            return vector
        if len(texts) < _CHUNK:
            return self._embed(texts)
        order = sorted(range(len(texts)), key=lambda place: (len(texts[place]), texts[place]))
        made = [
            self._chunk([texts[each] for each in order[low : low + _CHUNK]]) for low in range(0, len(order), _CHUNK)
        ]
        vectors = np.empty((len(texts), made[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(made)
        return vectors

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        tokens = [each.ids for each in self._tokenizer.encode_batch(texts)]
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
        made = []
        for low in range(0, len(order), _BATCH):
            batch = [tokens[each] for each in order[low : low + _BATCH]]
            mask = np.array([[place < len(each) for place in range(len(batch[-1]))] for each in batch], np.int64)
            ids = np.zeros_like(mask)
            ids[mask == 1] = np.concatenate(batch)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            made.append((self._model(given)[0] * mask[:, :, None]).sum(axis=1))
        vectors = np.empty((len(texts), made[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(made)
        result: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return result

    def _chunk(self, texts: list[str]) -> NDArray[np.float32]:
        path = self._kept / f"{hashlib.sha256(json.dumps(texts).encode()).hexdigest()}.npz"
        if path.exists():
            with np.load(path) as held:
                self.saved += float(held["seconds"])
                kept: NDArray[np.float32] = held["vectors"]
                return kept
        began = time.process_time()
        vectors = self._embed(texts)
        beside = path.with_suffix(".new.npz")
        np.savez(beside, vectors=vectors, seconds=time.process_time() - began)
        beside.rename(path)
        return vectors


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=MULTI_HOP, required=True)
    parser.add_argument("--spacy", required=True, help="name or folder of the pipeline that finds entities")
    parser.add_argument("--weights", type=Path, required=True, help="the embedding model, in ONNX format")
    parser.add_argument("--neighbours", action="store_true", help="link each passage to the next one")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for one file of each settings")
    chosen = parser.parse_args()
    dataset = load_dataset(data_folder() / chosen.set)
    passages = sorted(dataset.passages, key=lambda passage: passage.id)
    questions = questions_of(chosen.set, MixedCorpus({}, {chosen.set: dataset.questions}))
    chosen.work.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(chosen.weights, chosen.work)
    texts = [each.question.text for each in questions]
    with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
        system = _open(folder, encoder, chosen.spacy)
        _keep_entities(system.spacy_ner, chosen.work / f"entities_{chosen.set}.json", encoder)
        if not chosen.neighbours:
            system.add_adjacent_passage_edges = lambda: None
        began = time.process_time()
        system.index([f"{place}:{each.title}\n{each.text}" for place, each in enumerate(passages)])
        seconds = time.process_time() - began + encoder.saved
        for name, settings in (("LinearRAG", _DEFAULTS), ("LinearRAG, settings of the set", _OF_SET[chosen.set])):
            vars(system.config).update(settings)
            took: list[float] = []
            found = system.retrieve(_timed(texts, took))
            places = [[int(text.partition(":")[0]) for text in each["sorted_passage"]] for each in found]
            record = {
                "set": chosen.set,
                "system": f"{name}, neighbours linked" if chosen.neighbours else name,
                "ranked": {
                    one.id: [passages[each].id for each in own] for one, own in zip(questions, places, strict=True)
                },
                "index_seconds": round(seconds, 1),
                "search_milliseconds": round(1000 * sorted(took)[len(took) // 2], 1),
            }
            chosen.out.mkdir(parents=True, exist_ok=True)
            path = chosen.out / f"{chosen.set} {record['system']}.json"
            path.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _keep_entities(finder: Any, path: Path, encoder: Encoder) -> None:
    """Let its finder of entities take what an earlier run has found."""
    find = finder.batch_ner

    def found(texts: dict[str, str], workers: int) -> tuple[Any, Any]:
        if path.exists():
            held = json.loads(path.read_text("utf-8"))
            encoder.saved += held["seconds"]
            return held["passages"], held["sentences"]
        began = time.process_time()
        passages, sentences = find(texts, workers)
        kept = {"seconds": time.process_time() - began, "passages": passages, "sentences": sentences}
        path.write_text(json.dumps(kept), encoding="utf-8")
        return passages, sentences

    finder.batch_ner = found


def _timed(texts: list[str], took: list[float]) -> Iterator[dict[str, str]]:
    """Yield the questions, and note the processor time until the next one is asked for."""
    for text in texts:
        began = time.process_time()
        yield {"question": text, "answer": ""}
        took.append(time.process_time() - began)


def _open(folder: str, encoder: Encoder, pipeline: str) -> Any:
    import_module("spacy")
    # It needs PyTorch for its search on a GPU alone, and asks for one in any case.
    cuda = SimpleNamespace(is_available=lambda: False)
    torch = ModuleType("torch")
    vars(torch).update(device=str, cuda=cuda)
    sys.modules["torch"] = torch
    config, system = import_module("src.config").LinearRAGConfig, import_module("src.LinearRAG").LinearRAG
    return system(config("set", embedding_model=encoder, spacy_model=pipeline, working_dir=folder))


if __name__ == "__main__":
    main()
