"""What an episode is worth: answer metrics against gold, and how much of the needed evidence was found.

An abstention scores 0 on every answer metric. A failure has no score at all: the functions here do not take one.

`score_episode` makes the `Episode` of a question from the result of playing it. Passages are named by id there, and a
search for the question's own words is marked as such: a run's file holds no benchmark text apart from what models
wrote. Whatever depends on the clock or on the state of the cache is in `Timing` alone.
"""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from beliefrag import events
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.events import Decided, Retrieved
from beliefrag.outcome import Abstained, Answered, Failed, Stopped
from beliefrag.result import Result
from beliefrag.runs.episode import (
    CitedSpan,
    Episode,
    EpisodeError,
    EpisodeKey,
    ModelCall,
    Search,
    Step,
    Timing,
    TrialAnswer,
)
from beliefrag.runs.record import now
from beliefrag.types import Attempt, Usage

__all__ = [
    "Scores",
    "accepted_answers",
    "answer_row_recall",
    "answer_scores",
    "covers",
    "evidence_recall",
    "exact_match",
    "normalise",
    "recall_per_row_read",
    "retained_at_the_end",
    "rows_read",
    "score_episode",
    "score_outcome",
    "token_f1",
    "tokens",
]

_CLOSED = frozenset({"yes", "no", "noanswer"})
_COMBINATIONS = 64


@dataclass(frozen=True, slots=True)
class Scores:
    """The metrics of one episode, each in [0, 1]; None where a metric has no meaning for the question."""

    exact_match: float | None
    f1: float | None
    cover: float | None
    evidence_recall: float | None
    """None where no supporting passages are annotated."""
    answer_row_recall: float | None
    """For set-valued questions alone, which in turn have no exact match, F1 and cover."""


def score_outcome(outcome: Answered | Stopped | Abstained, gold: Gold, retained: Collection[str]) -> Scores:
    """Gives the scores of one episode that has ended.

    Args:
        outcome: How it ended.
        gold: What would have been right.
        retained: Ids of the passages retained at the end.

    Raises:
        TypeError: The episode failed. A failure is listed and tried again, never scored.
    """
    if not isinstance(outcome, Answered | Stopped | Abstained):
        raise TypeError(f"an episode that ended as {type(outcome).__name__} has no score")
    answer = None if isinstance(outcome, Abstained) else outcome.answer
    recall = evidence_recall(retained, gold.supporting)
    if gold.is_set:
        rows = 0.0 if answer is None else answer_row_recall(answer, gold.answers)
        return Scores(None, None, None, recall, rows)
    if answer is None:
        return Scores(0.0, 0.0, 0.0, recall, None)
    return Scores(*answer_scores(answer, gold), recall, None)


def answer_scores(answer: str, gold: Gold) -> tuple[float, float, float]:
    """Gives exact match, F1 and cover of an answer, where the question asks for one fact."""
    golds = accepted_answers(gold)
    return float(exact_match(answer, golds)), token_f1(answer, golds), float(covers(answer, gold))


def accepted_answers(gold: Gold) -> tuple[str, ...]:
    """Gives the answers that exact match and F1 compare with.

    Where an answer has several parts, naming one part is not an exact match: the parts are put together, one spelling
    each, in their order. (Only a few RGB questions have more than one part; at most 64 combinations are made.)
    """
    if len(gold.answer_groups) < 2:
        return gold.answers
    return tuple(" ".join(parts) for parts in itertools.islice(itertools.product(*gold.answer_groups), _COMBINATIONS))


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Says whether the prediction equals a gold answer after normalisation."""
    own = normalise(prediction)
    return any(own == normalise(gold) for gold in _some(golds))


def token_f1(prediction: str, golds: Sequence[str], *, closed_rule: bool = True) -> float:
    """Gives the best F1 over gold answers between the words of both, counting repeated words.

    Args:
        prediction: What the system said.
        golds: Accepted answers.
        closed_rule: HotpotQA's rule: where one side is exactly "yes", "no" or "noanswer", only equality counts, so
            "no" has nothing in common with "No Doubt". It is on for every dataset, so that one column means one
            thing; it changes nothing where neither side is such a word. Off, this is SQuAD's F1 to the letter.
    """
    return max(_f1(prediction, gold, closed_rule) for gold in _some(golds))


def covers(prediction: str, gold: Gold) -> bool:
    """Says whether the prediction contains a gold answer as a run of whole words, both normalised.

    Whole words, because plain substrings find "no" in "nothing" and "12" in "2012". Where an answer has several
    parts, every part must be there.
    """
    own = tokens(prediction)
    groups = gold.answer_groups or (tuple(_some(gold.answers)),)
    return all(any(_contains(own, tokens(spelling)) for spelling in group) for group in groups)


def evidence_recall(retained: Collection[str], supporting: Sequence[str] | None) -> float | None:
    """Gives the share of supporting passages among the retained ones; None where none are annotated."""
    wanted = set(supporting or ())
    return len(wanted & set(retained)) / len(wanted) if wanted else None


def answer_row_recall(prediction: str, rows: Sequence[str]) -> float:
    """Gives the share of distinct gold rows that the prediction contains, for answers that are sets.

    The columns of a row, separated by " | ", may stand anywhere in the prediction.
    """
    own = tokens(prediction)
    distinct = {tuple(words for column in row.split(" | ") if (words := tuple(tokens(column)))) for row in _some(rows)}
    return sum(bool(row) and all(_contains(own, column) for column in row) for row in distinct) / len(distinct)


def recall_per_row_read(mean_recall: float, mean_rows_read: float) -> float:
    """Gives row recall per row read, times 1,000: a method's mean recall divided by its mean number of rows."""
    if mean_rows_read <= 0:
        raise ValueError(f"recall per row read needs rows that were read, not {mean_rows_read:g}")
    return 1000 * mean_recall / mean_rows_read


def retained_at_the_end(result: Result) -> tuple[str, ...]:
    """Gives the ids of all passages retained when the last decision was made; the answer may have been shown fewer."""
    decided = [event for event in result.events if isinstance(event, Decided)]
    return decided[-1].evidence if decided else ()


def rows_read(result: Result, gold: Gold) -> dict[str, float]:
    """Counts the rows that a question needs, the distinct rows that were read, and the needed ones among them."""
    needed = set(gold.supporting or ())
    if not (gold.is_set and needed):
        return {}
    searches = (event for event in result.events if isinstance(event, Retrieved))
    read = {hit.passage.id for search in searches for hit in search.hits}
    return {
        "rows_needed": float(len(needed)),
        "rows_read": float(len(read)),
        "row_recall_read": len(needed & read) / len(needed),
    }


def _f1(prediction: str, gold: str, closed_rule: bool) -> float:
    own, right = tokens(prediction), tokens(gold)
    if closed_rule and own != right and not _CLOSED.isdisjoint((" ".join(own), " ".join(right))):
        return 0.0
    same = (Counter(own) & Counter(right)).total()
    if not same:
        return 0.0
    precision, recall = same / len(own), same / len(right)
    return 2 * precision * recall / (precision + recall)


def _contains(own: Sequence[str], wanted: Sequence[str]) -> bool:
    # A gold answer that is nothing but articles and punctuation leaves no word to look for; it is in nothing.
    size, words = len(wanted), list(wanted)
    return size > 0 and any(list(own[start : start + size]) == words for start in range(len(own) - size + 1))


def _some(golds: Sequence[str]) -> Sequence[str]:
    if not golds:
        raise ValueError("there is no gold answer to compare with")
    return golds


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Gives the text as the SQuAD evaluation compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def tokens(text: str) -> list[str]:
    """Gives the words of the normalised text, repeated ones as often as they occur."""
    return normalise(text).split()


def score_episode(result: Result, labelled: LabelledQuestion, key: EpisodeKey) -> Episode:
    """Makes the record of an episode from its events, not yet judged. A failed one has no metrics."""
    outcome = result.outcome
    steps = tuple(_steps(result, labelled))
    calls = [event for event in result.events if isinstance(event, events.CallFinished)]
    metrics: dict[str, float | None] = {}
    error: EpisodeError | None = None
    reason = outcome.reason
    if isinstance(outcome, Answered | Stopped | Abstained):
        scores = asdict(score_outcome(outcome, labelled.gold, retained_at_the_end(result)))
        metrics = {**scores, "judge": None, "rounds": outcome.usage.searches, "actions": len(steps)}
        metrics |= rows_read(result, labelled.gold)
    if isinstance(outcome, Failed):
        reason = _hide_question(outcome.error, labelled.question.text)
        error = EpisodeError(outcome.cause, reason, outcome.remedy)
    return Episode(
        key=key,
        outcome=outcome.name,
        answer=result.answer,
        metrics=metrics,
        usage=_drop_timing(outcome.usage),
        reason=reason,
        answerability=outcome.answerability,
        sources=tuple(passage.id for passage in outcome.sources),
        citations=tuple(CitedSpan(each.passage_id, *each.span, each.role) for each in outcome.citations),
        best_guess=result.best_guess,
        steps=steps,
        calls=tuple(_make_call(event) for event in calls),
        error=error,
        timing=Timing(
            model_seconds=round(outcome.usage.seconds, 4),
            finished=now(),
            seconds=result.events[-1].at,
            cached_calls=outcome.usage.cached_calls,
            calls=tuple(round(event.seconds, 4) for event in calls),
            ends=tuple(round(event.at, 4) for event in calls),
            cached=tuple(event.cached for event in calls),
        ),
    )


def _steps(result: Result, labelled: LabelledQuestion) -> Iterator[Step]:
    """Gives one step for each decision, with what the events after it say that it changed."""
    step: Step | None = None
    for event in result.events:
        if isinstance(event, events.Decided):
            if step is not None:
                yield step
            step = _make_step(event, labelled)
        elif step is None:
            continue
        elif isinstance(event, events.Retrieved):
            step = replace(step, search=_make_search(event, result.question.text), evidence=event.evidence)
        elif isinstance(event, events.Rewritten):
            rewritten = _hide_question(event.after, result.question.text)
            step = replace(step, rewritten=rewritten, evidence=event.evidence)
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


def _make_step(event: events.Decided, labelled: LabelledQuestion) -> Step:
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
        attempt=_score_trial(event.attempt, labelled) if event.attempt else None,
        evidence=(),
    )


def _score_trial(attempt: Attempt, labelled: LabelledQuestion) -> TrialAnswer:
    if labelled.gold.is_set:
        return TrialAnswer(attempt.answer, attempt.tokens)
    scores = answer_scores(attempt.answer, labelled.gold)
    return TrialAnswer(attempt.answer, attempt.tokens, dict(zip(("exact_match", "f1", "cover"), scores, strict=True)))


def _make_search(event: events.Retrieved, question: str) -> Search:
    is_question = event.query == question
    return Search(
        query=None if is_question or event.query is None else _hide_question(event.query, question),
        is_question=is_question,
        hits=tuple((hit.passage.id, hit.score) for hit in event.hits),
        added=event.added,
        known=event.known,
        refused=event.refused,
        found_by={hit.passage.id: hit.provenance for hit in event.hits if hit.provenance is not None},
    )


def _make_call(event: events.CallFinished) -> ModelCall:
    return ModelCall(
        step=event.step,
        purpose=event.purpose,
        reply=event.reply,
        tokens_in=event.tokens_in,
        tokens_out=event.tokens_out,
        counted_by=event.counted_by,
        retries=event.retries,
        repairs=dict(event.repairs),
        least_token=event.least_token,
    )


def _drop_timing(usage: Usage) -> Usage:
    parts = {purpose: _drop_timing(part) for purpose, part in usage.by_purpose.items()}
    return replace(usage, seconds=0.0, cached_calls=0, by_purpose=parts)


def _hide_question(text: str, question: str) -> str:
    """Gives a text as a run keeps it: the question is the benchmark's, and a mark stands for it."""
    return text.replace(question, "[question]").replace(question[:80], "[question]")
