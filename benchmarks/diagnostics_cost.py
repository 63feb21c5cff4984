"""Measure the processor time that lean's diagnostics add to a search, without a model.

    python -m benchmarks.diagnostics_cost --n 100 --json docs/results/diagnostics_cost.json

For each question: a search for 5 passages, the same for 15, and the readings of a draft (the gold answer) from the 5.
The three are measured in turns in one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from beliefrag.answering.packing import pack_passages
from beliefrag.policy import calibrate_scores
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.settings import cache_dir
from beliefrag.verifiers import Look
from beliefrag.verifiers.reading import observe_draft
from benchmarks.reads import load_set

SETS = ("hotpotqa", "covidqa")
_KEPT, _SCORED, _WORDS = 5, 15, 150
_T = TypeVar("_T")


def measure(name: str, n: int) -> dict[str, float]:
    """Return mean processor milliseconds on the first questions of a set."""
    whole = load_set(name, cache_dir())
    retriever = open_retriever(RETRIEVERS.choose("linked"), PassageSource(passages=whole.passages))
    spent: dict[str, list[float]] = {"search_5": [], "search_15": [], "readings": []}

    def timed(what: str, work: Callable[[], _T]) -> _T:
        began = time.process_time()
        done = work()
        spent[what].append(1000 * (time.process_time() - began))
        return done

    for labelled in whole.questions[:n]:
        text = labelled.question.text
        timed("search_5", partial(retriever.search, text, _KEPT))
        hits = timed("search_15", partial(retriever.search, text, _SCORED))[:_KEPT]
        passages, scores = [hit.passage for hit in hits], [hit.score for hit in hits]
        shown = [each.shown for each in pack_passages(text, passages, _WORDS, scores=scores)]
        look = Look(shown, passages, calibrate_scores(scores, retriever.score_scale), 0.2)
        timed("readings", partial(observe_draft, text, labelled.gold.answers[0], 0.5, look))
    means = {what: round(float(np.mean(each)), 2) for what, each in spent.items()}
    return means | {"added": round(means["search_15"] - means["search_5"] + means["readings"], 2), "questions": n}


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args(words)
    found = {name: measure(name, given.n) for name in SETS}
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
