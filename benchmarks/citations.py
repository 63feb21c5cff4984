"""How many answers of a run cite all the passages that support them, beside the passages that were merely read.

    python -m benchmarks.citations RUN [RUN ...]
    python -m benchmarks.citations --gold --n 200

The first form looks at the right answers (F1 of at least 0.5) of recorded runs. An episode from before citations were
kept is cited now, from the answer and the passages that were read. The second form needs no run: it cites for the gold
answer from what a search found together with the supporting passages, on dev questions that nothing was chosen on.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from beliefrag.answering.citing import choose_citations
from beliefrag.bench import load_dataset
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.record import Episode
from beliefrag.retrieval import Bm25Index
from beliefrag.runs.run_files import read_episodes
from beliefrag.runs.statistics import mean_estimate
from beliefrag.types import Passage
from benchmarks.find.mixed_corpus import MULTI_HOP, data_folder, is_for_fitting

__all__ = ["CitedShares", "measure_citations", "measure_run"]

_RIGHT = 0.5
_READ = 8
_MEASURES = (
    "all supporting cited",
    "share of supporting cited",
    "share of cited that support",
    "all supporting read",
    "share of read that support",
)


class CitedShares(NamedTuple):
    """What the citations of one answer are worth, each from 0 to 1."""

    all_cited: float
    recall: float
    precision: float
    all_read: float
    """Whether the passages that were read held all that is needed: no citation can do better."""
    read_precision: float
    """What the precision would be if every passage that was read were listed as a source, as it once was."""


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="folders of recorded runs")
    parser.add_argument("--gold", action="store_true", help="cite for the gold answers, without a run")
    parser.add_argument("--n", type=int, default=200, help="how many questions of each set --gold takes")
    chosen = parser.parse_args()
    for run in chosen.runs:
        for (dataset, method), values in sorted(measure_run(run, data_folder()).items()):
            _print_row(f"{run.name} {dataset} {method}", values)
    if chosen.gold:
        for name in MULTI_HOP:
            _print_row(f"gold answers {name}", dict(_measure_gold(name, chosen.n)))


def measure_citations(cited: Sequence[str], read: Sequence[str], supporting: Sequence[str]) -> CitedShares:
    """Compare the ids of the passages cited and read with those that support the answer."""
    wanted = set(supporting)
    found = wanted.intersection(cited)
    precision = len(found) / len(set(cited)) if cited else 0.0
    listed = len(wanted.intersection(read)) / len(set(read)) if read else 0.0
    return CitedShares(float(found == wanted), len(found) / len(wanted), precision, float(wanted <= set(read)), listed)


def measure_run(run: Path, data: Path) -> dict[tuple[str, str], dict[str, CitedShares]]:
    """Measure the right answers of a run by dataset and method, each by its question.

    Args:
        run: The folder of the run.
        data: The folder that holds the datasets.
    """
    sets: dict[str, tuple[Mapping[str, LabelledQuestion], Mapping[str, Passage]]] = {}
    found: dict[tuple[str, str], dict[str, CitedShares]] = defaultdict(dict)
    for episode in read_episodes(run):
        name = episode.key.dataset
        if name not in sets:
            loaded = load_dataset(data / name)
            sets[name] = ({each.id: each for each in loaded.questions}, {each.id: each for each in loaded.passages})
        questions, passages = sets[name]
        question = questions[episode.key.question_id]
        supporting = question.gold.supporting
        if supporting and episode.answer is not None and (episode.metrics.get("f1") or 0.0) >= _RIGHT:
            shares = measure_citations(_cited_ids(episode, question, passages), episode.sources, supporting)
            found[name, episode.key.method][question.id] = shares
    return found


def _cited_ids(episode: Episode, question: LabelledQuestion, passages: Mapping[str, Passage]) -> list[str]:
    if episode.citations:
        return [each.passage_id for each in episode.citations]
    read = [passages[each] for each in episode.sources if each in passages]
    return [each.passage_id for each in choose_citations(question.question.text, episode.answer or "", read)]


def _measure_gold(name: str, most: int) -> Iterator[tuple[str, CitedShares]]:
    dataset = load_dataset(data_folder() / name)
    by_id = {passage.id: passage for passage in dataset.passages}
    index = Bm25Index.in_memory(dataset.passages)
    unseen = [each for each in dataset.questions if each.split == "dev" and not is_for_fitting(name, each)]
    labelled = [each for each in unseen if each.gold.supporting][:most]
    for each in labelled:
        supporting = each.gold.supporting or ()
        hits = [hit.passage for hit in index.search(each.question.text, _READ)]
        others = [passage for passage in hits if passage.id not in supporting][: max(0, _READ - len(supporting))]
        # By id, so that the order tells nothing.
        read = sorted([*(by_id[identifier] for identifier in supporting), *others], key=lambda passage: passage.id)
        cited = choose_citations(each.question.text, each.gold.answers[0], read)
        ids = [one.passage_id for one in cited]
        yield each.id, measure_citations(ids, [one.id for one in read], supporting)


def _print_row(title: str, values: Mapping[str, CitedShares]) -> None:
    if not values:
        print(f"{title}: no right answers with supporting passages")
        return
    parts = []
    for at, measure in enumerate(_MEASURES):
        estimate = mean_estimate({question: shares[at] for question, shares in values.items()})
        low = "" if estimate.low is None else f" ({estimate.low:.2f}-{estimate.high:.2f})"
        parts.append(f"{measure} {estimate.value:.2f}{low}")
    print(f"{title}, {len(values)} answers: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
