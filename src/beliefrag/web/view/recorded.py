"""An episode of a run as the pages show it, with what its dataset adds: texts, gold answer, supporting passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import BaseModel

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.methods import METHODS
from beliefrag.record import Episode, Search, Step
from beliefrag.runs.record import RunRecord, thresholds_of
from beliefrag.types import Passage, Usage
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.schema import (
    AttemptView,
    CallView,
    CitationView,
    ComparisonView,
    DroppedView,
    EpisodeView,
    ErrorView,
    GoldView,
    NotAvailable,
    PassageView,
    SearchView,
    StepView,
    UsageView,
    ViewError,
    WayView,
    repairs_in_words,
)

__all__ = ["active_thresholds", "view_episode"]

_View = TypeVar("_View", bound=BaseModel)

_SWITCHES = {
    "conflict": "correct_conflict",
    "reliability": "correct_unreliable",
    "abstain_sufficiency": "abstain",
    "abstain_uncertainty": "abstain",
    "abstain_answerability": "abstain",
}
"""Thresholds that count only while something is switched on."""


def active_thresholds(thresholds: Mapping[str, float | bool | None]) -> dict[str, float]:
    """Return the thresholds that decide something, by name; those that are switched off are left out."""
    return {
        name: float(value)
        for name, value in thresholds.items()
        if value is not None and not isinstance(value, bool) and thresholds.get(_SWITCHES.get(name, ""), True)
    }


def view_episode(episode: Episode, number: int, run: RunRecord, datasets: RunDatasets) -> EpisodeView:
    """Return an episode of a run as the pages show it.

    Args:
        episode: The episode.
        number: Its number in the index.
        run: The run's record.
        datasets: The run's datasets, as far as they are on this machine.

    Raises:
        ViewError: The episode contradicts itself.
    """
    key = episode.key
    notes: list[str] = []
    passages: Mapping[str, Passage] = {}
    labelled: LabelledQuestion | None = None
    try:
        dataset = datasets.get(key.dataset)
        notes += [dataset.note] if dataset.note else []
        passages, labelled = dataset.passages, dataset.questions.get(key.question_id)
    except NotAvailable as missing:
        notes.append(str(missing))
    question = labelled.question.text if labelled else None
    gold = labelled.gold if labelled else None
    supporting = gold.supporting if gold else None
    made_with = {"verifier": run.verifier, "retriever": run.searched_with}
    error = episode.error
    return _copy(
        EpisodeView,
        episode,
        origin="run",
        id=number,
        method=key.method,
        method_title=METHODS.title(key.method),
        dataset=key.dataset,
        question_id=key.question_id,
        seed=key.seed,
        model=run.model,
        made_with=made_with | ({"calibration": run.calibrations[0].name} if run.calibrations else {}),
        question=question,
        error=_copy(ErrorView, error) if error else None,
        usage=_view_usage(episode.usage),
        seconds=episode.timing.model_seconds,
        budget=run.budget,
        thresholds=active_thresholds(asdict(thresholds_of(run))),
        steps=tuple(_view_step(step, question) for step in episode.steps),
        calls=tuple(_view_calls(episode, number)),
        citations=tuple(_copy(CitationView, each) for each in episode.citations),
        passages={each: _view_passage(passages.get(each)) for each in _passage_ids(episode, supporting or ())},
        gold=GoldView(answers=tuple(gold.answers), supporting=tuple(supporting) if supporting is not None else None)
        if gold
        else None,
        notes=tuple(notes),
        licence=run.datasets[key.dataset].licence if key.dataset in run.datasets else "",
    )


def _view_step(step: Step, question: str | None) -> StepView:
    search, attempt = step.search, step.attempt
    return _copy(
        StepView,
        step,
        step=step.number,
        comparisons=tuple(_copy(ComparisonView, each) for each in step.comparisons),
        diagnostics=asdict(step.diagnostics) if step.diagnostics else None,
        belief=asdict(step.belief) if step.belief else None,
        attempt=_copy(AttemptView, attempt, f1=attempt.scores.get("f1")) if attempt else None,
        search=_view_search(search, question) if search else None,
        # The reason for a removal is the reason of the step that removed it.
        dropped=tuple(DroppedView(id=each, why=step.reason) for each in step.dropped or ()),
    )


def _view_search(search: Search, question: str | None) -> SearchView:
    query = question if search.is_question else search.query
    ways = {each: _copy(WayView, by) for each, by in search.found_by.items()}
    return _copy(SearchView, search, query=query, found_by=ways)


def _view_calls(episode: Episode, number: int) -> Iterator[CallView]:
    timing, count = episode.timing, len(episode.calls)
    columns = {"seconds": timing.calls, "at": timing.ends, "cached": timing.cached}
    for values in columns.values():
        if values is not None and len(values) != count:
            raise ViewError(
                f"Episode {number} of the run cannot be shown: it has {count} calls and {len(values)} times."
            )
    for place, call in enumerate(episode.calls):
        times = {name: None if values is None else values[place] for name, values in columns.items()}
        yield _copy(CallView, call, repairs=repairs_in_words(call.repairs), **times)


def _view_usage(usage: Usage) -> UsageView:
    return _copy(UsageView, usage, by_purpose={name: _view_usage(part) for name, part in usage.by_purpose.items()})


def _copy(kind: type[_View], value: object, **others: Any) -> _View:
    """Make a view from the attributes of the same names, apart from those that are given."""
    names = [name for name in kind.model_fields if name not in others and hasattr(value, name)]
    return kind(**{name: getattr(value, name) for name in names}, **others)


def _view_passage(passage: Passage | None) -> PassageView:
    return _copy(PassageView, passage) if passage else PassageView()


def _passage_ids(episode: Episode, supporting: tuple[str, ...] | frozenset[str]) -> list[str]:
    """Return every passage that the episode names, and those that support the gold answer."""
    found = dict.fromkeys(episode.sources)
    for step in episode.steps:
        if step.search is not None:
            for ids in (step.search.added, step.search.known, step.search.refused):
                found |= dict.fromkeys(ids)
        for ids in (step.dropped or (), step.evidence, step.flagged):
            found |= dict.fromkeys(ids)
        if step.search is not None:
            found |= dict.fromkeys(identifier for identifier, _ in step.search.hits)
    return list(found | dict.fromkeys(supporting))
