"""The engine on real questions. Needs the benchmark files: set BELIEFRAG_DATA to their folder."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tantivy

from beliefrag.retrieval import Bm25Index, index_paths
from beliefrag.retrieval.store import CONTENT, ID
from tests.support.benchmark_files import ABSENT, BENCHMARKS

HOTPOTQA = BENCHMARKS / "hotpotqa"
OPERATOR = re.compile(r"\b(?:AND|OR|NOT|IN|TO)\b")

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not HOTPOTQA.is_dir(), reason=ABSENT),
]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Bm25Index:
    out = tmp_path_factory.mktemp("hotpotqa") / "index"
    index_paths([HOTPOTQA / "corpus.jsonl.gz"], out)
    return Bm25Index.open(out)


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [row for row in lines(HOTPOTQA / "questions.jsonl.gz") if row["split"] == "dev"][:200]


def test_supporting_passages_are_found(index: Bm25Index, questions: list[dict[str, Any]]) -> None:
    recalls = []
    for row in questions:
        found = {hit.passage.id for hit in index.search(row["question"], 5)}
        recalls.append(len(found & set(row["supporting"])) / len(row["supporting"]))
    # Measured: 0.737 here. The figure of 0.672 that the engine was chosen by stands for a larger, mixed corpus.
    assert sum(recalls) / len(recalls) >= 0.70


def test_rows_keep_their_ids_and_their_text(index: Bm25Index) -> None:
    rows = [row for row in lines(HOTPOTQA / "corpus.jsonl.gz") if len(row["text"].split()) <= 200]
    passages = index.get([row["id"] for row in rows])
    assert [(p.title, p.text) for p in passages] == [(row["title"], row["text"]) for row in rows]


def test_ranking_is_that_of_the_engines_own_parser(index: Bm25Index, questions: list[dict[str, Any]]) -> None:
    parser = tantivy.Index(index._schema)
    for row in questions:
        # Without its punctuation a question is free of syntax, unless it shouts a word that is an operator.
        plain = re.sub(r"[^\w\s]|_", " ", row["question"])
        query = parser.parse_query(OPERATOR.sub(lambda word: word[0].lower(), plain), [CONTENT])

        hits = index._searcher.search(query, 20, count=False).hits
        expected = [(score, index._searcher.doc(address)[ID][0]) for score, address in hits]
        ours = [(hit.score, hit.passage.id) for hit in index.search(row["question"], 20)]
        assert [score for score, _ in ours] == [score for score, _ in expected]
        last = expected[-1][0]
        assert {own for score, own in ours if score > last} == {own for score, own in expected if score > last}
