"""A ranker is fitted on labelled questions, saved, and used by linked retrieval."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.errors import CalibrationError
from beliefrag.retrieval import RETRIEVERS, Bm25Index, PassageSource, open_retriever
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from beliefrag.types import Passage
from benchmarks.find.ranker_fit import collect_example, fit_ranker, unfitted_ranker

PEOPLE = 40


def test_a_fitted_ranker_is_saved_and_finds_both_ends_of_a_bridge(tmp_path: Path) -> None:
    passages = []
    for number in range(PEOPLE):
        book, person, town = f"Book{number} Story", f"Person{number} Alpha{number}", f"Town{number}"
        passages += [
            Passage(f"book{number}", book, f"{book} was written by {person} in winter."),
            Passage(f"person{number}", person, f"{person} is a writer. The writer was born in {town} and lived there."),
            Passage(f"noise{number}", f"Noise{number}", f"Winter stories number {number} were written by many."),
        ]
    index = Bm25Index.in_memory(passages)
    unfitted = LinkedRetriever(index, graph_in_memory(index), unfitted_ranker())
    gathered = [
        collect_example(unfitted, f"Where was the writer of Book{k} Story born?", {f"book{k}", f"person{k}"})
        for k in range(1, PEOPLE)
    ]
    examples = [each for each in gathered if each is not None]

    path = tmp_path / "own.npz"
    fit_ranker(examples, name="towns", about={}).save(path)

    retriever = open_retriever(RETRIEVERS.choose(f"linked:ranker={path}", {}), PassageSource(passages=passages))
    hits = retriever.search("Where was the writer of Book0 Story born?", 2)
    assert {hit.passage.id for hit in hits} == {"book0", "person0"}
    with pytest.raises(CalibrationError, match="needs 30"):
        fit_ranker(examples[:10], name="towns", about={})
