"""Fits the ranker that ships, on the questions of the mixed corpus that are for fitting.

python -m benchmarks.find.fit_ranker --out src/beliefrag/retrieval/linked/ranker.npz
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from benchmarks.find.mixed_corpus import (
    MULTI_HOP,
    SETS,
    MixedCorpus,
    contains_answer,
    is_for_fitting,
    load_mixed_corpus,
)
from benchmarks.find.ranker_fit import RankerExample, collect_example, fit_ranker, unfitted_ranker

WEIGHTS = {"hotpotqa": 1.0, "2wikimultihopqa": 1.2, "musique": 2.0, "nq": 1.0, "triviaqa": 0.7, "popqa": 0.7}
"""How much a question of each set counts: MuSiQue has the fewest questions and the hardest."""


@dataclass(frozen=True, slots=True)
class _AnswerLookup:
    """Judge by its id whether a passage holds an answer to the question."""

    mixed: MixedCorpus
    question: LabelledQuestion

    def __call__(self, passage_id: str) -> bool:
        passage = self.mixed.passages[passage_id]
        return contains_answer(self.question, [f"{passage.title}. {passage.text}"])


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=int, default=1000, help="questions of each set")
    parser.add_argument("--leave-out", default="", help="a set that no question is taken from")
    chosen = parser.parse_args()
    examples = collect_examples(load_mixed_corpus(), chosen.most)
    examples.pop(chosen.leave_out, None)
    about = {
        "fitted_on": {name: f"{len(own)} questions" for name, own in examples.items()},
        "parts": "train questions of HotpotQA and MuSiQue, xfit questions of the others",
    }
    fit_ranker([one for own in examples.values() for one in own], name="wiki", about=about).save(chosen.out)


def collect_examples(mixed: MixedCorpus, most: int = 1000) -> dict[str, list[RankerExample]]:
    """Return the candidates of the questions for fitting, by set, at most so many of each."""
    index = Bm25Index.in_memory(mixed.passages.values())
    retriever = LinkedRetriever(index, graph_in_memory(index), unfitted_ranker())
    examples: dict[str, list[RankerExample]] = {}
    for name in SETS:
        questions = [each for each in mixed.questions[name] if is_for_fitting(name, each)][:most]
        began = time.perf_counter()
        examples[name] = []
        for each in questions:
            holds_answer = _AnswerLookup(mixed, each)
            needed = set(each.gold.supporting or ())
            if name not in MULTI_HOP:
                # A supporting passage of these sets was found by machine: it counts where it holds the answer.
                needed = set(filter(holds_answer, needed))
            example = collect_example(
                retriever,
                each.question.text,
                needed,
                may_help=(lambda _: False) if name in MULTI_HOP else holds_answer,
                weight=WEIGHTS[name],
            )
            if example is not None:
                examples[name].append(example)
        print(f"{name}: {len(questions)} questions, {time.perf_counter() - began:.0f} s", flush=True)
    return examples


if __name__ == "__main__":
    main()
