"""Measures how often a comparison of dates decides a question, and how often it is right. No model is asked.

    python -m benchmarks.compare_dates [--fitted] [--out FILE]

Each set is searched in its own corpus by linked retrieval, five passages a question. `--fitted` takes the questions
that the rules were written with (train questions of HotpotQA and MuSiQue, xfit of the other sets); without it none
of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from beliefrag.bench import load_dataset
from beliefrag.bench.metrics import token_f1
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.comparing import compare_dates
from benchmarks.decide.runs import SPLITS
from benchmarks.find.mixed_corpus import SETS, data_folder, is_for_fitting

_DEPTH = 5
_RIGHT = 0.5
"""An answer counts as right from this token F1 on, as in the calibrations."""


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fitted", action="store_true", help="the questions that the rules were written with")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    counts = {name: _count(name, is_fitted=chosen.fitted) for name in SETS}
    text = json.dumps(counts, indent=1)
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


def _count(name: str, *, is_fitted: bool) -> dict[str, int]:
    dataset = load_dataset(data_folder() / name)
    retriever = open_retriever(RETRIEVERS.choose("linked", {}), PassageSource(passages=list(dataset.passages)))
    questions = [
        each
        for each in dataset.questions
        if is_for_fitting(name, each) is is_fitted and (is_fitted or each.split in SPLITS)
    ]
    right = wrong = 0
    for each in questions:
        passages = [hit.passage for hit in retriever.search(each.question.text, _DEPTH)]
        decided = compare_dates(each.question.text, passages)
        if decided is None:
            continue
        if token_f1(decided.answer, each.gold.answers) >= _RIGHT:
            right += 1
        else:
            wrong += 1
            print(f"{name} {each.id}: {decided.compared}")
    return {"questions": len(questions), "decided": right + wrong, "right": right}


if __name__ == "__main__":
    main()
