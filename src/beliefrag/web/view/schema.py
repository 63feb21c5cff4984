"""What the pages get: the record of an episode, and beside it what a reader needs. viewer/src/schema.ts mirrors it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

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


class PageModel(BaseModel):
    """What a page gets."""

    model_config = ConfigDict(frozen=True)


class GoldView(PageModel):
    """What is right about the question."""

    answers: tuple[str, ...]
    supporting: tuple[str, ...] | None


class EpisodeView(PageModel):
    """An episode, and what a reader needs to understand it."""

    origin: Literal["run", "trace", "page"]
    id: int = 0
    """Its number in the index of a run, 0 for a trace."""
    record: Episode
    method_title: str
    question: str | None
    """None if it was recorded by id and the dataset is not here."""
    reasons: tuple[str, ...]
    passages: Mapping[str, Passage | None]
    """Every passage that the episode names; None if its text is not here."""
    thresholds: Mapping[str, float]
    """The thresholds in force. One that is switched off is left out."""
    gold: GoldView | None = None
    notes: tuple[str, ...] = ()
    licence: str = ""


def view_record(
    record: Episode,
    origin: Literal["run", "trace", "page"],
    passages: Mapping[str, Passage] | None = None,
    gold: GoldView | None = None,
    **more: Any,
) -> EpisodeView:
    """Return an episode as the pages show it. Its own passages are shown unless others are given."""
    found = record.passages if passages is None else passages
    steps = tuple(step.model_copy(update={"passages": {}}) for step in record.steps)
    return EpisodeView(
        origin=origin,
        record=record.model_copy(update={"steps": steps}),
        method_title=METHODS.title(record.method) if record.method else "",
        question=record.question.text or None,
        reasons=tuple(describe_reason(step.reason, step.comparisons) for step in record.steps),
        passages={name: found.get(name) for name in (*_passage_ids(record), *(gold.supporting or () if gold else ()))},
        thresholds=_active_thresholds(record.thresholds),
        gold=gold,
        **more,
    )


def _passage_ids(episode: Episode) -> list[str]:
    found = [*episode.sources]
    for step in episode.steps:
        found += (*(step.dropped or ()), *step.evidence, *step.flagged)
        if (search := step.search) is not None:
            found += (*search.added, *search.known, *search.refused, *(name for name, _ in search.hits))
    return list(dict.fromkeys(found))


def _active_thresholds(thresholds: Mapping[str, float | bool | None]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in thresholds.items()
        if value is not None and not isinstance(value, bool) and thresholds.get(_SWITCHES.get(name, ""), True)
    }
