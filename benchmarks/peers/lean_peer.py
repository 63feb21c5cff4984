"""Answers questions with BeliefRAG's own method lean, as a client of the same model server as the other peers.

Retrieval and packing are lean's defaults: linked passages, packed to 160 words. The server's weights are those that
lean's shipped calibration was fitted for, so it is borrowed. As in our benchmarks, no answer is held back for being
unlikely; as with the other peers, no call is repeated and no reply is kept.

It runs in our own interpreter, and takes a question as a line of JSON on standard input, and gives a line of JSON for
each. The passages are indexed before it says that it is ready.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from beliefrag import BeliefRAG
from beliefrag.bench.datasets.common_form import load_passages
from beliefrag.policy import Thresholds
from beliefrag.settings import Settings


def make_settings(url: str) -> Settings:
    """Return the settings of lean on a model server. No settings file and no variable changes them."""
    return Settings(
        model="embedded",
        base_url=url,
        timeout=600,
        retry_seconds=0,
        method="lean",
        verifier="draft",
        borrow="qwen2.5-coder-1.5b-lean",
        thresholds=Thresholds(abstain=False),
        cache=False,
    )


def ask_lean(rag: BeliefRAG, question: str) -> dict[str, Any]:
    """Return the answer and the number of searches, or why there is none. A declined question has an empty answer."""
    try:
        result = rag.ask(question)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:200]}", "searches": 0}
    searches = {"searches": result.usage.searches}
    if result.error is not None:
        return {"error": f"{result.error.cause}: {result.error.message[:200]}"} | searches
    return {"answer": result.answer or ""} | searches


def main() -> None:
    """Answer until standard input ends."""
    corpus, url = sys.argv[1:3]
    with BeliefRAG(passages=load_passages(Path(corpus)), settings=make_settings(url)) as rag:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps(ask_lean(rag, json.loads(line)["question"])), flush=True)


if __name__ == "__main__":
    main()
