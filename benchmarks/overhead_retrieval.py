"""Measures what our retrieval classes add to tantivy: indexing and search, each as a ratio to tantivy used bare.

    python benchmarks/overhead_retrieval.py [--data DIR] [--out FILE] [--repeats N]

Both sides index the same passages of HotpotQA with the same analyser, memory and threads, from passages in memory to a
closed index on disk, and both sides give id, title and text of the five best passages for the same questions. The bare
side keeps no fingerprint, no ledger and no sources, replaces nothing, and breaks no ties. Sides take turns, and every
repeat gives one ratio: on a busy machine that is steadier than either time. The ratio of processor time is given too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import tantivy

from beliefrag import __version__
from beliefrag.retrieval import Bm25Index, IndexWriter
from beliefrag.retrieval.store import ANALYSER
from beliefrag.retrieval.writer import HEAP, THREADS
from beliefrag.types import Passage

K = 5
AIMS = {"indexing": 1.3, "search": 1.2}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock and on the processors."""

    wall: float = 0.0
    processor: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.processor + other.processor)


def main() -> int:
    """Run the measurement, print it and return 1 when an aim is missed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("BELIEFRAG_DATA") or str(Path(__file__).parents[2] / "shared" / "data")
    arguments.add_argument("--data", type=Path, default=Path(default), help="folder with hotpotqa/ in it")
    arguments.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments.add_argument("--repeats", type=int, default=9)
    options = arguments.parse_args()
    folder = options.data / "hotpotqa"
    if not folder.is_dir():
        print(f"{folder} does not exist; name the benchmark data with --data or BELIEFRAG_DATA", file=sys.stderr)
        return 2
    passages = [Passage(row["id"], row["title"], row["text"], "corpus") for row in _rows(folder / "corpus.jsonl.gz")]
    questions = [row["question"] for row in _rows(folder / "questions.jsonl.gz") if row["split"] == "dev"]
    with tempfile.TemporaryDirectory() as scratch:
        figures = {
            "indexing": _indexing(passages, Path(scratch), options.repeats),
            "search": _search(passages, questions, Path(scratch), options.repeats),
        }
    result = {
        "what": "time of BeliefRAG's retrieval classes / time of bare tantivy",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "beliefrag": __version__,
            "tantivy": version("tantivy"),
            "python": platform.python_version(),
            "system": platform.platform(),
        },
        "cores": os.cpu_count(),
        "passages": len(passages),
        "questions": len(questions),
        "k": K,
        "repeats": options.repeats,
        **{name: {**figure, "aim": AIMS[name]} for name, figure in figures.items()},
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    return int(any(figure["median_ratio"] > AIMS[name] for name, figure in figures.items()))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _indexing(passages: list[Passage], scratch: Path, repeats: int) -> dict[str, Any]:
    def ours(place: Path) -> None:
        with IndexWriter(place) as writer:
            writer.add(passages)

    def bare(place: Path) -> None:
        _bare_index(passages, place)

    pairs = []
    for repeat in range(repeats + 1):
        places = scratch / f"ours-{repeat}", scratch / f"bare-{repeat}"
        if repeat % 2:
            pairs.append((_timed(ours, places[0]), _timed(bare, places[1])))
        else:
            second = _timed(bare, places[1])
            pairs.append((_timed(ours, places[0]), second))
    return _summary(pairs[1:], "seconds per build", 1)


def _search(passages: list[Passage], questions: list[str], scratch: Path, repeats: int) -> dict[str, Any]:
    with IndexWriter(scratch / "search-ours") as writer:
        writer.add(passages)
    index = Bm25Index.open(scratch / "search-ours")
    bare_index = _bare_index(passages, scratch / "search-bare")
    searcher = bare_index.searcher()

    def ours(question: str) -> object:
        return index.search(question, K)

    def bare(words: str) -> object:
        hits = searcher.search(bare_index.parse_query(words, ["content"]), K, count=False).hits
        found = []
        for score, address in hits:
            document = searcher.doc(address)
            found.append((score, document["id"][0], *document["content"]))
        return found

    # The parser chokes on punctuation and obeys operators; the bare side gets its questions cleaned for free.
    plain = [re.sub(r"[^\w\s]|\b(?:AND|OR|NOT|IN|TO)\b", " ", question) for question in questions]
    pairs = []
    for repeat in range(repeats + 1):
        one, other = Spent(), Spent()
        for number, (question, words) in enumerate(zip(questions, plain, strict=True)):
            if (number + repeat) % 2:
                one += _timed(ours, question)
                other += _timed(bare, words)
            else:
                other += _timed(bare, words)
                one += _timed(ours, question)
        pairs.append((one, other))
    return _summary(pairs[1:], "milliseconds per question", 1000 / len(questions))


def _bare_index(passages: list[Passage], place: Path) -> tantivy.Index:
    place.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("content", stored=True, tokenizer_name=ANALYSER, index_option="freq")
    index = tantivy.Index(builder.build(), path=str(place))
    writer = index.writer(HEAP, THREADS)
    for passage in passages:
        writer.add_document(tantivy.Document(id=passage.id, content=[passage.title, passage.text]))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _timed(work: Callable[[_T], object], what: _T) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    work(what)
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def _summary(pairs: list[tuple[Spent, Spent]], unit: str, scale: float) -> dict[str, Any]:
    ratios = sorted(ours.wall / bare.wall for ours, bare in pairs)
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return {
        "median_ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(quarters[0], 3), round(quarters[2], 3)],
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "median_processor_ratio": round(statistics.median(ours.processor / bare.processor for ours, bare in pairs), 3),
        "unit": unit,
        "ours": round(statistics.median(ours.wall for ours, _ in pairs) * scale, 4),
        "bare": round(statistics.median(bare.wall for _, bare in pairs) * scale, 4),
    }


if __name__ == "__main__":
    sys.exit(main())
