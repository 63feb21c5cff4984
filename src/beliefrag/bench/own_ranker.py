"""Fits the ranker of linked retrieval on your own questions and documents, and measures whether it became better.

The needed passages of a question are those that its dataset names as supporting; without any, those that hold one of
its answers word for word. An answer that stands in many passages does not show which one is needed: such a question is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from beliefrag.bench.metrics import normalise
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.calibration.ranker_fit import collect_example, fit_ranker, unfitted_ranker
from beliefrag.retrieval import Bm25Index, Retriever
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from beliefrag.retrieval.linked.ranking import Ranker, load_ranker
from beliefrag.runs.partitions import select_held_out
from beliefrag.runs.statistics import Estimate, mean_estimate
from beliefrag.types import Passage

MOST_WITH_ANSWER = 5
"""Passages that may hold an answer before it is too common to show which one is needed."""
FIRST = 5


@dataclass(frozen=True, slots=True)
class OwnRanker:
    """A ranker for your own documents, and the numbers with and without it."""

    ranker: Ranker
    questions: int
    """Questions that it was fitted on."""
    left_out: int
    """Questions without a passage that is known to be needed."""
    found: Mapping[str, Estimate]
    """The share of held-out questions whose needed passages are among the first five: `bm25`, `shipped` and `own`.

    Empty where no question was held out.
    """


def fit_own_ranker(dataset: Dataset) -> OwnRanker:
    """Fit a ranker on the questions of a dataset that are not held out, and check it on those that are."""
    needed = needed_passages(dataset.questions, dataset.passages)
    known = [each for each in dataset.questions if needed[each.id]]
    reserved = set(select_held_out(each.id for each in known))
    index = Bm25Index.in_memory(dataset.passages)
    unfitted = LinkedRetriever(index, graph_in_memory(index), unfitted_ranker())
    gathered = [
        collect_example(unfitted, each.question.text, needed[each.id]) for each in known if each.id not in reserved
    ]
    examples = [each for each in gathered if each is not None]
    ranker = fit_ranker(
        examples, name=dataset.name, about={"fitted_on": f"{len(examples)} questions of {dataset.name}"}
    )
    systems: dict[str, Retriever] = {
        "bm25": index,
        "shipped": LinkedRetriever(index, unfitted.graph, load_ranker()),
        "own": LinkedRetriever(index, unfitted.graph, ranker),
    }
    checked = {each.id: each.question.text for each in known if each.id in reserved}
    found = {
        name: mean_estimate(
            {
                key: float(needed[key] <= {hit.passage.id for hit in system.search(text, FIRST)})
                for key, text in checked.items()
            }
        )
        for name, system in systems.items()
        if checked
    }
    return OwnRanker(ranker, len(examples), len(dataset.questions) - len(known), found)


def needed_passages(questions: Iterable[LabelledQuestion], passages: Iterable[Passage]) -> dict[str, frozenset[str]]:
    """Return the ids of the passages that each question needs; none where that is unknown."""
    texts = {passage.id: f" {normalise(f'{passage.title} {passage.text}')} " for passage in passages}
    found = {}
    for each in questions:
        named = frozenset(one for one in each.gold.supporting or () if one in texts)
        if not each.gold.supporting:
            answers = [f" {answer} " for answer in map(normalise, each.gold.answers) if answer]
            named = frozenset(one for one, text in texts.items() if any(answer in text for answer in answers))
            named = named if len(named) <= MOST_WITH_ANSWER else frozenset()
        found[each.id] = named
    return found
