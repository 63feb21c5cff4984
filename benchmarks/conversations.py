"""Measure what follow-up questions find: as typed, rewritten, and with the whole history in front.

    python -m benchmarks.conversations --data DIR/mtrag_un --out docs/results/conversations.json --rewrite 100

Evidence recall among the first five passages of linked retrieval, over the follow-ups of mtrag_un that have supporting
passages. The rule that saves the rewriting of a question that stands alone is measured beside it: where it is right,
the question as typed finds what the rewritten one does. `--rewrite N` asks the embedded model for N follow-ups, in a
fixed order; replies are kept in the cache, and a row is written as soon as it is known. Rows hold ids and numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag.answering.conversation import bound_history, describe_history, find_unclear, stands_alone
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.models.compose import Meter
from beliefrag.opening import assemble
from beliefrag.settings import load_settings
from beliefrag.types import Passage, Question, Turn

DEPTH = 5
Row = dict[str, Any]


def read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a compressed JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def read_turns(history: Sequence[Mapping[str, str]]) -> tuple[Turn, ...]:
    """Return the history of a task as turns."""
    turns: list[Turn] = []
    for said in history:
        if said["speaker"] == "user":
            turns.append(Turn(said["text"]))
        elif turns:
            turns[-1] = Turn(turns[-1].question, said["text"])
    return tuple(turns)


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the means with their 95 % bootstrap intervals."""
    rewritten = [row for row in rows if "rewritten" in row]
    found: dict[str, Any] = {}
    for name, group in {
        "all": rows,
        "stands alone by the rule": [row for row in rows if row["stands_alone"]],
        "to be rewritten by the rule": [row for row in rows if not row["stands_alone"]],
        "rewritten here": rewritten,
    }.items():
        forms = ("typed", "history", *(("rewritten", "by_rule") if group is rewritten else ()))
        found[name] = {"n": len(group)} | {form: estimate([row[form] for row in group]) for form in forms if group}
    if rewritten:
        gains = [row["rewritten"] - row["typed"] for row in rewritten]
        found["rewritten here"]["rewritten minus typed"] = estimate(gains)
    return found


def count_unclear(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return how many questions without a history the rule finds unclear, and of how many, by class."""
    first = [row for row in rows if not row["follow_up"]]
    return {
        name: [sum(row["unclear"] for row in group), len(group)]
        for name in sorted({row["answerability"] for row in first})
        if (group := [row for row in first if row["answerability"] == name])
    }


def estimate(values: Sequence[float]) -> list[float]:
    """Return the mean and its 95 % bootstrap interval over questions (2,000 resamples, seed 0)."""
    drawn = np.random.default_rng(0).choice(np.asarray(values, dtype=float), (2_000, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return [round(float(x), 3) for x in (np.mean(values), low, high)]


def main() -> None:
    """Measure, and write the rows with their summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rewrite", type=int, default=0)
    parser.add_argument("--first", type=Path, nargs="*", default=[], help="sets whose questions have no history")
    given = parser.parse_args()
    passages = [Passage(one["id"], one["title"], one["text"]) for one in read_lines(given.data / "corpus.jsonl.gz")]
    tasks = [one for one in read_lines(given.data / "questions.jsonl.gz") if one["supporting"] or not one["history"]]
    tasks.sort(key=lambda one: hashlib.sha256(one["id"].encode()).hexdigest())
    assembly = assemble(load_settings({"context": 2048}).settings, passages=passages)
    harness = assembly.harness

    def recall(query: str, supporting: Sequence[str]) -> float:
        hits = harness.retriever.search(query, DEPTH)[:DEPTH]
        return len({hit.passage.id for hit in hits} & set(supporting)) / min(DEPTH, len(supporting))

    declined = {}
    for folder in given.first:
        asked = [one["question"] for one in read_lines(folder / "questions.jsonl.gz")]
        declined[folder.name] = [sum(find_unclear(each) is not None for each in asked), len(asked)]
    rows: list[Row] = []
    for task in tasks:
        question, supporting = task["question"], task["supporting"]
        row = {"id": task["id"], "answerability": task["answerability"][0], "follow_up": bool(task["history"])}
        row["unclear"] = not task["history"] and find_unclear(question) is not None
        if task["history"] and supporting:
            turns = read_turns(task["history"])
            front = " ".join([*(turn.question for turn in turns), question])
            row |= {"stands_alone": stands_alone(question), "typed": recall(question, supporting)}
            row["history"] = recall(front, supporting)
        rows.append(row)

    def write() -> None:
        measured = [row for row in rows if "typed" in row]
        about = {"date": datetime.date.today().isoformat(), "model": harness.model.identity, "depth": DEPTH}
        content = about | {
            "summary": summarise(measured),
            "unclear": count_unclear(rows),
            "first": declined,
            "rows": rows,
        }
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    async def rewrite_all() -> None:
        by_id = {row["id"]: row for row in rows}
        for task in [one for one in tasks if one["history"] and one["supporting"]][: given.rewrite]:
            recorder = CallRecorder(lambda _: None, lambda *_: None)
            calls = ModelCalls(Meter(harness.model), harness.prompts, harness.verifier, recorder)
            history = describe_history(bound_history(read_turns(task["history"])))
            text = await calls.stand_alone(Question(task["question"]), history)
            row = by_id[task["id"]]
            row["rewritten"] = recall(text, task["supporting"])
            row["by_rule"] = row["typed"] if row["stands_alone"] else row["rewritten"]
            write()
        await assembly.aclose()

    write()
    asyncio.run(rewrite_all())


if __name__ == "__main__":
    main()
