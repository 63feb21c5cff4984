"""Collect first reads of lean over many sets: what a fit of the probability learns from.

    python -m benchmarks.reads --n 25 --out runs/reads
    python -m benchmarks.reads --n 25 --out runs/reads --replay

Each question is searched for once with linked retrieval and read once, packed to 160 words. The second command makes
the same runs from the cache: import `docs/results/reads_replies.jsonl.gz` with `beliefrag cache import` first.
Sets with unanswerable questions keep them: no answer to them is right. A run is resumed by giving the command again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import RunSpec
from beliefrag.retrieval.indexing import docs_index
from beliefrag.settings import cache_dir, load_settings
from beliefrag.types import Passage, Question
from benchmarks.find.mixed_corpus import data_folder

COMMON = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa", "rgb")
"""Sets in the common form."""
OTHERS = ("clapnq", "covidqa", "manuals", "ramdocs")
"""Sets whose questions have no answer, or whose passages are cut from documents."""
UNANSWERABLE = "(unanswerable)"
"""Stands for the gold answer of a question that has none; the metrics remove the brackets, and no model writes it."""


def load_set(name: str, cache: Path) -> Dataset:
    """Return one of the other sets, its questions in a seeded order."""
    folder = data_folder() / name
    if (folder / "documents").is_dir():
        index, _ = docs_index((folder / "documents",), cache)
        passages = tuple(index.first(len(index)))
    else:
        rows = _read_rows(folder / "corpus.jsonl.gz")
        passages = tuple(Passage(row["id"], row["title"], row["text"]) for row in rows)
    questions = [_label(row) for row in _read_rows(next(folder.glob("questions.jsonl*")))]
    random.Random(7).shuffle(questions)
    card = Card(name=name, questions=len(questions), passages=len(passages))
    return Dataset(name, tuple(questions), passages, card)


def collect(name: str, n: int, out: Path, *, replay: bool = False) -> bench.Run:
    """Read the first n questions of a set, or go on with that."""
    own = name in OTHERS
    spec = RunSpec(
        data=() if own else (data_folder() / name,),
        datasets=(load_set(name, cache_dir()),) if own else (),
        methods=("lean_reads",),
        n=n,
        judge=False,
        replay=replay,
    )
    settings = load_settings({"model": "local:qwen2.5-coder-1.5b", "threads": 1}).settings
    return bench.run(spec, out=out / f"{name}_{n}", settings=settings)


def _label(row: dict[str, Any]) -> LabelledQuestion:
    supporting = row.get("supporting") or ()
    named = tuple(supporting) if supporting and isinstance(supporting[0], str) else None
    gold = Gold(tuple(row.get("answers") or (UNANSWERABLE,)), named, labels={"split": row.get("split", "dev")})
    return LabelledQuestion(Question(row["question"], row["id"]), gold)


def _read_rows(file: Path) -> list[dict[str, Any]]:
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=(*OTHERS, *COMMON), default=[*OTHERS, *COMMON])
    parser.add_argument("--n", type=int, default=25)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--replay", action="store_true")
    given = parser.parse_args(words)
    for name in given.sets:
        run = collect(name, given.n, given.out, replay=given.replay)
        f1 = [each.metrics["f1"] or 0.0 for each in run.summaries() if each.finished]
        print(
            f"{name}: {len(f1)} reads, mean F1 {sum(f1) / len(f1):.3f}" if f1 else f"{name}: nothing read", flush=True
        )


if __name__ == "__main__":
    main()
