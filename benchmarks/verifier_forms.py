"""Which verifier form suits a model: signal, time and tokens of each form on real HotpotQA train questions.

    python -m benchmarks.verifier_forms collect --n 60 --out FILE.jsonl    # resumable; replies are cached
    python -m benchmarks.verifier_forms report FILE.jsonl

Each state is a question with the five passages that BM25 finds for it. Two labels: `complete`, all supporting passages
are among the five; `correct`, the model's answer from them has token F1 of at least 0.5.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag.bench.metrics import token_f1
from beliefrag.engine.assembly import open_model
from beliefrag.engine.model_calls import CallRecorder, ModelCalls
from beliefrag.models.cost import Meter
from beliefrag.models.protocol import ChatModel
from beliefrag.policy import novelty, relevance
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Passage, Question
from beliefrag.verifiers import VERIFIERS, build_verifier

Row = dict[str, Any]
SCORES = {"support": 1, "gap": -1, "uncertainty": -1, "conflict": -1}


def load(name: str, benchmark: str = "hotpotqa") -> list[Row]:
    """The records of one benchmark file."""
    folder = Path(os.environ.get("BELIEFRAG_DATA", "../shared/data")) / benchmark
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def collect(model_name: str, split: str, n: int, forms: Sequence[str], out: Path, seed: int) -> None:
    """Observes n states with each form and appends one row per state."""
    index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus"))
    scale = index.score_scale
    questions = sorted((row for row in load("questions") if row["split"] == split), key=lambda row: str(row["id"]))
    random.Random(seed).shuffle(questions)
    done = {row["id"] for row in rows_of(out)}
    model = open_model(load_settings({"model": model_name}).settings)
    prompts = Prompts.load()
    for row in questions[:n]:
        if row["id"] in done:
            continue
        hits = index.search(row["question"], 5)
        passages = [hit.passage for hit in hits]
        supporting = set(row["supporting"])
        question = Question(row["question"], row["id"])
        quiet = CallRecorder(lambda purpose: None, lambda request, reply, repairs: None)
        answer = await ModelCalls(Meter(model), prompts, build_verifier("structured"), quiet).answer(question, passages)
        record: Row = {
            "id": row["id"],
            "complete": supporting <= {passage.id for passage in passages},
            "f1": token_f1(answer, row["answers"]),
            "relevance": relevance([hit.score for hit in hits], scale, 5),
            "novelty": novelty(passages, []),
        }
        for name in forms:
            record[name] = await observed(model, prompts, name, question, passages, supporting)
        append(out, record)
        print(f"{row['id']} complete={record['complete']} f1={record['f1']:.2f}", flush=True)
    await model.aclose()


async def observed(
    model: ChatModel, prompts: Prompts, form: str, question: Question, passages: Sequence[Passage], gold: set[str]
) -> Row:
    """One observation in one form: its scores, flags, cost and repairs."""
    repairs: Counter[str] = Counter()
    recorder = CallRecorder(lambda purpose: None, lambda request, reply, found: repairs.update(found))
    meter = Meter(model)
    observation = await ModelCalls(meter, prompts, build_verifier(form), recorder).verify(question, passages)
    assert observation is not None, "there is no token budget here"
    flagged = set(observation.unhelpful)
    return {
        **{score: getattr(observation, score) for score in SCORES},
        "unhelpful": len(flagged),
        "flagged_supporting": len(flagged & gold),
        "supporting": len(gold & {passage.id for passage in passages}),
        "shown": len(passages),
        "tokens": meter.usage.tokens,
        "seconds": meter.usage.seconds,
        "repairs": dict(repairs),
    }


def rows_of(file: Path) -> list[Row]:
    """The rows collected so far."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def append(file: Path, row: Row) -> None:
    """Adds a row, so that a run that is stopped loses none."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def report(rows: Sequence[Row]) -> Row:
    """AUC of every score for both labels with a bootstrap interval, flags, time and tokens, per form."""
    labels: dict[str, Callable[[Row], bool]] = {
        "complete": lambda row: bool(row["complete"]),
        "correct": lambda row: row["f1"] >= 0.5,
    }
    result: Row = {
        "n": len(rows),
        "complete": sum(map(labels["complete"], rows)),
        "correct": sum(map(labels["correct"], rows)),
        "forms": {},
    }
    for form in VERIFIERS:
        seen = [row for row in rows if form in row]
        if not seen:
            continue
        entry: Row = {"n": len(seen)}
        for label, holds in labels.items():
            entry[f"auc_{label}"] = {
                score: interval(seen, partial(auc, form=form, score=score, sign=sign, holds=holds))
                for score, sign in SCORES.items()
            }
        flagged = sum(row[form]["unhelpful"] for row in seen)
        wrong = sum(row[form]["flagged_supporting"] for row in seen)
        noise = sum(row[form]["shown"] - row[form]["supporting"] for row in seen)
        entry["flags"] = {
            "precision": round(1 - wrong / flagged, 3) if flagged else None,
            "recall": round((flagged - wrong) / noise, 3),
            "supporting_lost": round(wrong / sum(row[form]["supporting"] for row in seen), 3),
        }
        entry["median_tokens"] = statistics.median(row[form]["tokens"] for row in seen)
        entry["median_seconds"] = round(statistics.median(row[form]["seconds"] for row in seen), 1)
        entry["repairs"] = dict(sum((Counter(row[form]["repairs"]) for row in seen), Counter()))
        result["forms"][form] = entry
    return result


def auc(rows: Sequence[Row], *, form: str, score: str, sign: int, holds: Callable[[Row], bool]) -> float | None:
    """The chance that a state with the label scores above one without."""
    yes: list[float] = [sign * row[form][score] for row in rows if holds(row)]
    no: list[float] = [sign * row[form][score] for row in rows if not holds(row)]
    if not yes or not no:
        return None
    return sum((a > b) + 0.5 * (a == b) for a in yes for b in no) / (len(yes) * len(no))


def interval(rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float | None]) -> list[float | None]:
    """The statistic with its 95 % bootstrap interval over questions: value, low, high."""
    value = statistic(rows)
    draw = random.Random(0)
    drawn = sorted(found for _ in range(1000) if (found := statistic(draw.choices(rows, k=len(rows)))) is not None)
    if value is None or not drawn:
        return [None, None, None]
    return [round(value, 3), round(drawn[int(0.025 * len(drawn))], 3), round(drawn[int(0.975 * len(drawn))], 3)]


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("--model", default=DEFAULT_MODEL)
    collecting.add_argument("--split", default="train", choices=["train", "dev"])
    collecting.add_argument("--n", type=int, default=60)
    collecting.add_argument("--seed", type=int, default=0)
    collecting.add_argument("--forms", default=",".join(VERIFIERS))
    collecting.add_argument("--out", type=Path, required=True)
    reporting = commands.add_parser("report")
    reporting.add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "collect":
        asyncio.run(collect(given.model, given.split, given.n, given.forms.split(","), given.out, given.seed))
    else:
        print(json.dumps(report(rows_of(given.file)), indent=2))


if __name__ == "__main__":
    main()
