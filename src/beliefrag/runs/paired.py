"""Two methods of one run on the same questions: the paired difference in F1 and in tokens, together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from beliefrag.methods import METHODS
from beliefrag.runs.cells import values_of
from beliefrag.runs.episode import EpisodeSummary
from beliefrag.runs.errors import RunError, UnequalQuestions
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import PairedComparison, compare

__all__ = ["DatasetComparison", "compare_methods", "lacking"]


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """How two methods compare on one dataset."""

    dataset: str
    quality: str
    """The measure of quality: `f1`, or `answer_row_recall` for questions about sets of rows."""
    paired: PairedComparison


def compare_methods(
    run: RunRecord, episodes: Collection[EpisodeSummary], first: str, second: str, *, allow_unequal: bool = False
) -> list[DatasetComparison]:
    """The paired differences, first minus second, for each dataset of a run.

    Args:
        run: Its record.
        episodes: Its latest ones.
        first: A method of the run.
        second: Another one.
        allow_unequal: Compare on the questions that both finished, and list the others. A dataset without any is left
            out.

    Raises:
        RunError: The run does not have a method, the two are one, or there is no question that both finished.
        UnequalQuestions: They did not finish the same questions, and that was not allowed.
    """
    if first == second:
        raise RunError(f"{first} would be compared with itself.", remedy="Name two methods of the run.")
    own = [method for method in METHODS if method in run.methods]
    for method in (first, second):
        if method not in own:
            raise RunError(
                f"The run has no method {method!r} to compare.",
                remedy=f"It has {', '.join(own) or 'none: only states'}.",
            )
    found: list[DatasetComparison] = []
    for dataset, record in run.datasets.items():
        asked = set(record.question_ids)
        here = [e for e in episodes if e.key.dataset == dataset and e.key.question_id in asked]
        sides = [[episode for episode in here if episode.key.method == method] for method in (first, second)]
        quality = "f1" if any(values_of(side, "f1") for side in sides) else "answer_row_recall"
        one, other = (_measures(side, quality) for side in sides)
        if set(one["tokens"]) & set(other["tokens"]):
            found.append(DatasetComparison(dataset, quality, compare(one, other, allow_unequal=allow_unequal)))
        elif not allow_unequal:
            raise UnequalQuestions(
                f"{first} and {second} share no finished question of {dataset}.",
                remedy="Finish the run, or allow unequal question sets to leave this dataset out.",
            )
    if not found:
        raise RunError(f"{first} and {second} share no finished question.", remedy="Finish the run first.")
    return found


def lacking(run: RunRecord, episodes: Collection[EpisodeSummary], *methods: str) -> str:
    """What a reader of these methods' numbers must know first; empty where all that was asked for has finished."""
    methods = tuple(method for method in dict.fromkeys(methods) if method in run.methods)
    asked = {(dataset, each) for dataset, record in run.datasets.items() for each in record.question_ids}
    own = [e for e in episodes if e.key.method in methods and (e.key.dataset, e.key.question_id) in asked]
    total, failed = len(methods) * len(asked), sum(not episode.finished for episode in own)
    if len(own) == total and not failed:
        return ""
    names = " and ".join(METHODS.title(method) for method in methods)
    return f"INCOMPLETE: of {total:,} episodes of {names} {total - len(own):,} are missing and {failed:,} failed."


def _measures(episodes: list[EpisodeSummary], quality: str) -> Mapping[str, Mapping[str, float]]:
    return {name: values_of(episodes, name) for name in (quality, "tokens")}
