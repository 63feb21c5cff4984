"""Collect first reads of lean over many sets: what a fit of the probability learns from.

    python -m benchmarks.reads --out runs/reads
    python -m benchmarks.reads --out runs/reads --replay

Each question is searched for once with linked retrieval and read once, packed to 150 words. The second command makes
the same runs from the cache: import `docs/results/reads_replies.jsonl.gz` first. Give the command again to resume.

No answer to an unanswerable question is right. Beside those that sets have, two kinds are made here. `SET_removed`
lacks the passages that hold the answer; an answer that is right all the same has no label. `SET_on_OTHER` asks the
questions of one set about the documents of another.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import RunSpec
from beliefrag.retrieval.indexing import docs_index
from beliefrag.settings import DEFAULT_MODEL, cache_dir, load_settings
from beliefrag.types import NO_ANSWER, Passage, Question
from benchmarks.find.mixed_corpus import data_folder

READS: Mapping[str, int] = {
    "clapnq": 180, "covidqa": 180, "manuals": 75, "ramdocs": 140, "mtrag_un": 26, "xquad_en": 110,
    "hotpotqa": 150, "2wikimultihopqa": 130, "musique": 130, "nq": 120, "triviaqa": 100, "popqa": 100, "rgb": 100,
    "hotpotqa_removed": 40, "2wikimultihopqa_removed": 40, "nq_removed": 40, "popqa_removed": 40,
    "nq_on_covidqa": 30, "triviaqa_on_manuals": 30,
}  # fmt: skip
"""How many questions of each set are read."""
_COMMON = frozenset(("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa", "rgb"))
"""Sets in the common form."""
_NO_ANSWER = frozenset(("UNANSWERABLE", "UNDERSPECIFIED"))


def load_set(name: str, cache: Path) -> Dataset:
    """Return the questions of a set in a seeded order, with the passages to search."""
    asked, _, about = name.partition("_on_")
    if about:
        return _without_answers(name, _load_plain(asked, cache).questions, _load_plain(about, cache).passages)
    if name.endswith("_removed"):
        whole = _load_plain(name.removesuffix("_removed"), cache)
        # The last questions in the seeded order: the first ones are read with their support.
        questions = tuple(reversed(whole.questions))[: READS[name]]
        hidden = {each for question in questions for each in question.gold.supporting or ()}
        left = tuple(each for each in whole.passages if each.id not in hidden)
        return _without_answers(name, questions, left, keep_known=True)
    return _load_plain(name, cache)


def _load_plain(name: str, cache: Path) -> Dataset:
    folder = data_folder() / name
    if name in _COMMON:
        whole = load_dataset(folder)
        questions = list(whole.questions)
        random.Random(7).shuffle(questions)
        return replace(whole, questions=tuple(questions))
    if (folder / "documents").is_dir():
        index, _ = docs_index((folder / "documents",), cache)
        passages = tuple(index.first(len(index)))
    else:
        rows = read_rows(folder / "corpus.jsonl.gz")
        passages = tuple(Passage(row["id"], row["title"], row["text"]) for row in rows)
    rows = read_rows(next(folder.glob("questions.jsonl*")))
    questions = [_label(row) for row in rows if not row.get("history")]
    random.Random(7).shuffle(questions)
    card = Card(name=name, questions=len(questions), passages=len(passages))
    return Dataset(name, tuple(questions), passages, card)


def _without_answers(
    name: str, questions: Sequence[LabelledQuestion], passages: Sequence[Passage], *, keep_known: bool = False
) -> Dataset:
    asked = tuple(
        LabelledQuestion(
            each.question,
            Gold((NO_ANSWER, *(each.gold.answers if keep_known else ())), None, labels=each.gold.labels),
        )
        for each in questions
    )
    return Dataset(name, asked, tuple(passages), Card(name=name, questions=len(asked), passages=len(passages)))


def collect(name: str, n: int, out: Path, *, replay: bool = False, model: str = DEFAULT_MODEL) -> bench.Run:
    """Read the first n questions of a set, or go on with that."""
    plain = name in _COMMON
    spec = RunSpec(
        data=(data_folder() / name,) if plain else (),
        datasets=() if plain else (load_set(name, cache_dir()),),
        methods=("lean_reads",),
        n=n,
        judge=False,
        replay=replay,
    )
    settings = load_settings({"model": model, "method": "lean", "threads": 1}).settings
    return bench.run(spec, out=out / f"{name}_{n}", settings=settings)


def _label(row: dict[str, Any]) -> LabelledQuestion:
    supporting = row.get("supporting") or ()
    named = tuple(supporting) if supporting and isinstance(supporting[0], str) else None
    answers = () if _NO_ANSWER.intersection(row.get("answerability", ())) else row.get("answers") or ()
    gold = Gold(tuple(answers) or (NO_ANSWER,), named, labels={"split": row.get("split", "dev")})
    return LabelledQuestion(Question(row["question"], row["id"]), gold)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Read a file of JSON Lines, compressed or not."""
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a question has no read, such as one whose reply is missing in a replay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(READS), default=list(READS))
    parser.add_argument("--n", type=int, help="read so many questions of each set instead")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    given = parser.parse_args(words)
    missing: list[str] = []
    for name in given.sets:
        run = collect(name, given.n or READS[name], given.out, replay=given.replay, model=given.model)
        missing += [f"{name}/{each.question.id}" for each in run.summaries() if not each.finished]
        f1 = [each.metrics["f1"] or 0.0 for each in run.summaries() if each.finished]
        print(
            f"{name}: {len(f1)} reads, mean F1 {sum(f1) / len(f1):.3f}" if f1 else f"{name}: nothing read", flush=True
        )
    if missing:
        print(f"{len(missing)} questions have no read: {', '.join(missing)}", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
