"""Measure whether the conflict of two passages with different answers is larger than that of two that agree.

    python -m benchmarks.conflict_pairs --n 60 --json docs/results/conflict_pairs.json

From each question of RAMDocs and RGB come one pair of documents that give the same answer and one that do not, as far
as there are such pairs. `lean` reads the two and no other, and the conflict that it measures is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag.calibration.quality import auc
from beliefrag.engine.loop import play
from beliefrag.opening import open_engine
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Passage, Question
from benchmarks.find.mixed_corpus import data_folder
from benchmarks.reads import read_rows

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents of a question, and whether they give different answers."""

    dataset: str
    question: Question
    passages: tuple[Passage, Passage]
    differ: bool


def list_pairs(n: int) -> list[Pair]:
    """Return n pairs of each kind of each set, where there are as many."""
    chosen = []
    for found in (list(_ramdocs_pairs()), list(_rgb_pairs())):
        random.Random(5).shuffle(found)
        chosen += [pair for kind in (True, False) for pair in [each for each in found if each.differ is kind][:n]]
    return chosen


def _ramdocs_pairs() -> Iterator[Pair]:
    folder = data_folder() / "ramdocs"
    corpus = {row["id"]: Passage(row["id"], row["title"], row["text"]) for row in read_rows(folder / "corpus.jsonl.gz")}
    draw = random.Random(3)
    for row in read_rows(folder / "questions.jsonl.gz"):
        pairs = list(combinations([each for each in row["documents"] if each["answer"] != "unknown"], 2))
        draw.shuffle(pairs)
        for differ in (False, True):
            for one, other in pairs:
                if (one["answer"].lower() != other["answer"].lower()) is differ:
                    passages = (corpus[one["id"]], corpus[other["id"]])
                    yield Pair("ramdocs", Question(row["question"], row["id"]), passages, differ)
                    break


def _rgb_pairs() -> Iterator[Pair]:
    for row in read_rows(data_folder() / "rgb" / "en_fact.jsonl.gz"):
        question = Question(row["query"], f"rgb_{row['id']}")
        right = [Passage(f"right{place}", "", text) for place, text in enumerate(row["positive"])]
        wrong = [Passage(f"wrong{place}", "", text) for place, text in enumerate(row["positive_wrong"])]
        if len(right) > 1:
            yield Pair("rgb", question, (right[0], right[1]), differ=False)
        if right and wrong:
            yield Pair("rgb", question, (right[0], wrong[0]), differ=True)


async def read_pairs(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Let lean read each pair, and return what it measured."""
    settings = load_settings({"model": DEFAULT_MODEL, "method": "lean", "threads": 1}).settings
    engine = open_engine(settings, methods=("lean_reads",))
    rows = []
    try:
        for place, pair in enumerate(pairs):
            passages = pair.passages if place % 2 else pair.passages[::-1]
            retriever = open_retriever(RETRIEVERS.choose("linked"), PassageSource(passages=passages))
            method = engine.build_method("lean_reads", retriever.score_scale)
            episode = await play(pair.question, method, engine.build_harness("lean_reads", retriever))
            measured = episode.steps[-1].diagnostics
            if episode.finished and measured:
                found = {"conflict": round(measured.conflict, 6), "uncertainty": round(measured.uncertainty, 6)}
                rows.append(
                    {"dataset": pair.dataset, "question_id": pair.question.id, "differ": int(pair.differ)} | found
                )
    finally:
        await engine.model.aclose()
    return rows


def measure(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the AUC of conflict by set, with its 95 % interval over pairs."""
    found: dict[str, Any] = {"model": DEFAULT_MODEL}
    for name in sorted({row["dataset"] for row in rows}):
        own = [row for row in rows if row["dataset"] == name]
        y = np.array([float(row["differ"]) for row in own])
        drawn = np.random.default_rng(0).multinomial(len(own), np.full(len(own), 1 / len(own)), _RESAMPLES)
        found[name] = {"pairs": len(own)}
        for column in ("conflict", "uncertainty"):
            x = np.array([float(row[column]) for row in own])
            low, high = np.percentile(auc(x, y, drawn.astype(float)), (2.5, 97.5))
            value = float(auc(x, y, np.ones(len(own))))
            found[name][column] = {"auc": round(value, 3), "low": round(float(low), 3), "high": round(float(high), 3)}
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args(words)
    rows = asyncio.run(read_pairs(list_pairs(given.n)))
    with given.json.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    found = measure(rows)
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
