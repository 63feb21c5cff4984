"""What an episode is worth: answer metrics against gold, and how much of the needed evidence was found.

An abstention scores 0 on every answer metric, but 1 where the documents have no answer. A failure has no score at all.
"""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from beliefrag.answering.packing import EMPTY_WORDS, lower_words
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.record import Episode, EpisodeKey, Step
from beliefrag.runs.record import now
from beliefrag.types import NO_ANSWER

_CLOSED = frozenset({"yes", "no", "noanswer"})
_HALF = 0.5
_SHORT = 5
_LONGEST = 25
"""The most words of an answer that is right because it contains a gold answer."""
_AGREEING = 0.6
_BEGINNING = 5
_COMBINATIONS = 64


def score_answer(answer: str | None, gold: Gold, retained: Collection[str]) -> dict[str, float | None]:
    """Return the scores of an answer, or of an abstention (None), and of the passages retained at the end.

    Each lies in [0, 1]; None where it has no meaning. Only set-valued questions have a recall of rows, and they have no
    exact match, F1 and cover.
    """
    one, f1, cover = (None, None, None) if gold.is_set else (float(is_rightly_declined(answer, gold)),) * 3
    rows = 0.0 if gold.is_set else None
    if answer is not None and gold.is_set:
        rows = answer_row_recall(answer, gold.answers)
    elif answer is not None:
        one, f1, cover = answer_scores(answer, gold)
    recall = evidence_recall(retained, gold.supporting)
    return {"exact_match": one, "f1": f1, "cover": cover, "evidence_recall": recall, "answer_row_recall": rows}


def is_rightly_declined(answer: str | None, gold: Gold) -> bool:
    """Return whether no answer was given to a question that the documents do not answer."""
    return answer is None and NO_ANSWER in gold.answers


def answer_scores(answer: str, gold: Gold) -> tuple[float, float, float]:
    """Return exact match, F1 and cover of an answer, where the question asks for one fact."""
    golds = accepted_answers(gold)
    return float(exact_match(answer, golds)), token_f1(answer, golds), float(covers(answer, gold))


def accepted_answers(gold: Gold) -> tuple[str, ...]:
    """Return the answers that exact match and F1 compare with: of several parts, one spelling each, in their order."""
    if len(gold.answer_groups) < 2:
        return gold.answers
    return tuple(" ".join(parts) for parts in itertools.islice(itertools.product(*gold.answer_groups), _COMBINATIONS))


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Return whether the prediction equals a gold answer after normalisation."""
    own = normalise(prediction)
    return any(own == normalise(gold) for gold in _require_golds(golds))


def token_f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the best F1 over gold answers between the words of both, counting repeated words.

    By HotpotQA's rule only equality counts where one side is exactly "yes", "no" or "noanswer": "no" has nothing in
    common with "No Doubt". All else is SQuAD's F1 to the letter.
    """
    return max(_f1(prediction, gold) for gold in _require_golds(golds))


def covers(prediction: str, gold: Gold) -> bool:
    """Return whether the prediction contains a gold answer as a run of whole words, both normalised.

    Whole words, because plain substrings find "no" in "nothing" and "12" in "2012". Where an answer has several
    parts, every part must be there.
    """
    own = tokens(prediction)
    groups = gold.answer_groups or (tuple(_require_golds(gold.answers)),)
    return all(any(_contains(own, tokens(spelling)) for spelling in group) for group in groups)


def agrees(answer: str, question: str, gold: Gold) -> bool | None:
    """Return whether an answer says what a gold answer says, be they short or in sentences; None if words cannot tell.

    Against a gold answer of at most `_SHORT` words, F1 of one half or containing it is enough. Against a longer one,
    three in five words of the answer must stand in it, function words and those of the question left out. A yes or no
    cannot be compared with a gold answer that is neither.
    """
    if NO_ANSWER in gold.answers:
        # Other answers beside the mark may still be in the documents.
        known = tuple(each for each in gold.answers if each != NO_ANSWER)
        return None if known and agrees(answer, question, Gold(known)) else False
    short = [each for each in gold.answers if len(each.split()) <= _SHORT]
    if short and (token_f1(answer, short) >= _HALF or (len(answer.split()) <= _LONGEST and covers(answer, gold))):
        return True
    if lower_words(answer) in (["yes"], ["no"]) and not any(
        tokens(each)[:1] in (["yes"], ["no"]) for each in gold.answers
    ):
        return None
    own = _find_content(answer).difference(_find_content(question))
    long = [each for each in gold.answers if len(each.split()) > _SHORT]
    return any(
        len(own & _find_content(each)) >= _AGREEING * len(own) if own else token_f1(answer, [each]) >= _HALF
        for each in long
    )


def _find_content(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text, without function words."""
    return frozenset(word[:_BEGINNING] for word in lower_words(text) if word not in EMPTY_WORDS)


def evidence_recall(retained: Collection[str], supporting: Sequence[str] | None) -> float | None:
    """Return the share of supporting passages among the retained ones; None where none are annotated."""
    wanted = set(supporting or ())
    return len(wanted & set(retained)) / len(wanted) if wanted else None


def answer_row_recall(prediction: str, rows: Sequence[str]) -> float:
    """Return the share of distinct gold rows that the prediction contains, for answers that are sets.

    The columns of a row, separated by " | ", may stand anywhere in the prediction.
    """
    own = tokens(prediction)
    columns = ((tuple(tokens(column)) for column in row.split(" | ")) for row in _require_golds(rows))
    distinct = {tuple(filter(None, row)) for row in columns}
    return sum(bool(row) and all(_contains(own, column) for column in row) for row in distinct) / len(distinct)


def recall_per_row_read(mean_recall: float, mean_rows_read: float) -> float:
    """Return row recall per row read, times 1,000: a method's mean recall divided by its mean number of rows."""
    if mean_rows_read <= 0:
        raise ValueError(f"recall per row read needs rows that were read, not {mean_rows_read:g}")
    return 1000 * mean_recall / mean_rows_read


def rows_read(episode: Episode, gold: Gold) -> dict[str, float]:
    """Count the rows that a question needs, the distinct rows that were read, and the needed ones among them."""
    needed = set(gold.supporting or ())
    if not (gold.is_set and needed):
        return {}
    read = {identifier for step in episode.steps if step.search for identifier, _ in step.search.hits}
    return {
        "rows_needed": float(len(needed)),
        "rows_read": float(len(read)),
        "row_recall_read": len(needed & read) / len(needed),
    }


def _f1(prediction: str, gold: str) -> float:
    own, right = tokens(prediction), tokens(gold)
    if own != right and not _CLOSED.isdisjoint((" ".join(own), " ".join(right))):
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


def _require_golds(golds: Sequence[str]) -> Sequence[str]:
    if not golds:
        raise ValueError("no gold answer to compare with")
    return golds


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Return the text as the SQuAD evaluation compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def tokens(text: str) -> list[str]:
    """Return the words of the normalised text, repeated ones as often as they occur."""
    return normalise(text).split()


def score_episode(episode: Episode, labelled: LabelledQuestion, key: EpisodeKey) -> Episode:
    """Return an episode as a run keeps it, not yet judged. A failed one has no metrics."""
    scored = episode.without_texts().model_copy(update={"dataset": key.dataset, "seed": key.seed, "ended": now()})
    if not episode.finished:
        return scored
    scores = score_answer(episode.answer, labelled.gold, episode.steps[-1].evidence)
    metrics = {**scores, "judge": None, "rounds": episode.usage.searches, "actions": len(episode.steps)}
    metrics |= rows_read(episode, labelled.gold)
    steps = tuple(_score_attempt(step, labelled.question.text, labelled.gold) for step in scored.steps)
    return scored.model_copy(update={"metrics": metrics, "steps": steps})


def _score_attempt(step: Step, question: str, gold: Gold) -> Step:
    if step.attempt is None or gold.is_set:
        return step
    answer = step.attempt.answer
    scores = dict(zip(("exact_match", "f1", "cover"), answer_scores(answer, gold), strict=True))
    if (right := agrees(answer, question, gold)) is not None:
        scores["agrees"] = float(right)
    return step.model_copy(update={"attempt": replace(step.attempt, scores=scores)})
