"""Measures the ranker of linked retrieval on each set when it was fitted on the other sets alone.

    python -m benchmarks.find.leave_one_out --out docs/results/leave_one_out.json
    python -m benchmarks.find.leave_one_out --retriever dense:weights=gte-small hybrid:weights=gte-small \
        --out docs/results/leave_one_out.json

    python -m benchmarks.find.leave_one_out --ranked other.json --out docs/results/leave_one_out.json

Each set is searched in its own corpus, by the questions that nothing was fitted on. Multi-hop sets: the share of the
supporting passages among the first five, and whether all of them are; the others: whether a passage with the answer is.
The file has the value of every question, by id, so that the numbers can be computed again. No language model is asked.
A file of another system's ranking has `set`, `system`, `ranked` (passage ids by question), `index_seconds` and
`search_milliseconds`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.bench import load_dataset
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.retrieval import RETRIEVERS, Bm25Index, PassageSource, open_retriever
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from beliefrag.retrieval.linked.ranking import load_ranker
from beliefrag.runs.statistics import mean_estimate
from beliefrag.types import Hit
from benchmarks.find.fit_ranker import collect_examples
from benchmarks.find.measures import Ranking, found_among, recall_among
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, MixedCorpus, data_folder, is_for_fitting, load_mixed_corpus
from benchmarks.find.ranker_fit import fit_ranker

FIRST = 5
_MOST = 500
LEFT_OUT = "linked, fitted on the other sets"
SHIPPED = "linked, as shipped"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, nargs="+", default=list(SETS))
    parser.add_argument("--retriever", nargs="+", default=[], help="measure these in place of the rankers")
    parser.add_argument(
        "--ranked", type=Path, nargs="+", default=[], help="measure these files in place of the rankers"
    )
    parser.add_argument("--rankers", type=Path, help="where to keep the fitted rankers")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    held: dict[str, Any] = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
    for path in chosen.ranked:
        given = json.loads(path.read_text("utf-8"))
        dataset = load_dataset(data_folder() / given["set"])
        mixed = MixedCorpus({passage.id: passage for passage in dataset.passages}, {dataset.name: dataset.questions})
        ranked = {question: [(one, 0.0) for one in ids] for question, ids in given["ranked"].items()}
        times = {name: given[name] for name in ("index_seconds", "search_milliseconds")}
        found = {"values": _values(dataset.name, mixed, ranked), **times}
        held[dataset.name]["systems"][given["system"]] = found
    if chosen.ranked:
        chosen.out.write_text(json.dumps(held, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return
    examples = {} if chosen.retriever else collect_examples(load_mixed_corpus())
    for name in chosen.set:
        dataset = load_dataset(data_folder() / name)
        mixed = MixedCorpus({passage.id: passage for passage in dataset.passages}, {name: dataset.questions})
        began = time.process_time()
        index = Bm25Index.in_memory(dataset.passages)
        bm25_seconds = time.process_time() - began
        systems: dict[str, tuple[Callable[[str, int], Sequence[Hit]], float]] = {}
        if chosen.retriever:
            paid: dict[str, float] = {}
            for text in chosen.retriever:
                began = time.process_time()
                source = PassageSource(passages=list(dataset.passages))
                opened = open_retriever(RETRIEVERS.choose(text, {}), source)
                # A retriever pays for the vectors that it needs, even if one before it made them.
                seconds = paid.setdefault(text.partition(":")[2], time.process_time() - began)
                systems[text] = opened.search, seconds
        else:
            others = [one for other, own in examples.items() if other != name for one in own]
            about = {"fitted_on": ", ".join(each for each in examples if each != name)}
            ranker = fit_ranker(others, name=f"without {name}", about=about)
            if chosen.rankers:
                chosen.rankers.mkdir(parents=True, exist_ok=True)
                ranker.save(chosen.rankers / f"without_{name}.npz")
            began = time.process_time()
            graph = graph_in_memory(index)
            seconds = bm25_seconds + time.process_time() - began
            systems["bm25"] = index.search, bm25_seconds
            systems[LEFT_OUT] = LinkedRetriever(index, graph, ranker).search, seconds
            systems[SHIPPED] = LinkedRetriever(index, graph, load_ranker()).search, seconds
        own = held.setdefault(name, {})
        own |= {"passages": len(dataset.passages)}
        for system, (search, seconds) in systems.items():
            own.setdefault("systems", {})[system] = found = measure(name, mixed, search, seconds)
            shown = {each: mean_estimate(values) for each, values in found["values"].items()}
            print(name, system, {each: (e.value, e.low, e.high) for each, e in shown.items()}, flush=True)
        chosen.out.write_text(json.dumps(held, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def measure(
    name: str, mixed: MixedCorpus, search: Callable[[str, int], Sequence[Hit]], seconds: float
) -> dict[str, Any]:
    """Return the values of one system by question, and its processor time."""
    ranked, took = {}, []
    for each in questions_of(name, mixed):
        began = time.process_time()
        ranked[each.id] = [(hit.passage.id, 0.0) for hit in search(each.question.text, FIRST)]
        took.append(time.process_time() - began)
    return {
        "values": _values(name, mixed, ranked),
        "index_seconds": round(seconds, 2),
        "search_milliseconds": round(1000 * sorted(took)[len(took) // 2], 2),
    }


def questions_of(name: str, mixed: MixedCorpus) -> list[LabelledQuestion]:
    """Return the questions of a set that nothing was fitted on."""
    return [each for each in mixed.questions[name] if not is_for_fitting(name, each)][:_MOST]


def _values(
    name: str, mixed: MixedCorpus, ranked: Mapping[str, Sequence[tuple[str, float]]]
) -> dict[str, dict[str, float]]:
    ranking, questions = Ranking("", "", {name: ranked}), questions_of(name, mixed)
    values = {"found": {each.id: found_among(ranking, name, each, mixed, FIRST) for each in questions}}
    if name in MULTI_HOP:
        values["recall"] = {each.id: round(recall_among(ranking, name, each, FIRST), 4) for each in questions}
    return values


if __name__ == "__main__":
    main()
