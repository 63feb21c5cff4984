"""Kill processes that make the graph of names, fill the disk, and read an index that another process changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from beliefrag.errors import CorpusError
from beliefrag.retrieval import RETRIEVERS, Bm25Index, IndexWriter, PassageSource, open_retriever
from beliefrag.retrieval.linked import build, graph
from beliefrag.retrieval.linked.graph import Arrays, write_arrays
from beliefrag.retrieval.store import PassageRow
from beliefrag.types import Passage

# One process forks a child for each moment: starting twenty interpreters would take most of the time.
CHILDREN = """
import os, random, signal, sys
from beliefrag.retrieval import IndexWriter
from beliefrag.retrieval.linked import graph

chance = random.Random(11)
for place in sys.argv[1:]:
    nth = chance.randrange(1, 75)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    calls = 0
    def count(function):
        def counted(*given):
            global calls
            calls += 1
            if calls == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given)
        return counted
    for name in ("append", "remove", "_finish"):
        setattr(graph.Arrays, name, count(getattr(graph.Arrays, name)))
    graph.sync_folder = count(graph.sync_folder)
    with IndexWriter(place) as writer:
        writer.write_graph()
    os._exit(0)
"""


def add_graph(place: Path) -> None:
    with IndexWriter(place) as writer:
        writer.write_graph()


def find(place: Path) -> list[tuple[str, float]]:
    retriever = open_retriever(RETRIEVERS.choose("linked", {}), PassageSource(index=place))
    return [(hit.passage.id, hit.score) for hit in retriever.search("What lights the lighthouse of Cape Bruna?", 5)]


def test_a_kill_at_any_moment_leaves_a_whole_graph_or_none(tmp_path: Path, shelf: list[Passage]) -> None:
    with IndexWriter(tmp_path / "whole") as writer:
        writer.add(shelf)
    places = [tmp_path / f"killed-{n}" for n in range(20)]
    for place in places:
        shutil.copytree(tmp_path / "whole", place)
    add_graph(tmp_path / "whole")
    expected = find(tmp_path / "whole")
    subprocess.run([sys.executable, "-c", CHILDREN, *map(str, places)], check=True)
    without = 0
    for place in places:
        assert len(Bm25Index.open(place)) == len(shelf)
        try:
            assert find(place) == expected
        except CorpusError as error:
            without += 1
            assert "beliefrag index" in str(error.remedy)
        add_graph(place)
        assert find(place) == expected
        assert not list(place.glob("new-*"))
    assert without > 5


def test_a_writer_that_changed_passages_without_the_graph_is_noticed(tmp_path: Path, shelf: list[Passage]) -> None:
    place = tmp_path / "index"
    with IndexWriter(place) as writer:
        writer.add(shelf[:5])
        writer.write_graph()
    with IndexWriter(place) as writer:
        writer.add(shelf)
    with pytest.raises(CorpusError, match="graph of names"):
        find(place)


def test_a_full_disk_is_reported_and_leaves_the_passages(
    tmp_path: Path, shelf: list[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with IndexWriter(tmp_path / "index") as writer:
        writer.add(shelf)
        monkeypatch.setattr(Arrays, "append", refuse)
        with pytest.raises(CorpusError, match="No space left on device"):
            writer.write_graph()
    assert len(Bm25Index.open(tmp_path / "index")) == len(shelf)
    assert not list((tmp_path / "index").glob("n*-*"))


def make_rows() -> Iterator[PassageRow]:
    for number in range(400):
        other, person = (number * 7 + 3) % 400, number % 150
        text = (
            f"Town{number} lies near Town{other} (TN). Zora{person} Quill{person} met Otto{person} Bann{person} there."
        )
        yield PassageRow(7919 * number % 100_003, f"p{number}", f"Town{number}", text)


def test_the_graph_is_the_same_when_few_rows_are_sorted_at_once_and_tables_lie_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(make_rows())
    monkeypatch.setattr(graph, "_LARGEST_IN_MEMORY", 0)
    write_arrays(tmp_path / "roomy", 1, lambda arrays: build.build_graph([rows], arrays))
    roomy, narrow = Arrays.open(tmp_path / "roomy", 1), Arrays()
    monkeypatch.setattr(build, "_ROWS", 10)
    monkeypatch.setattr(build, "_BLOCK", 7)
    build.build_graph([rows], narrow)
    names = {each.name for each in (tmp_path / "roomy").iterdir()} - {"arrays.json"}
    assert {"shared_by_name", "named_by_name", "own_name"} <= names
    for name in names:
        assert narrow.read(name, np.uint8).tobytes() == roomy.read(name, np.uint8).tobytes(), name
    assert [each.name for each in tmp_path.iterdir()] == ["roomy"]
