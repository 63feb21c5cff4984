"""Does a model see that two passages disagree? RGB's counterfactual pairs, asked with the prompt `verifier_agree`.

    python -m benchmarks.verifier_conflict --n 16 --out FILE.json

For each question two pairs: two true passages, and a true one beside one that was altered to give another answer.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beliefrag.engine.assembly import open_model
from beliefrag.engine.model_calls import CallRecorder, ModelCalls
from beliefrag.models.cost import Meter
from beliefrag.prompts import Prompts, escape, evidence_block
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Passage
from beliefrag.verifiers import build_verifier
from beliefrag.verifiers.probability import ask_yes_or_no
from benchmarks.verifier_forms import interval, load


async def measure(model_name: str, n: int, seed: int) -> dict[str, Any]:
    """The probability of agreement for agreeing and for disagreeing pairs, and how well it tells them apart."""
    rows = [row for row in load("en_fact", "rgb") if len(row["positive"]) > 1 and row["positive_wrong"]]
    random.Random(seed).shuffle(rows)
    model = open_model(load_settings({"model": model_name}).settings)
    quiet = CallRecorder(lambda purpose: None, lambda request, reply, repairs: None)
    calls = ModelCalls(Meter(model), Prompts.load(), build_verifier("probability"), quiet)
    found: list[dict[str, Any]] = []
    for row in rows[:n]:
        pairs = {"agree": row["positive"][:2], "differ": [row["positive"][0], row["positive_wrong"][-1]]}
        found.append({"id": row["id"]})
        for name, texts in pairs.items():
            evidence = evidence_block([Passage(str(i), "", text) for i, text in enumerate(texts)])
            fields = {"question": escape(row["query"]), "evidence": evidence}
            found[-1][name] = round(await ask_yes_or_no(calls, "verifier_agree", fields), 4)
        print(found[-1], flush=True)
    await model.aclose()
    return {"model": model.identity, "n": len(found), "auc": interval(found, _auc), "pairs": found}


def _auc(rows: Sequence[dict[str, Any]]) -> float:
    pairs: list[tuple[float, float]] = [(one["agree"], other["differ"]) for one in rows for other in rows]
    return sum((agree > differ) + 0.5 * (agree == differ) for agree, differ in pairs) / len(pairs)


def main() -> None:
    """Reads the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    result = {"date": date, "seed": given.seed, **asyncio.run(measure(given.model, given.n, given.seed))}
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
