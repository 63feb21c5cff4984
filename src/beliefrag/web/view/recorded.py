"""An episode of a run as the pages show it, with what its dataset adds: texts, gold answer, supporting passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.methods import METHODS
from beliefrag.runs.episode import Episode, Step
from beliefrag.runs.record import RunRecord
from beliefrag.types import Passage, Usage
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.schema import (
    AttemptView,
    CallView,
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
    repairs_in_words,
)

__all__ = ["active_thresholds", "view_episode"]

_SWITCHES = {
    "conflict": "correct_conflict",
    "reliability": "correct_unreliable",
    "abstain_sufficiency": "abstain",
    "abstain_uncertainty": "abstain",
    "abstain_answerability": "abstain",
}
"""Thresholds that count only while something is switched on."""


def active_thresholds(thresholds: Mapping[str, float | bool | None]) -> dict[str, float]:
    """Gives the thresholds that decide something, by name; those that are switched off are left out."""
    return {
        name: float(value)
        for name, value in thresholds.items()
        if value is not None and not isinstance(value, bool) and thresholds.get(_SWITCHES.get(name, ""), True)
    }


def view_episode(episode: Episode, number: int, run: RunRecord, datasets: RunDatasets) -> EpisodeView:
    """Gives an episode of a run as the pages show it.

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
    made_with = {"verifier": run.verifier, "retriever": run.retriever}
    error = episode.error
    return EpisodeView(
        origin="run",
        id=number,
        method=key.method,
        method_title=METHODS.title(key.method),
        dataset=key.dataset,
        question_id=key.question_id,
        seed=key.seed,
        model=run.model,
        made_with=made_with | ({"calibration": run.calibration.name} if run.calibration else {}),
        question=question,
        outcome=episode.outcome,
        answer=episode.answer,
        reason=episode.reason,
        error=ErrorView(cause=error.cause, message=error.message, remedy=error.remedy) if error else None,
        answerability=episode.answerability,
        metrics=episode.metrics,
        usage=_view_usage(episode.usage),
        seconds=episode.timing.model_seconds,
        budget=run.budget,
        thresholds=active_thresholds(run.thresholds),
        sources=episode.sources,
        steps=tuple(_view_step(step, question) for step in episode.steps),
        calls=tuple(_view_calls(episode, number)),
        passages={each: _view_passage(passages.get(each)) for each in _passage_ids(episode, supporting or ())},
        gold=GoldView(answers=tuple(gold.answers), supporting=tuple(supporting) if supporting is not None else None)
        if gold
        else None,
        notes=tuple(notes),
        licence=run.datasets[key.dataset].licence if key.dataset in run.datasets else "",
    )


def _view_step(step: Step, question: str | None) -> StepView:
    search, attempt = step.search, step.attempt
    return StepView(
        step=step.number,
        action=step.action,
        branch=step.branch,
        reason=step.reason,
        comparisons=tuple(
            ComparisonView(
                name=each.name, value=each.value, relation=each.relation, threshold=each.threshold, holds=each.holds
            )
            for each in step.comparisons
        ),
        legal=tuple(step.legal),
        diagnostics=asdict(step.diagnostics) if step.diagnostics else None,
        belief=asdict(step.belief) if step.belief else None,
        answerability=step.answerability,
        retrieval_value=step.retrieval_value,
        tokens=step.tokens,
        flagged=step.flagged,
        attempt=AttemptView(answer=attempt.answer, tokens=attempt.tokens, f1=attempt.scores.get("f1"))
        if attempt
        else None,
        search=SearchView(
            query=question if search.is_question else search.query,
            is_question=search.is_question,
            hits=search.hits,
            added=search.added,
            known=search.known,
            refused=search.refused,
        )
        if search
        else None,
        rewritten=step.rewritten,
        # The reason for a removal is the reason of the step that removed it.
        dropped=tuple(DroppedView(id=each, why=step.reason) for each in step.dropped or ()),
        evidence=step.evidence,
    )


def _view_calls(episode: Episode, number: int) -> Iterator[CallView]:
    seconds = episode.timing.calls
    if seconds is not None and len(seconds) != len(episode.calls):
        raise ViewError(
            f"Episode {number} of the run cannot be shown: it has {len(episode.calls)} calls and {len(seconds)} times."
        )
    for place, call in enumerate(episode.calls):
        yield CallView(
            step=call.step,
            purpose=call.purpose,
            reply=call.reply,
            tokens_in=call.tokens_in,
            tokens_out=call.tokens_out,
            counted_by=call.counted_by,
            retries=call.retries,
            repairs=repairs_in_words(call.repairs),
            seconds=seconds[place] if seconds is not None else None,
        )


def _view_usage(usage: Usage) -> UsageView:
    names = ("calls", "tokens", "tokens_in", "tokens_out", "retries", "wasted_tokens", "searches")
    purposes = {purpose: _view_usage(part) for purpose, part in (usage.by_purpose or {}).items()}
    return UsageView(**{name: getattr(usage, name) for name in names}, by_purpose=purposes)


def _view_passage(passage: Passage | None) -> PassageView:
    return PassageView(title=passage.title, text=passage.text, source=passage.source) if passage else PassageView()


def _passage_ids(episode: Episode, supporting: tuple[str, ...] | frozenset[str]) -> list[str]:
    """Gives every passage that the episode names, and those that support the gold answer."""
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
