"""What corrections of the paper's controller do to the evidence, which branches decide, and who repeats a search.

    python -m benchmarks.correction_steps --runs replayed --json docs/results/correction_steps.json

`--runs` is a folder with the runs `paper`, `bm25` and `others` of `python -m benchmarks.decide`, made or replayed.
Recall is the share of a question's supporting passages that are retained, as a mean over questions whose episode has a
correction; Iterative's is on the same questions. No model is asked.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets import load_dataset
from beliefrag.engine.calls import is_repeated
from beliefrag.record import Episode
from beliefrag.runs.run_files import read_episode_at, read_lines
from beliefrag.types import Action
from benchmarks.find.mixed_corpus import MULTI_HOP, data_folder

__all__ = ["count_branches", "count_repeats", "follow_corrections", "repeats_a_search"]

Gold = Mapping[tuple[str, str], frozenset[str]]
"""The supporting passages of each question, by dataset and id."""

_CHAIN = (Action.RETRIEVE, Action.VERIFY, Action.REWRITE, Action.RETRIEVE)
_SEARCHES = 3


def follow_corrections(corrected: Iterable[Episode], iterative: Iterable[Episode], gold: Gold) -> dict[str, Any]:
    """Return the recall at each step of the first correction, and of Iterative's searches on the same questions."""
    own: dict[tuple[str, str], list[float]] = {}
    for episode in corrected:
        if tuple(step.action for step in episode.steps[: len(_CHAIN)]) == _CHAIN:
            recalls = _recalls(episode, gold)
            own[_name(episode)] = [recalls[0], recalls[1], recalls[3]]
    others = {
        _name(episode): [
            recall
            for recall, step in zip(_recalls(episode, gold), episode.steps, strict=True)
            if step.action is Action.RETRIEVE
        ]
        for episode in iterative
        if _name(episode) in own
    }
    compared = {name: recalls for name, recalls in others.items() if len(recalls) == _SEARCHES}
    return {
        "n": len(own),
        "first search, dropping, second search": _means(own.values()),
        "iterative, three searches": {"n": len(compared), "recall": _means(compared.values())},
    }


def count_branches(episodes: Iterable[Episode]) -> dict[str, int]:
    """Count which branch of the policy decided a step."""
    return dict(Counter(step.branch for episode in episodes for step in episode.steps).most_common())


def count_repeats(episodes: Iterable[Episode]) -> dict[str, int]:
    """Count the episodes in which a later search asks for the words of an earlier one, or the model wanted it to."""
    episodes = list(episodes)
    return {
        "episodes": len(episodes),
        "with a repeated search": sum(map(repeats_a_search, episodes)),
        "with a repeated search that was replaced": sum(map(_was_kept_from_repeating, episodes)),
    }


def repeats_a_search(episode: Episode) -> bool:
    """Return whether a later search asks for the words of an earlier one."""
    made: list[str] = []
    for step in episode.steps:
        if step.search is not None and step.search.was_made:
            # The question itself is not kept, and stands as no words.
            query = step.search.query or ""
            if is_repeated(query, made):
                return True
            made.append(query)
    return False


def _was_kept_from_repeating(episode: Episode) -> bool:
    return any(call.repairs.get("repeated_queries") for call in episode.calls)


def _name(episode: Episode) -> tuple[str, str]:
    return episode.key.dataset, episode.key.question_id


def _recalls(episode: Episode, gold: Gold) -> list[float]:
    """Return the recall after each step."""
    needed = gold[_name(episode)]
    return [len(needed.intersection(step.evidence)) / len(needed) for step in episode.steps]


def _means(recalls: Iterable[Sequence[float]]) -> list[float]:
    return [round(statistics.fmean(column), 3) for column in zip(*recalls, strict=True)]


def _read(folder: Path, method: str) -> list[Episode]:
    lines = (line for line in read_lines(folder) if line.summary.finished)
    own = (line for line in lines if line.summary.key.method == method and line.summary.key.dataset in MULTI_HOP)
    return [read_episode_at(folder, line.offset) for line in own]


def _read_gold() -> Gold:
    return {
        (name, labelled.question.id): frozenset(labelled.gold.supporting or ())
        for name in MULTI_HOP
        for labelled in load_dataset(data_folder() / name).questions
    }


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    paper, iterative = _read(given.runs / "paper", "beliefrag"), _read(given.runs / "bm25", "iterative")
    found = {
        "recall": follow_corrections(paper, iterative, _read_gold()),
        "branches": count_branches(paper),
        "repeats": {
            "beliefrag": count_repeats(paper),
            "iterative": count_repeats(iterative),
            "crag": count_repeats(_read(given.runs / "others", "crag")),
        },
    }
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
