"""What reading documents in worker processes costs, beside reading them in this process.

    python -m benchmarks.reading_cost --docs FOLDER --out docs/results/reading_cost.json

Both make the same passages and hand them to a writer that keeps nothing. Processor time is that of this process and of
its workers; the fastest of several runs counts, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from beliefrag.retrieval import indexing
from beliefrag.retrieval.documents import CorpusFile, Unreadable, cut_document, links_of, read_file
from beliefrag.retrieval.indexing import index_paths
from beliefrag.retrieval.isolation import FileReading, Message, ReadingWorkers
from beliefrag.types import Reading


class ReadingHere(ReadingWorkers):
    """Reads in this process what would be read in a worker."""

    def begin(self, file: CorpusFile) -> FileReading:
        """Return the reading of a file."""
        return FileReading(self._read(file), file.source)

    def _read(self, file: CorpusFile) -> Iterator[Message]:
        file.content.seek(0)
        passages: list[tuple[object, ...]] = []
        with suppress(Unreadable):
            for document in read_file(file):
                cut = cut_document(document)
                passages += [(at.id, at.title, at.text, at.place, at.metadata, links_of(at)) for at in cut]
        yield "passages", passages
        yield "end", ""


def measure(docs: Path, workers: type[ReadingWorkers]) -> dict[str, float]:
    """Return the seconds of indexing a folder with these workers."""
    with TemporaryDirectory() as folder, patch.object(indexing, "ReadingWorkers", workers):
        began, spent = time.perf_counter(), os.times()
        report = index_paths([docs], Path(folder) / "index", names=False)
        processor = sum(os.times()[:4]) - sum(spent[:4])
        return {"wall": time.perf_counter() - began, "processor": processor, "passages": report.passages_total}


def main() -> None:
    """Measure the folders and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, action="append", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for docs in given.docs:
        runs = [(measure(docs, ReadingHere), measure(docs, ReadingWorkers)) for _ in range(given.runs)]
        row: dict[str, object] = {"docs": "/".join(docs.resolve().parts[-2:]), "passages": runs[0][0]["passages"]}
        for name in ("wall", "processor"):
            here, apart = (min(pair[side][name] for pair in runs) for side in (0, 1))
            row |= {f"{name}_here": round(here, 2), f"{name}_apart": round(apart, 2), name: round(apart / here, 2)}
        rows.append(row)
        print(json.dumps(row))
    if given.out:
        given.out.write_text(json.dumps({"limits": str(Reading()), "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
