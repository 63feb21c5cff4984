"""Indexing on a real Ray cluster, whose workers and driver are killed on the way."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from beliefrag.errors import RetrievalError
from beliefrag.ray_cluster import join_cluster
from beliefrag.retrieval import Bm25Index, ray_embedding, ray_reading
from beliefrag.retrieval.dense import DenseOptions, GgufEmbedder
from beliefrag.retrieval.document import CorpusFile
from beliefrag.retrieval.file_reading import FileReading
from beliefrag.retrieval.indexing import IndexReport, index_paths, index_paths_to
from beliefrag.retrieval.linked.arrays import MemoryArrays
from beliefrag.retrieval.linked.build import build_graph
from beliefrag.retrieval.ray_reading import _read_batch
from tests.support.embedding import pull_weights
from tests.support.faults import at_random_moments
from tests.support.ray_cluster import RayNodes, find_workers, kill_process

pytestmark = pytest.mark.filterwarnings("ignore")


def write_corpus(folder: Path, rows: int = 1300) -> Path:
    folder.mkdir()
    for number in range(70):
        (folder / f"note-{number}.md").write_text(
            f"# Harbour {number}\n\nCaptain Anna Lind of Port {number} met Olaf Berg there. " * 3
        )
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(rows):
            row = {"id": f"r{number}", "title": f"Row {number}", "text": f"Port {number % 90} lies at mile {number}."}
            file.write(json.dumps(row) + "\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (folder / "empty.txt").write_text("")
    return folder


def without_time(report: IndexReport) -> IndexReport:
    return replace(report, seconds=0.0)


def kill_worker() -> bool:
    workers = find_workers("TaskWorker")
    if workers:
        kill_process(random.choice(workers))
    return bool(workers)


def has_graph(index: Path) -> bool:
    return len(list(index.glob("names-*"))) == 1


def test_an_index_made_on_ray_is_the_one_that_a_single_process_makes(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs")
    alone = index_paths(docs, tmp_path / "alone")
    spread = index_paths(docs, tmp_path / "spread", on="ray")
    assert without_time(spread) == without_time(alone)
    assert len(spread.skipped) == 2
    assert has_graph(tmp_path / "spread")
    one, other = Bm25Index.open(tmp_path / "spread"), Bm25Index.open(tmp_path / "alone")
    assert {passage.id: passage for passage in one.first(len(one))} == {
        passage.id: passage for passage in other.first(len(other))
    }
    # The engine stores passages in an order of its own; of the same order the same graph is made.
    graphs = [MemoryArrays(), MemoryArrays()]
    with join_cluster("ray") as cluster:
        headers = [
            build_graph(other.read_rows(), graphs[0]),
            build_graph(other.read_rows(), graphs[1], cluster.map),
        ]
    assert headers[0] == headers[1]
    assert headers[0]["names"] > 100
    for name in ("words", "home_passage", "named_passage", "named_name", "shared_passage"):
        assert (graphs[0].read(name, np.int32) == graphs[1].read(name, np.int32)).all()

    (docs / "note-3.md").write_text("# Harbour 3\n\nIt burned down.")
    (docs / "note-4.md").unlink()
    (docs / "late.txt").write_text("A file that came later.")
    assert without_time(index_paths(docs, tmp_path / "spread", on="ray")) == without_time(
        index_paths(docs, tmp_path / "alone")
    )
    assert has_graph(tmp_path / "spread")


def test_workers_that_are_killed_while_they_read_change_nothing(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs", rows=6_000)
    with at_random_moments(kill_worker, 3, within=1.0) as kills:
        spread = index_paths(docs, tmp_path / "spread", on="ray")
    assert kills
    alone = index_paths(docs, tmp_path / "alone")
    assert without_time(spread) == without_time(alone)
    assert has_graph(tmp_path / "spread")


def test_a_killed_driver_leaves_an_index_that_the_same_command_completes(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs", rows=6_000)
    command = [sys.executable, "-m", "beliefrag", "index", str(docs), "--out", str(tmp_path / "spread")]
    with subprocess.Popen([*command, "--on", f"ray:{nodes.address}"], stderr=subprocess.DEVNULL) as driver:
        give_up = time.monotonic() + 120
        while not (tmp_path / "spread").exists() and time.monotonic() < give_up:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 3))
        kill_process(driver.pid)
    index_paths(docs, tmp_path / "spread", on="ray")
    alone = index_paths(docs, tmp_path / "alone")
    assert Bm25Index.open(tmp_path / "spread").fingerprint == alone.fingerprint
    assert has_graph(tmp_path / "spread")


def test_a_worker_that_has_another_file_leaves_it_to_the_process_that_writes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Something to read.")
    file = CorpusFile(tmp_path / "a.txt", "a.txt", "a.txt")
    missing = CorpusFile(tmp_path / "b.txt", "b.txt", "b.txt")
    read = _read_batch([(file, (1, 2, 3)), (missing, (1, 2, 3))])
    assert [(each.is_elsewhere, each.passages) for each in read] == [(True, ()), (True, ())]


def test_a_very_large_file_is_read_by_the_process_that_writes(
    nodes: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, length in enumerate((5, 500, 5)):
        (docs / f"{number}.txt").write_text(f"Harbour {number}. " * length)
    monkeypatch.setattr(ray_reading, "_LARGEST_BYTES", 1_000)
    asked: list[str] = []

    def read_here(file: CorpusFile, batch: object) -> FileReading:
        asked.append(file.path.name)
        return FileReading(file)

    monkeypatch.setattr(ray_reading, "_RemoteReading", read_here)
    spread = index_paths(docs, tmp_path / "spread", on="ray")
    assert asked == ["0.txt", "2.txt"]
    assert without_time(spread) == without_time(index_paths(docs, tmp_path / "alone"))


@pytest.mark.weights
def test_vectors_made_on_ray_are_those_that_a_single_process_makes(
    nodes: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DenseOptions(str(pull_weights()))
    docs = tmp_path / "docs"
    docs.mkdir()
    with (docs / "rows.jsonl").open("w") as file:
        for number in range(40):
            file.write(json.dumps({"id": f"r{number}", "title": f"Row {number}", "text": f"Port {number}."}) + "\n")

    def index(name: str, on: str | None = None) -> IndexReport:
        # Each has a cache of its own: no vector is taken from the other one.
        monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / f"{name}-cache"))
        index_paths_to(docs, f"milvus:url={tmp_path}/{name}.db,hybrid=true,weights={model.weights}", on=on)
        return index_paths(docs, tmp_path / name, vectors=model, names=False, on=on)

    def refuse_to_embed(*_: object) -> None:
        raise AssertionError("the process that writes embeds nothing")

    with monkeypatch.context() as patched, at_random_moments(kill_worker, 1, within=3.0) as kills:
        patched.setattr(GgufEmbedder, "__call__", refuse_to_embed)
        spread = index("spread", "ray")
    assert kills
    alone = index("alone")
    assert without_time(spread) == without_time(alone)
    assert spread.vectors.startswith("all-minilm-l6-v2 ")
    assert read_vector_files(tmp_path / "spread") == read_vector_files(tmp_path / "alone")
    assert read_milvus_vectors(tmp_path / "spread.db") == read_milvus_vectors(tmp_path / "alone.db")
    assert find_workers("TaskWorker") == []

    monkeypatch.setattr(ray_embedding, "hash_weights", lambda path: "another hash")
    with (
        ray_reading.open_ray_readers("ray") as workers,
        pytest.raises(RetrievalError, match=r"are others than those of this machine") as caught,
    ):
        ray_embedding.open_ray_model(workers.cluster, workers.pool, model)
    assert "beliefrag model pull" in caught.value.remedy


def read_vector_files(index: Path) -> dict[str, bytes]:
    files = {each.name: each.read_bytes() for each in index.glob("vectors/*/*/*")}
    assert set(files) == {"arrays.json", "keys", "vectors"}
    return files


def read_milvus_vectors(file: Path) -> list[tuple[str, bytes]]:
    from pymilvus import MilvusClient

    client = MilvusClient(str(file))
    rows = client.query("passages", filter='key != ""', output_fields=["key", "embedding"], limit=100)
    client.close()
    assert len(rows) == 40
    return sorted((row["key"], np.array(row["embedding"], np.float32).tobytes()) for row in rows)


def test_a_worker_without_the_weights_says_so(tmp_path: Path) -> None:
    reply = ray_embedding._EmbedOnWorker(str(tmp_path / "nowhere.gguf"), "")(["text"])
    assert isinstance(reply, str)
    assert "nowhere.gguf" in reply
