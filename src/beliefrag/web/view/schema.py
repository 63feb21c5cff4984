"""What the pages get: the record of an episode, with what its run, its dataset and its readers need beside it.

`viewer/src/schema.ts` has the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from beliefrag.errors import BeliefRAGError
from beliefrag.explanation import describe_reason
from beliefrag.methods import METHODS
from beliefrag.record import Episode
from beliefrag.types import Passage

_SWITCHES = {
    "conflict": "correct_conflict",
    "reliability": "correct_unreliable",
    "abstain_sufficiency": "abstain",
    "abstain_uncertainty": "abstain",
    "abstain_answerability": "abstain",
}
"""Thresholds that count only while something is switched on."""


class ViewError(BeliefRAGError):
    """Something cannot be viewed, or the page cannot be served."""


class NotAvailable(BeliefRAGError):
    """A part of an episode was not recorded, or is not on this machine. The page says so in its place."""


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class PromptsView(_View):
    """The prompts of an episode's calls, in their order; or why they cannot be shown."""

    calls: tuple[tuple[Mapping[str, str], ...], ...] = ()
    source: str = ""
    """Where they came from, in words."""
    absent: str = ""
    """Why they are missing, and how to get them."""


class GoldView(_View):
    """What is right about the question."""

    answers: tuple[str, ...]
    supporting: tuple[str, ...] | None
    """None if they were not annotated."""


class EpisodeView(_View):
    """An episode without its prompts, and what a reader needs to understand it."""

    origin: Literal["run", "trace", "live"]
    id: int
    """Its number in the index of a run, 0 for a trace."""
    record: Episode
    method_title: str
    question: str | None
    """None if it was recorded by id and the dataset is not here."""
    reasons: tuple[str, ...]
    """The reason of each step in words."""
    passages: Mapping[str, Passage | None]
    """Every passage that the episode names; None if its text is not here."""
    thresholds: Mapping[str, float]
    """The thresholds in force. One that is switched off is left out."""
    gold: GoldView | None = None
    waiting: str = ""
    """What an episode under way waits for."""
    notes: tuple[str, ...] = ()
    """What is not shown, why, and how to get it."""
    licence: str = ""
    """The licence of the dataset that questions and passages are from."""


def view_record(
    record: Episode,
    origin: Literal["run", "trace", "live"],
    *,
    number: int = 0,
    passages: Mapping[str, Passage] | None = None,
    gold: GoldView | None = None,
    waiting: str = "",
    notes: Iterable[str] = (),
    licence: str = "",
) -> EpisodeView:
    """Return an episode as the pages show it. Its own passages are shown unless others are given."""
    found = record.passages if passages is None else passages
    named = (*_passage_ids(record), *(gold.supporting or () if gold else ()))
    calls = tuple(call.model_copy(update={"messages": ()}) for call in record.calls_before_failure)
    steps = (
        step.model_copy(
            update={"passages": {}, "calls": tuple(call.model_copy(update={"messages": ()}) for call in step.calls)}
        )
        for step in record.steps
    )
    return EpisodeView(
        origin=origin,
        id=number,
        record=record.model_copy(update={"steps": tuple(steps), "calls_before_failure": calls}),
        method_title=METHODS.title(record.method) if record.method else "",
        question=record.question.text or None,
        reasons=tuple(describe_reason(step.reason, step.comparisons) for step in record.steps),
        passages={name: found.get(name) for name in named},
        thresholds=_active_thresholds(record.thresholds),
        gold=gold,
        waiting=waiting,
        notes=tuple(notes),
        licence=licence,
    )


def view_prompts(episode: Episode, source: str) -> PromptsView:
    """Return the prompts that a record holds."""
    return PromptsView(calls=tuple(call.messages for call in episode.calls), source=source)


def _passage_ids(episode: Episode) -> list[str]:
    found = dict.fromkeys(episode.sources)
    for step in episode.steps:
        found |= dict.fromkeys((*(step.dropped or ()), *step.evidence, *step.flagged))
        if step.search is not None:
            found |= dict.fromkeys((*step.search.added, *step.search.known, *step.search.refused))
            found |= dict.fromkeys(identifier for identifier, _ in step.search.hits)
    return list(found)


def _active_thresholds(thresholds: Mapping[str, float | bool | None]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in thresholds.items()
        if value is not None and not isinstance(value, bool) and thresholds.get(_SWITCHES.get(name, ""), True)
    }
