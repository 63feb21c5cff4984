"""How often retrieval finds what questions about real manuals need: both quotes of a two-hop question among 10.

    python -m benchmarks.find.manuals --retriever bm25 --out manuals_bm25.json

The documents are read by the product's own readers and cut by its own chunker. A quote is found where a passage of its
file holds it word for word, or holds more than half of it where the chunker has cut it in two. None of these questions
is for fitting.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.runs.statistics import mean_estimate
from beliefrag.types import Passage
from benchmarks.find.mixed_corpus import data_folder

FIRST = {"two_hop": 10, "single": 5}
_LARGER_PART = 0.6
_WORD = re.compile(r"[^\W_]+")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retriever", default="bm25", help="NAME or NAME:key=value,...")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    folder = data_folder() / "manuals"
    source = PassageSource(docs=[folder / "documents"])
    retriever = open_retriever(RETRIEVERS.choose(chosen.retriever, {}), source)
    index = source.open_index()
    passages = index.first(len(index))
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]
    finder = QuoteFinder(passages)
    found: dict[str, dict[str, float]] = {kind: {} for kind in FIRST}
    held: dict[str, dict[str, float]] = {kind: {} for kind in FIRST}
    for question in questions:
        kind = question["kind"]
        if kind not in FIRST:
            continue
        needed = [finder.find(quote) for quote in question["supporting"]]
        held[kind][question["id"]] = float(all(needed))
        ids = {hit.passage.id for hit in retriever.search(question["question"], FIRST[kind])}
        found[kind][question["id"]] = float(all(wanted & ids for wanted in needed))
    record = {
        "retriever": retriever.identity,
        "passages": len(passages),
        "found": {f"{kind}, first {FIRST[kind]}": asdict(mean_estimate(values)) for kind, values in found.items()},
        "quotes in passages": {kind: asdict(mean_estimate(values)) for kind, values in held.items()},
    }
    text = json.dumps(record, indent=1)
    print(text)
    if chosen.out:
        chosen.out.write_text(f"{text}\n", encoding="utf-8")


class QuoteFinder:
    """Finds the passages that hold a quote."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._by_file: dict[str, list[tuple[str, str]]] = {}
        for passage in passages:
            name = passage.source.split("#")[0]
            self._by_file.setdefault(Path(name).name, []).append((passage.id, _plain(passage.text)))

    def find(self, quote: Mapping[str, Any]) -> set[str]:
        """Return the ids of the passages that hold it."""
        words = _plain(quote["quote"]).split()
        files = [quote["file"], *(quote.get("also_in") or ())]
        pieces = [piece for file in files for piece in self._by_file.get(Path(file).name, ())]
        part = max(1, int(len(words) * _LARGER_PART))
        for wanted in ([words], [words[:part], words[-part:]]):
            texts = [f" {' '.join(each)} " for each in wanted]
            ids = {one for one, text in pieces if any(each in text for each in texts)}
            if ids:
                return ids
        return set()


def _plain(text: str) -> str:
    words = " ".join(_WORD.findall(text.lower()))
    return f" {words} "


if __name__ == "__main__":
    main()
