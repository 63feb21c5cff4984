"""Does a model see that two passages disagree? Two readings, on RGB's altered passages and on pairs made from HotpotQA.

    python -m benchmarks.verifier_conflict --n 40 --out FILE.json

Each question has a pair that agrees and a pair that differs. RGB: two true passages, and a true one beside one that was
altered to give another answer. HotpotQA (train): the two supporting passages, each of which gives a part of the answer;
and the one with the answer beside a copy of it that has the answer of another question in its place.

The readings: `together`, the probability that both give the same answer, asked with the prompt `verifier_agree`;
`apart`, whether the model's answers from each passage alone differ, weighed by the less likely of both.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from beliefrag.bench.metrics import token_f1
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.models.compose import Meter
from beliefrag.opening import open_model
from beliefrag.prompts import Prompts, escape, evidence_block
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Passage
from beliefrag.verifiers import build_verifier
from beliefrag.verifiers.probability import ask_yes_or_no, read_draft
from benchmarks.verifier_forms import interval, load

__all__ = ["READINGS", "Pairs", "auc", "pairs_of_hotpotqa", "pairs_of_rgb"]

READINGS = ("together", "apart")
_SAME = 0.5
"""Two answers are the same from this token F1 on."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A question with two passages that agree and two that differ."""

    id: str
    question: str
    agree: tuple[str, str]
    differ: tuple[str, str]


def pairs_of_rgb(seed: int) -> Iterator[Pairs]:
    """Yield the pairs of RGB's questions with altered passages, in a random order."""
    rows = [row for row in load("en_fact", "rgb") if len(row["positive"]) > 1 and row["positive_wrong"]]
    random.Random(seed).shuffle(rows)
    for row in rows:
        first, second = row["positive"][:2]
        yield Pairs(str(row["id"]), row["query"], (first, second), (first, row["positive_wrong"][-1]))


def pairs_of_hotpotqa(seed: int) -> Iterator[Pairs]:
    """Yield pairs made from train questions with two supporting passages, one of which holds the answer."""
    texts = {row["id"]: f"{row['title']}: {row['text']}" for row in load("corpus")}
    rows = [row for row in load("questions") if row["split"] == "train" and len(row["supporting"]) == 2]
    rows.sort(key=lambda row: str(row["id"]))
    random.Random(seed).shuffle(rows)
    for row, other in pairwise(rows):
        answer, replacement = row["answers"][0], other["answers"][0]
        if {answer.lower(), replacement.lower()} & {"yes", "no"} or token_f1(replacement, [answer]) > 0.0:
            continue
        first, second = (texts[each] for each in row["supporting"])
        word = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
        holder = first if word.search(first) else second
        if word.search(holder):
            altered = replacement.join(word.split(holder))
            yield Pairs(str(row["id"]), row["question"], (first, second), (holder, altered))


async def read_pair(calls: ModelCalls, question: str, texts: Sequence[str]) -> dict[str, float]:
    """Return how much two passages seem to differ, by both readings."""
    passages = [Passage(str(number), "", text) for number, text in enumerate(texts)]
    asked = {"question": escape(question)}
    agree = await ask_yes_or_no(calls, "verifier_agree", {**asked, "evidence": evidence_block(passages)})
    drafts = [
        await calls.ask("verifier", "answer", {**asked, "evidence": evidence_block([each])}, read_draft, top_logprobs=1)
        for each in passages
    ]
    (one, likely_one), (other, likely_other) = drafts
    differs = max(token_f1(one, [other]), token_f1(other, [one])) < _SAME
    return {"together": round(1.0 - agree, 4), "apart": round(min(likely_one, likely_other) if differs else 0.0, 4)}


async def measure(model_name: str, n: int, seed: int) -> dict[str, Any]:
    """Return what both readings say of each pair, and how well they tell differing from agreeing ones."""
    model = open_model(load_settings({"model": model_name}).settings)
    quiet = CallRecorder(lambda purpose: None, lambda request, reply, repairs: None)
    calls = ModelCalls(Meter(model), Prompts.load(), build_verifier("probability"), quiet)
    result: dict[str, Any] = {"model": model.identity}
    for name, pairs in (("rgb", pairs_of_rgb(seed)), ("hotpotqa", pairs_of_hotpotqa(seed))):
        found: list[dict[str, Any]] = []
        for one in pairs:
            if len(found) == n:
                break
            told = {kind: await read_pair(calls, one.question, getattr(one, kind)) for kind in ("agree", "differ")}
            found.append({"id": one.id, **told})
            print(name, found[-1], flush=True)
        aucs = {reading: interval(found, partial(auc, reading=reading)) for reading in READINGS}
        result[name] = {"n": len(found), "auc": aucs, "pairs": found}
    await model.aclose()
    return result


def auc(rows: Sequence[dict[str, Any]], *, reading: str) -> float:
    """Return the probability that a differing pair seems to differ more than an agreeing one."""
    pairs: list[tuple[float, float]] = [
        (one["differ"][reading], other["agree"][reading]) for one in rows for other in rows
    ]
    return sum((differ > agree) + 0.5 * (differ == agree) for differ, agree in pairs) / len(pairs)


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    result = {"date": date, "seed": given.seed, **asyncio.run(measure(given.model, given.n, given.seed))}
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
