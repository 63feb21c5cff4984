"""The document of a passage, put together from the passages of the index."""

from __future__ import annotations

import pytest

from beliefrag.errors import RetrievalError
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage


def test_the_passages_of_a_file_come_in_its_order_wherever_they_lie_in_the_index() -> None:
    places = {"c": "page 1", "a": "page 2", "b": "page 10"}
    passages = [Passage(name, "Report", f"text {name}", "report.pdf", place) for name, place in sorted(places.items())]
    index = Bm25Index.in_memory([*passages, Passage("x", "Other", "text", "other.pdf")])
    found, whole = index.read_document("b")
    assert whole
    assert [each.id for each in found] == ["c", "a", "b"]


def test_of_a_large_table_only_what_has_the_same_title_is_shown() -> None:
    rows = [Passage(f"r{number}", f"Row {number // 2}", f"text {number}", "rows.csv") for number in range(500)]
    found, whole = Bm25Index.in_memory(rows).read_document("r7")
    assert not whole
    assert [each.id for each in found] == ["r6", "r7"]


def test_an_unknown_passage_is_told() -> None:
    with pytest.raises(RetrievalError, match="nowhere"):
        Bm25Index.in_memory([Passage("x", "Other", "text", "other.pdf")]).read_document("nowhere")
