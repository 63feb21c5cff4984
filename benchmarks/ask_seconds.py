"""How long a person waits for an answer: lean beside the paper's controller, on the same questions in one run.

    python -m benchmarks.ask_seconds [--questions 4] [--out FILE]

Both methods answer the first questions of the bundled corpus with the embedded model, in turns, one after the other.
The models are loaded before the clock starts, and no reply is kept: what is measured is asking. The ratio is what
counts; the seconds are those of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beliefrag import BeliefRAG, __version__
from beliefrag.demo import load_passages, load_questions

__all__ = ["METHODS", "measure"]

METHODS: dict[str, dict[str, Any]] = {
    "lean": {"method": "lean"},
    "beliefrag": {"method": "beliefrag", "retriever": "bm25", "thresholds": {"decline_below": 0.0}},
}


def measure(count: int, **given: Any) -> dict[str, Any]:
    """Ask so many questions with both methods.

    Args:
        count: How many of the demo's questions to ask.
        given: Settings of both, such as a model.
    """
    passages, questions = load_passages(), [each.to_question().text for each in load_questions()[:count]]
    opened = {name: BeliefRAG(passages=passages, cache=False, **own, **given) for name, own in METHODS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    tokens: dict[str, list[int]] = {name: [] for name in METHODS}
    try:
        for rag in opened.values():
            # The first call loads the weights.
            rag.ask("Is the model there?")
        for question in questions:
            for name, rag in opened.items():
                began = time.perf_counter()
                result = rag.ask(question)
                seconds[name].append(round(time.perf_counter() - began, 4))
                tokens[name].append(result.usage.tokens)
    finally:
        for rag in opened.values():
            rag.close()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "beliefrag": __version__,
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "questions": len(questions),
        "seconds": seconds,
        "tokens": tokens,
        "median_ratio": round(statistics.median(seconds["lean"]) / statistics.median(seconds["beliefrag"]), 3),
        "total_ratio": round(sum(seconds["lean"]) / sum(seconds["beliefrag"]), 3),
    }


def main() -> None:
    """Measure, print, and write a file where one is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = json.dumps(measure(chosen.questions), indent=1)
    print(found)
    if chosen.out:
        chosen.out.write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
