"""Makes the `Episode` of a benchmark question from the result of playing it: its scores, its cost and its steps.

Passages are named by id, and a search for the question's own words is marked as such: a run's file holds no benchmark
text apart from what models wrote. Whatever depends on the clock or on the state of the cache is in `Timing` alone, so
that two runs can be compared without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from beliefrag import events
from beliefrag.bench.metrics import answer_scores, retained_at_the_end, rows_read, score
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.outcome import Abstained, Answered, Failed, Stopped
from beliefrag.result import Result
from beliefrag.runs.episode import Episode, EpisodeError, EpisodeKey, ModelCall, Search, Step, Timing, TrialAnswer
from beliefrag.runs.record import now
from beliefrag.types import Attempt, Usage

__all__ = ["score_episode"]


def score_episode(result: Result, labelled: LabelledQuestion, key: EpisodeKey) -> Episode:
    """The episode, not yet judged. A failed one has no metrics."""
    outcome = result.outcome
    steps = tuple(_steps(result, labelled))
    calls = [event for event in result.events if isinstance(event, events.CallFinished)]
    metrics: dict[str, float | None] = {}
    error: EpisodeError | None = None
    reason = outcome.reason
    if isinstance(outcome, Answered | Stopped | Abstained):
        scores = asdict(score(outcome, labelled.gold, retained_at_the_end(result)))
        metrics = {**scores, "judge": None, "rounds": outcome.usage.searches, "actions": len(steps)}
        metrics |= rows_read(result, labelled.gold)
    if isinstance(outcome, Failed):
        reason = _without_question(outcome.error, labelled)
        error = EpisodeError(outcome.cause, reason, outcome.remedy)
    return Episode(
        key=key,
        outcome=outcome.name,
        answer=result.answer,
        metrics=metrics,
        usage=_untimed(outcome.usage),
        reason=reason,
        answerability=outcome.answerability,
        sources=tuple(passage.id for passage in outcome.sources),
        steps=steps,
        calls=tuple(_call(event) for event in calls),
        error=error,
        timing=Timing(
            model_seconds=round(outcome.usage.seconds, 4),
            finished=now(),
            seconds=result.events[-1].at,
            cached_calls=outcome.usage.cached_calls,
            calls=tuple(round(event.seconds, 4) for event in calls),
        ),
    )


def _steps(result: Result, labelled: LabelledQuestion) -> Iterator[Step]:
    """One step for each decision, with what the events after it say that it changed."""
    step: Step | None = None
    for event in result.events:
        if isinstance(event, events.Decided):
            if step is not None:
                yield step
            step = _decided(event, labelled)
        elif step is None:
            continue
        elif isinstance(event, events.Retrieved):
            step = replace(step, search=_search(event, result.question.text), evidence=event.evidence)
        elif isinstance(event, events.Rewritten):
            step = replace(step, rewritten=event.after, evidence=event.evidence)
        elif isinstance(event, events.Pruned):
            dropped = tuple(mutation.passage_id for mutation in event.mutations)
            step = replace(step, dropped=dropped, evidence=event.evidence)
        elif isinstance(event, events.Finished) and not _is_carried_out(step):
            # The action that ended the episode, or one that failed before it changed anything.
            step = replace(step, evidence=tuple(passage.id for passage in event.outcome.sources))
    if step is not None:
        yield step


def _is_carried_out(step: Step) -> bool:
    return step.search is not None or step.rewritten is not None or step.dropped is not None


def _decided(event: events.Decided, labelled: LabelledQuestion) -> Step:
    decision = event.decision
    return Step(
        number=event.step,
        action=decision.action,
        branch=decision.branch,
        reason=decision.reason,
        comparisons=decision.comparisons,
        legal=decision.legal,
        diagnostics=event.diagnostics,
        belief=event.belief,
        answerability=event.answerability,
        retrieval_value=event.retrieval_value,
        tokens=event.tokens,
        flagged=event.observation.unhelpful if event.observation else (),
        attempt=_trial(event.attempt, labelled) if event.attempt else None,
        evidence=(),
    )


def _trial(attempt: Attempt, labelled: LabelledQuestion) -> TrialAnswer:
    if labelled.gold.is_set:
        return TrialAnswer(attempt.answer, attempt.tokens)
    scores = answer_scores(attempt.answer, labelled.gold)
    return TrialAnswer(attempt.answer, attempt.tokens, dict(zip(("exact_match", "f1", "cover"), scores, strict=True)))


def _search(event: events.Retrieved, question: str) -> Search:
    is_question = event.query == question
    return Search(
        query=None if is_question else event.query,
        is_question=is_question,
        hits=tuple((hit.passage.id, hit.score) for hit in event.hits),
        added=event.added,
        known=event.known,
        refused=event.refused,
    )


def _call(event: events.CallFinished) -> ModelCall:
    return ModelCall(
        step=event.step,
        purpose=event.purpose,
        reply=event.reply,
        tokens_in=event.tokens_in,
        tokens_out=event.tokens_out,
        counted_by=event.counted_by,
        retries=event.retries,
        repairs=dict(event.repairs),
    )


def _untimed(usage: Usage) -> Usage:
    parts = {purpose: _untimed(part) for purpose, part in usage.by_purpose.items()}
    return replace(usage, seconds=0.0, cached_calls=0, by_purpose=parts)


def _without_question(message: str, labelled: LabelledQuestion) -> str:
    text = labelled.question.text
    return message.replace(text, "[question]").replace(text[:80], "[question]")
