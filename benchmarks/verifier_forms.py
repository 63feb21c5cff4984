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
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag.bench.metrics import token_f1
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel
from beliefrag.opening import open_model
from beliefrag.policy import novelty, relevance
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Passage, Question
from beliefrag.verifiers import VERIFIERS, build_verifier

Row = dict[str, Any]
SCORES = {"support": 1, "gap": -1, "uncertainty": -1, "conflict": -1}
RETIRED = ("one_form", "slots_whole")
"""Forms that rows may hold although the package has them no more: `one_form` was the first `slots`, a slot for all, and
`slots_whole` the second, which showed the form whole passages and did not hear the model's doubts."""
BASELINE = "probability"
COMPARED = ("slots", *RETIRED)
"""Forms that ask less than the baseline, and are compared with it state by state."""


def load(name: str, benchmark: str = "hotpotqa") -> list[Row]:
    """Return the records of one benchmark file."""
    folder = Path(os.environ.get("BELIEFRAG_DATA", "../shared/data")) / benchmark
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def collect(model_name: str, split: str, n: int, forms: Sequence[str], out: Path, seed: int) -> None:
    """Observe n states with each form and appends one row per state."""
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
    """Return one observation in one form: its scores, flags, cost and repairs."""
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
    """Return the rows collected so far."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def append(file: Path, row: Row) -> None:
    """Add a row, so that a run that is stopped loses none."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def report(rows: Sequence[Row]) -> Row:
    """AUC of every score for both labels with a bootstrap interval, flags, time and tokens, per form."""
    result: Row = {
        "n": len(rows),
        "complete": sum(map(is_complete, rows)),
        "correct": sum(map(is_correct, rows)),
        "forms": {},
    }
    for form in (*VERIFIERS, *RETIRED):
        if seen := [row for row in rows if form in row]:
            result["forms"][form] = report_form(seen, form)
    result["differences"] = {
        f"{form} less {BASELINE}": report_difference(both, form)
        for form in COMPARED
        if (both := [row for row in rows if form in row and BASELINE in row])
    }
    return result


def is_complete(row: Row) -> bool:
    """Return whether all supporting passages were found."""
    return bool(row["complete"])


def is_correct(row: Row) -> bool:
    """Return whether the answer from the passages was right."""
    return bool(row["f1"] >= 0.5)


def report_form(rows: Sequence[Row], form: str) -> Row:
    """Signal, flags, time and tokens of one form."""
    entry: Row = {"n": len(rows)}
    for label, holds in (("complete", is_complete), ("correct", is_correct)):
        entry[f"auc_{label}"] = {
            score: interval(rows, partial(auc, form=form, score=score, holds=holds)) for score in SCORES
        }
    entry["flags"] = judge_flags([row[form] for row in rows])
    entry["median_tokens"] = statistics.median(row[form]["tokens"] for row in rows)
    entry["median_seconds"] = round(statistics.median(row[form]["seconds"] for row in rows), 1)
    entry["repairs"] = dict(sum((Counter(row[form]["repairs"]) for row in rows), Counter()))
    return entry


def report_difference(rows: Sequence[Row], form: str) -> Row:
    """Return what a form gains or loses against the baseline on the same states, in each AUC for `correct`."""
    differences = {score: interval(rows, partial(auc_difference, form=form, score=score)) for score in SCORES}
    return {"n": len(rows), "auc_correct": differences}


def judge_flags(states: Sequence[Row]) -> Row:
    """Precision and recall of the passages called unhelpful, and the share of supporting passages lost to them."""
    flagged = sum(state["unhelpful"] for state in states)
    wrong = sum(state["flagged_supporting"] for state in states)
    supporting = sum(state["supporting"] for state in states)
    noise = sum(state["shown"] for state in states) - supporting
    return {
        "precision": round(1 - wrong / flagged, 3) if flagged else None,
        "recall": round((flagged - wrong) / noise, 3),
        "supporting_lost": round(wrong / supporting, 3),
    }


def auc_difference(rows: Sequence[Row], *, form: str, score: str) -> float | None:
    """Return how far the AUC of a form for `correct` lies above that of the baseline on the same states."""
    own = auc(rows, form=form, score=score, holds=is_correct)
    baseline = auc(rows, form=BASELINE, score=score, holds=is_correct)
    return None if own is None or baseline is None else own - baseline


def auc(rows: Sequence[Row], *, form: str, score: str, holds: Callable[[Row], bool]) -> float | None:
    """Return the chance that a state with the label scores above one without."""
    sign = SCORES[score]
    yes: list[float] = [sign * row[form][score] for row in rows if holds(row)]
    no: list[float] = sorted(sign * row[form][score] for row in rows if not holds(row))
    if not yes or not no:
        return None
    # A tie counts half: the middle between the scores below and those at most as high.
    return sum(bisect_left(no, a) + bisect_right(no, a) for a in yes) / 2 / (len(yes) * len(no))


def interval(rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float | None]) -> list[float | None]:
    """Return the statistic with its 95 % bootstrap interval over questions: value, low, high."""
    value = statistic(rows)
    draw = random.Random(0)
    drawn = sorted(found for _ in range(1000) if (found := statistic(draw.choices(rows, k=len(rows)))) is not None)
    if value is None or not drawn:
        return [None, None, None]
    return [round(value, 3), round(drawn[int(0.025 * len(drawn))], 3), round(drawn[int(0.975 * len(drawn))], 3)]


def main() -> None:
    """Read the command line."""
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
