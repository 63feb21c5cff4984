"""How often retrieval finds the paragraph of a question among the first five, in each language of XQuAD.

    python -m benchmarks.find.languages --out docs/results/languages.json

The paragraphs of one language are the corpus, and after that those of all languages together. A paragraph that the
chunker has cut counts by its parts. The length of runs in Chinese and
Thai was chosen on these questions.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import asdict
from pathlib import Path

from beliefrag.retrieval import RETRIEVERS, PassageSource, Retriever, open_retriever
from beliefrag.runs.statistics import mean_estimate
from benchmarks.find.mixed_corpus import data_folder

FIRST = 5


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    folders = sorted(data_folder().glob("xquad_*"))
    everything = [folder / "corpus.jsonl.gz" for folder in folders]
    rows: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name in ("bm25", "linked"):
        whole = _open(name, everything)
        for folder in folders:
            own = _open(name, [folder / "corpus.jsonl.gz"])
            for corpus, retriever in (("own", own), ("mixed", whole)):
                rows.setdefault(folder.name, {})[f"{name}, {corpus}"] = _search(retriever, folder)
    shares = {
        language: {
            column: asdict(mean_estimate(_found(folder_of(language), found))) for column, found in columns.items()
        }
        for language, columns in rows.items()
    }
    chosen.out.write_text(json.dumps({"first": FIRST, "found": shares, "missed": _missed(rows)}, indent=1) + "\n")
    for language, columns in shares.items():
        print(language, {column: round(share["value"], 3) for column, share in columns.items()})


def folder_of(language: str) -> Path:
    """Return the folder of a set."""
    return data_folder() / language


def _open(name: str, documents: list[Path]) -> Retriever:
    return open_retriever(RETRIEVERS.choose(name, {}), PassageSource(docs=documents))


def _questions(folder: Path) -> dict[str, tuple[str, set[str]]]:
    lines = gzip.decompress((folder / "questions.jsonl.gz").read_bytes()).decode().splitlines()
    return {row["id"]: (row["question"], set(row["supporting"])) for row in map(json.loads, lines)}


def _search(retriever: Retriever, folder: Path) -> dict[str, list[str]]:
    return {
        number: [hit.passage.id.partition("#")[0] for hit in retriever.search(question, FIRST)]
        for number, (question, _) in _questions(folder).items()
    }


def _found(folder: Path, ranked: dict[str, list[str]]) -> dict[str, float]:
    return {number: float(bool(needed & set(ranked[number]))) for number, (_, needed) in _questions(folder).items()}


def _missed(rows: dict[str, dict[str, dict[str, list[str]]]]) -> dict[str, dict[str, list[str]]]:
    """Return the ids of the questions whose paragraph was not found."""
    return {
        language: {
            column: [number for number, hit in _found(folder_of(language), found).items() if not hit]
            for column, found in columns.items()
        }
        for language, columns in rows.items()
    }


if __name__ == "__main__":
    main()
