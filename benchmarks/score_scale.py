"""Where relevance lies for real questions: with the score scale of the corpus, and with that of the questions.

    python -m benchmarks.score_scale measure --questions 300 --out docs/results/score_scale.json
    python -m benchmarks.score_scale report docs/results/score_scale.json

Reads the sets under BELIEFRAG_DATA. No model is asked. An ordinary search should have a relevance around the middle of
its range, so that relevance can fall as well as rise. The file has the relevance of each question, by its id.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.policy import relevance
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage
from benchmarks.find.mixed_corpus import SETS
from benchmarks.verifier_forms import load

__all__ = ["format_relevance", "measure_relevance"]

_TOP_K = 5
_HEAD = """\
| set | scale from | location | scale | relevance: lowest tenth | median | highest tenth | below 0.3 | below 0.15 |
|---|---|---|---|---|---|---|---|---|"""


def measure_relevance(names: Sequence[str], questions: int) -> Iterator[dict[str, Any]]:
    """Return, for each set and scale, the relevance of the first questions by their ids."""
    for name in names:
        index = Bm25Index.in_memory(Passage(row["id"], row["title"], row["text"]) for row in load("corpus", name))
        asked = {str(row["id"]): row["question"] for row in load("questions", name)[:questions]}
        searches = {each: [hit.score for hit in index.search(text, _TOP_K)] for each, text in asked.items()}
        for source, scale in (
            ("passages", index.score_scale),
            ("these questions", index.measure_score_scale(list(asked.values()))),
        ):
            found = {each: round(relevance(scores, scale, _TOP_K), 4) for each, scores in searches.items() if scores}
            yield {
                "set": name,
                "scale_from": source,
                "location": round(scale.location, 4),
                "scale": round(scale.scale, 4),
                "relevance": found,
            }


def format_relevance(measured: Sequence[Mapping[str, Any]]) -> str:
    """Return the table: a row for each set and scale."""
    return "\n".join((_HEAD, *map(_format_row, measured)))


def _format_row(row: Mapping[str, Any]) -> str:
    found = list(row["relevance"].values())
    tenths = statistics.quantiles(found, n=10)
    shares = (sum(value < limit for value in found) / len(found) for limit in (0.3, 0.15))
    numbers = (tenths[0], tenths[4], tenths[8], *shares)
    cells = (f"{row['location']:.1f}", f"{row['scale']:.1f}", *(f"{number:.2f}" for number in numbers))
    return f"| {row['set']} | {row['scale_from']} | {' | '.join(cells)} |"


def main() -> None:
    """Measure into a file, or print the table of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--sets", nargs="+", default=SETS)
    measuring.add_argument("--questions", type=int, default=300)
    measuring.add_argument("--out", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        rows = (json.dumps(row) for row in measure_relevance(given.sets, given.questions))
        given.out.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    else:
        print(format_relevance(json.loads(given.file.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
