"""Build time, size, search time and evidence recall of each engine by the number of passages.

    python -m benchmarks.engines_scale --engines embedded,pg_search,pg_textsearch --passages 100000

Passages are those of the benchmark sets; where there are fewer than asked for, they are repeated with other ids and
their sentences in another order. PostgreSQL is the server of the tests. Evidence recall is the share of the annotated
passages of HotpotQA's questions among the first five.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import psycopg

from beliefrag.retrieval import IndexWriter
from beliefrag.retrieval.documents import split_sentences
from beliefrag.retrieval.engines.filling import fill
from beliefrag.types import Passage
from tests.support.engines import EmbeddedEngine, PostgresEngine
from tests.support.postgres import PostgresServer, run_postgres

DATA = Path(os.environ.get("BELIEFRAG_DATA", "../shared/data"))
Engine = EmbeddedEngine | PostgresEngine
SETS = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "popqa", "triviaqa", "open_wiki_pool")


def read_passages() -> Iterator[Passage]:
    """Yield the passages of all sets, each id once."""
    seen: set[str] = set()
    for name in SETS:
        with gzip.open(DATA / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                passage = Passage(f"{name}-{value['id']}", value.get("title", ""), value["text"])
                if passage.id not in seen:
                    seen.add(passage.id)
                    yield passage


def make_passages(count: int) -> Iterator[Passage]:
    """Yield so many passages; further ones are shuffled copies of the first."""
    yield from islice(_rounds(), count)


def _rounds() -> Iterator[Passage]:
    chance = random.Random(0)
    for number in range(10_000):
        for passage in read_passages():
            if not number:
                yield passage
                continue
            sentences = list(split_sentences(passage.text))
            chance.shuffle(sentences)
            yield Passage(f"{passage.id}-{number}", f"{passage.title} {number}", " ".join(sentences))


def read_questions(count: int) -> list[tuple[str, set[str]]]:
    """Return questions with the ids of the passages that they need."""
    with gzip.open(DATA / "hotpotqa" / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        values = [json.loads(line) for line in lines]
    random.Random(0).shuffle(values)
    needed = [(value["question"], {f"hotpotqa-{each}" for each in value["supporting"]}) for value in values]
    return [each for each in needed if each[1]][:count]


def measure(engine: Engine, count: int, questions: list[tuple[str, set[str]]]) -> dict[str, float]:
    """Fill an engine and search it."""
    began = time.perf_counter()
    passages = make_passages(count)
    if isinstance(engine, EmbeddedEngine):
        with IndexWriter(engine.folder) as writer:
            writer.add(passages)
    else:
        pages = ([(each, (each.source,)) for each in page] for page in iter(lambda: list(islice(passages, 1000)), []))
        fill(engine.write(), pages, lambda _: True)
    built = time.perf_counter() - began
    retriever = engine.open()
    for question, _ in questions[:10]:
        retriever.search(question, 5)
    seconds, recalls = [], []
    for question, needed in questions:
        before = time.perf_counter()
        hits = retriever.search(question, 5)
        seconds.append(time.perf_counter() - before)
        recalls.append(len(needed & {hit.passage.id for hit in hits}) / len(needed))
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "passages": len(retriever),
        "build_seconds": round(built, 1),
        "p50_ms": round(1000 * statistics.median(seconds), 1),
        "p95_ms": round(1000 * cuts[18], 1),
        "recall_at_5": round(statistics.fmean(recalls), 4),
    }


def size_of(engine: Engine, folder: Path) -> int:
    """Return bytes on disk."""
    if isinstance(engine, PostgresEngine):
        with psycopg.connect(engine.options.url) as connection:
            row = connection.execute("SELECT pg_total_relation_size(%s)", (engine.options.table,)).fetchone()
        return int(row[0]) if row else 0
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Measure each engine in turn and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="embedded,pg_search,pg_textsearch")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    chosen = parser.parse_args()
    questions = read_questions(chosen.questions)
    with ExitStack() as stack:
        server: PostgresServer | None = None
        for name in chosen.engines.split(","):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beliefrag-scale-")))
            engine: Engine
            if name == "embedded":
                engine = EmbeddedEngine(folder / "index")
            else:
                server = server or stack.enter_context(run_postgres())
                engine = PostgresEngine(server, name)
            row = measure(engine, chosen.passages, questions)
            print(json.dumps({"engine": name, **row, "megabytes": round(size_of(engine, folder) / 1e6)}), flush=True)


if __name__ == "__main__":
    main()
