"""The graph of names is the same when little fits into memory, and little is held there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from beliefrag.retrieval import IndexWriter
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.linked import arrays as arrays_module
from beliefrag.retrieval.linked import row_sorter
from beliefrag.retrieval.linked.arrays import ArrayWriter, MemoryArrays, write_folder
from beliefrag.retrieval.linked.build import build_graph, read_block
from beliefrag.retrieval.linked.names import hash_names, names_of
from beliefrag.retrieval.linked.row_sorter import BoundsWriter, RowSorter, write_order
from beliefrag.retrieval.store import PassageRow
from beliefrag.types import Passage


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(row_sorter, "MOST_ROWS", 7)
    return 7


class WatchedArrays(MemoryArrays):
    """Counts the rows that were written to runs."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.removed: list[str] = []

    def append(self, name: str, values: np.ndarray) -> None:
        self.written += len(values) * name.endswith("-0")
        super().append(name, values)

    def remove(self, name: str) -> None:
        self.removed.append(name)
        super().remove(name)


@pytest.mark.parametrize("keys", [1, 2])
def test_rows_come_back_in_order_and_equal_ones_as_they_were_added(few_rows: int, keys: int) -> None:
    chance = np.random.default_rng(5)
    first, second = chance.integers(0, 9, 60).astype(np.uint64), chance.integers(0, 9, 60).astype(np.int32)
    held = WatchedArrays()
    sorter = RowSorter(held, "rows", (np.uint64, np.int32, np.int32), keys)
    for low in range(0, 60, 5):
        here = slice(low, low + 5)
        sorter.add(first[here], second[here], np.arange(60, dtype=np.int32)[here])
    assert held.written >= 60 - few_rows - 5
    blocks = list(sorter.read_blocks())
    assert len(blocks) > 3
    order = np.lexsort((second, first) if keys == 2 else (first,))
    assert np.concatenate([block[2] for block in blocks]).tolist() == order.tolist()
    ends = [(int(one[0][-1]), int(other[0][0])) for one, other in pairwise(blocks)]
    assert all(one < other for one, other in ends)
    assert held.removed == ["rows-0", "rows-1", "rows-2"]


def test_no_more_rows_are_held_than_allowed(few_rows: int) -> None:
    held = WatchedArrays()
    sorter = RowSorter(held, "rows", (np.uint64,), 1)
    values = np.random.default_rng(3).permutation(1000).astype(np.uint64)
    sorter.add(values)
    assert held.written >= 1000 - few_rows
    blocks = [block for (block,) in sorter.read_blocks()]
    assert np.concatenate(blocks).tolist() == list(range(1000))


def test_blocks_are_small_where_rows_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sorter, "MOST_ROWS", 100)
    sorter = RowSorter(MemoryArrays(), "rows", (np.uint64,), 1)
    sorter.add(np.random.default_rng(3).permutation(1000).astype(np.uint64))
    assert max(len(block) for (block,) in sorter.read_blocks()) <= 100


def test_the_order_of_an_array_is_that_of_a_stable_sort(few_rows: int) -> None:
    held = MemoryArrays()
    values = np.random.default_rng(2).integers(0, 20, 50)
    held.append("values", values)
    write_order(held, "values", np.int64, "order")
    assert held.read("order", np.int32).tolist() == np.argsort(values, kind="stable").tolist()


def test_bounds_say_where_each_group_begins() -> None:
    held = MemoryArrays()
    bounds = BoundsWriter(held, "bounds")
    for groups in ([1, 1, 2], [], [2, 2], [5]):
        bounds.add(np.array(groups, np.int64))
    bounds.finish(8)
    expected = np.searchsorted([1, 1, 2, 2, 2, 5], np.arange(9))
    assert held.read("bounds", np.int32).tolist() == expected.tolist()


def build_in_folder(rows: list[PassageRow], folder: Path) -> dict[str, bytes]:
    def write(arrays: ArrayWriter) -> dict[str, object]:
        return build_graph([rows], arrays)

    write_folder(folder, write)
    written = json.loads((folder / "arrays.json").read_text("utf-8"))["bytes"]
    return {name: (folder / name).read_bytes() for name, size in written.items() if size}


def make_rows() -> Iterator[PassageRow]:
    for number in range(400):
        other, person = (number * 7 + 3) % 400, number % 150
        text = (
            f"Town{number} lies near Town{other} (TN). Zora{person} Quill{person} met Otto{person} Bann{person} there."
        )
        yield PassageRow(7919 * number % 100_003, f"p{number}", f"Town{number}", text)


def test_the_graph_is_the_same_when_rows_and_tables_wait_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(make_rows())
    expected = build_in_folder(rows, tmp_path / "roomy")
    monkeypatch.setattr(row_sorter, "MOST_ROWS", 10)
    monkeypatch.setattr(arrays_module, "LARGEST_TABLE_IN_MEMORY", 0)
    narrow = build_in_folder(rows, tmp_path / "narrow")
    assert {"shared_by_name", "named_by_name", "own_name"} <= expected.keys()
    assert narrow.keys() == expected.keys()
    assert [name for name in expected if narrow[name] != expected[name]] == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["narrow", "roomy"]


def test_a_large_table_lies_in_a_file_that_nobody_has_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays_module, "LARGEST_TABLE_IN_MEMORY", 1000)

    def write(arrays: ArrayWriter) -> dict[str, object]:
        small, large = arrays.make_table(100, np.uint8), arrays.make_table(5000, np.int32)
        large[[0, 4999]] = 1
        assert large.sum() == 2
        assert small.base is None
        assert large.base is not None
        arrays.append("kept", large)
        return {}

    write_folder(tmp_path / "graph", write)
    assert sorted(each.name for each in (tmp_path / "graph").iterdir()) == ["arrays.json", "kept"]
    assert [each.name for each in tmp_path.iterdir()] == ["graph"]


def test_a_full_disk_is_told_when_a_table_is_made(
    tmp_path: Path, shelf: list[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays_module, "LARGEST_TABLE_IN_MEMORY", 0)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse, raising=False)
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(shelf)
        with pytest.raises(Exception, match="No space left on device"):
            writer.write_graph()
    assert len(Bm25Index.open(tmp_path / "index")) == len(shelf)


def test_names_are_hashed_where_they_stand_as_they_are_by_themselves(shelf: list[Passage]) -> None:
    texts = [(passage.title, passage.text) for passage in shelf]
    texts += [
        ("The Dr. Strange", "The Dr. Strange (DS) is a film. The World Health Organization (WHO) saw it."),
        ("", 'Sir "Ann Lee" was born. --dry-run does nothing.'),
        ("Über uns, Teil 2", "Über uns refers to us.\n--max_size=3: how much.\nkey=value is set."),
        ("A", "\x1eStray marks\x1d are no marks."),
        ("東京 (city)", "東京 Tower is in 東京."),
        ("init.5", "init_file is read. See init(8) and a (B)."),
    ]
    names = read_block([PassageRow(0, str(n), title, text) for n, (title, text) in enumerate(texts)]).names
    found = sorted(zip(names.passages.tolist(), names.hashes.tolist(), names.kinds.tolist(), strict=True))
    expected = []
    for number, (title, text) in enumerate(texts):
        named = list(names_of(title, text))
        hashes, _ = hash_names([name for name, _ in named])
        expected += [(number, one, int(kind)) for one, (_, kind) in zip(hashes.tolist(), named, strict=True) if one]
    assert found == sorted(expected)
    assert len(names.acronyms if names.acronyms is not None else []) == 2
