"""Where relevance lies for real questions: with the score scale of the corpus, and with that of the questions.

    python -m benchmarks.score_scale hotpotqa 2wikimultihopqa musique nq triviaqa popqa

Reads the sets under BELIEFRAG_DATA. No model is asked. An ordinary search should have a relevance around the middle of
its range, so that relevance can fall as well as rise.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from beliefrag.policy import ScoreScale, relevance
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage
from benchmarks.verifier_forms import load


def main() -> None:
    """Prints one Markdown row per set and scale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--questions", type=int, default=300)
    given = parser.parse_args()
    shares = "below 0.3 | below 0.15"
    print(f"| set | scale from | location | scale | relevance: lowest tenth | median | highest tenth | {shares} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.sets:
        index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus", name))
        questions = [row["question"] for row in load("questions", name)][: given.questions]
        searches = [[hit.score for hit in index.search(question, 5)] for question in questions]
        for words, scale in (
            ("passages", index.score_scale),
            ("these questions", index.measure_score_scale(questions)),
        ):
            print(row_of(name, words, scale, searches), flush=True)


def row_of(name: str, words: str, scale: ScoreScale, searches: Sequence[Sequence[float]]) -> str:
    """The row of one set and scale."""
    found = [relevance(scores, scale, 5) for scores in searches if scores]
    tenths = statistics.quantiles(found, n=10)
    low, very_low = (sum(value < limit for value in found) / len(found) for limit in (0.3, 0.15))
    numbers = (tenths[0], tenths[4], tenths[8], low, very_low)
    cells = [f"{scale.location:.1f}", f"{scale.scale:.1f}", *(f"{number:.2f}" for number in numbers)]
    return f"| {name} | {words} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
