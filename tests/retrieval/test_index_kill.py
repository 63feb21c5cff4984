"""Kills a real indexing process with SIGKILL at chosen and at random moments, and looks at what it left."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tantivy

from beliefrag.errors import CorpusError
from beliefrag.retrieval import RETRIEVERS, Bm25Index, PassageSource, index_paths, open_retriever
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from beliefrag.retrieval.linked.ranking import load_ranker
from beliefrag.retrieval.store import MANIFEST, CorpusState, passage_digest, to_passage

CHILD = """
import os, signal, sys
from beliefrag.retrieval import IndexWriter, index_paths, indexing, store

docs, out, moment, nth = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
indexing._COMMIT_PASSAGES = 150
IndexWriter.batch = 400
calls = 0

def die_at(name):
    global calls
    if moment == name:
        calls += 1
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)

write_manifest, sync_folder = store.write_manifest, store.sync_folder
commit_engine, put = IndexWriter._commit_engine, IndexWriter._put

def write_and_die(*given, **options):
    die_at("before-the-manifest")
    write_manifest(*given, **options)
    die_at("before-the-commit")

def sync_and_die(folder):
    sync_folder(folder)
    die_at("after-the-manifest-was-renamed")

def replace_and_die(path, target):
    die_at("before-the-manifest-is-renamed")
    os.replace(path, target)

def commit_and_die(self):
    die_at("before-the-engine-commits")
    commit_engine(self)
    die_at("after-the-commit")

def put_and_die(self, *given):
    die_at("among-passages")
    put(self, *given)

store.write_manifest, store.sync_folder, store.Path.replace = write_and_die, sync_and_die, replace_and_die
IndexWriter._commit_engine, IndexWriter._put = commit_and_die, put_and_die
print("begun", flush=True)
index_paths([docs], out)
"""


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    chance = random.Random(3)
    vocabulary = [f"q{n}x" for n in range(300)]

    def text(words: int) -> str:
        return " ".join(chance.choice(vocabulary) for _ in range(words))

    for n in range(25):
        (folder / f"file{n:02}.txt").write_text(". ".join(text(12).capitalize() for _ in range(60)) + ".")
    rows = [{"id": f"row{n}", "title": f"Row {n}", "text": text(25)} for n in range(1000)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def uninterrupted(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Bm25Index:
    place = tmp_path_factory.mktemp("whole") / "index"
    index_paths([docs], place)
    return Bm25Index.open(place)


def start(docs: Path, out: Path, moment: str, nth: int = 1) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(docs), str(out), moment, str(nth)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "begun\n"
    return child


def check_what_is_left(out: Path) -> int:
    """Whatever was committed is whole: the passages there are the ones that the fingerprint speaks of."""
    begun = (out / MANIFEST).exists()
    try:
        index = Bm25Index.open(out)
    except CorpusError:
        assert not begun, "an index that was begun can be opened"
        return 0
    hits = index._searcher.search(tantivy.Query.all_query(), len(index) + 1).hits
    total = sum(passage_digest(to_passage(index._searcher.doc(address))[0]) for _, address in hits)
    assert CorpusState.from_sum(len(hits), total).fingerprint == index.fingerprint
    return len(index)


def check_rerun(docs: Path, out: Path, uninterrupted: Bm25Index) -> None:
    report = index_paths([docs], out)
    index = Bm25Index.open(out)
    assert report.fingerprint == index.fingerprint == uninterrupted.fingerprint
    for query in ("q1x q2x q3x", "q50x", "q7x q70x q170x q270x"):
        assert [(hit.passage.id, hit.score) for hit in index.search(query, 10)] == [
            (hit.passage.id, hit.score) for hit in uninterrupted.search(query, 10)
        ]
    linked = open_retriever(RETRIEVERS.choose("linked"), PassageSource(index=out))
    expected = LinkedRetriever(uninterrupted, graph_in_memory(uninterrupted), load_ranker())
    found, wanted = (
        [(hit.passage.id, hit.score, hit.provenance) for hit in each.search("Row 7 q1x q2x", 10)]
        for each in (linked, expected)
    )
    assert found == wanted
    assert index_paths([docs], out).files_unchanged == 26
    leftovers = [item.name for item in out.iterdir() if item.name.startswith("new-")]
    assert leftovers == []


@pytest.mark.parametrize(
    ("moment", "nth", "least"),
    [
        ("before-the-manifest", 1, 0),
        ("before-the-manifest", 3, 150),
        ("before-the-manifest-is-renamed", 4, 300),
        ("after-the-manifest-was-renamed", 1, 0),
        ("among-passages", 1, 0),
        ("among-passages", 700, 300),
        ("before-the-commit", 2, 0),
        ("before-the-commit", 4, 300),
        ("after-the-commit", 1, 150),
        ("after-the-commit", 3, 600),
    ],
)
def test_a_kill_loses_nothing_that_was_committed_and_a_rerun_completes_the_work(
    docs: Path, uninterrupted: Bm25Index, tmp_path: Path, moment: str, nth: int, least: int
) -> None:
    child = start(docs, tmp_path / "index", moment, nth)
    assert child.wait(300) == -signal.SIGKILL
    left = check_what_is_left(tmp_path / "index")
    assert least <= left < len(uninterrupted)
    check_rerun(docs, tmp_path / "index", uninterrupted)


# The first commit takes the change in, the second one rewrites the index.
@pytest.mark.parametrize("moment", ["before-the-engine-commits", "after-the-commit"])
def test_a_kill_while_the_index_is_rewritten_loses_nothing(
    docs: Path, uninterrupted: Bm25Index, tmp_path: Path, moment: str
) -> None:
    extra = tmp_path / "more"
    extra.mkdir()
    (extra / "extra.txt").write_text("Soon to be removed. " * 200)
    index_paths([docs, extra], tmp_path / "index")
    (extra / "extra.txt").unlink()
    (extra / "other.txt").write_text("q1x")
    child = start(extra, tmp_path / "index", moment, 2)
    assert child.wait(300) == -signal.SIGKILL
    assert check_what_is_left(tmp_path / "index") == len(uninterrupted) + 1
    (extra / "other.txt").unlink()
    (extra / "empty").mkdir()
    index_paths([extra], tmp_path / "index")
    check_rerun(docs, tmp_path / "index", uninterrupted)


def test_a_reader_never_sees_half_a_commit(docs: Path, uninterrupted: Bm25Index, tmp_path: Path) -> None:
    child = start(docs, tmp_path / "index", "never")
    sizes = set()
    while child.poll() is None:
        sizes.add(check_what_is_left(tmp_path / "index"))
    assert child.returncode == 0
    assert len(sizes) >= 2, "the reader looked in while the writer was at work"
    assert check_what_is_left(tmp_path / "index") == len(uninterrupted)
