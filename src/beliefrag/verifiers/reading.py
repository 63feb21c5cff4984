"""Read the state of the evidence from a drafted answer, the passages and the search, without a model call.

s(p) is the relevance that the search gives to passage p, from 0 to 1. docs/results/diagnostics.md has the quality of
each.

- support: (held + stands) / 2, where held is the mean over the draft's words of the largest s(p) of a passage with the
  word, and stands says how much of the draft and of the question the best sentence has;
- conflict: the largest share of the question that a passage with the draft and one without it both speak of, times
  min(1, s(without) / s(with)): the same slot, filled differently;
- gap: the share of the search's scores that went to candidates which are not retained;
- uncertainty: 1 - (least + typical probability of the draft's words) / 2, function words left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from beliefrag.answering.packing import (
    EMPTY_WORDS,
    UNSPACED,
    SentenceReading,
    find_sentences,
    lower_words,
    match_words,
    read_sentences,
)
from beliefrag.models.protocol import TokenProbability
from beliefrag.types import Observation, Passage
from beliefrag.verifiers import Look

CLOSED = frozenset(("yes", "no"))
NO_ANSWER_WORDS = frozenset((
    "cannot", "insufficient", "no", "nobody", "none", "not", "nothing", "unavailable", "unclear", "undisclosed",
    "unknown", "unspecified",
))  # fmt: skip
"""Words that begin the reply of a model that finds no answer, in English."""
_NO_ANSWER_SCALE = 0.001
_NO_ANSWER_WEIGHT = 0.5
"""Where such words have more than that probability at the first token, the draft counts as about half as sure. The
numbers were chosen on train questions, each set with a fit to the others."""
_FOUND = 0.5
"""The presence of a draft that occurs in the evidence with no word of the question near it."""
_BEGINNING = 5
"""Words that agree in this many first letters count as the same: `opened` and `opening`."""


def observe_draft(question: str, answer: str, confidence: float, look: Look) -> Observation:
    """Return the observation of the evidence by an answer that was drafted from it, and how sure the draft is."""
    spans = [find_sentences(passage.text) for passage in look.passages]
    reading = read_sentences(question, look.passages, spans)
    words = _Words(question, answer)
    held = [_stems(f"{passage.title} {passage.text}") for passage in look.retained]
    return Observation(
        support=(_share_held(words, held, look.scores) + _measure_presence(words, reading, look.passages)) / 2,
        conflict=_contradicts(words, held, look.scores),
        uncertainty=1.0 - min(1.0, confidence),
        gap=min(1.0, max(0.0, look.beyond)),
        draft=answer,
    )


def measure_confidence(answer: str, tokens: Sequence[TokenProbability]) -> float:
    """Return how sure a draft is: (least + typical probability of its words) / 2, and less where the model had doubts.

    The typical probability is the geometric mean so that a long answer is not less sure because it is long.
    """
    logs = _word_logs(tokens)
    return (math.exp(min(logs)) + math.exp(sum(logs) / len(logs))) / 2 * discount_doubt(answer, tokens)


def _word_logs(tokens: Sequence[TokenProbability]) -> list[float]:
    """Return the logarithms of the probabilities of a draft's words, without punctuation.

    Function words count only where there are no others: a clause has many, and could well have others.
    """
    words: list[tuple[str, float]] = []
    for token in tokens:
        text = token.token
        # A part of a character in another script has no letters either, but is no punctuation.
        log = min(0.0, token.logprob) if lower_words(text) or not text.isascii() else 0.0
        if words and not text[:1].isspace() and not UNSPACED.match(text):
            before, its_log = words.pop()
            text, log = before + text, its_log + log
        words.append((text, log))
    content = [log for text, log in words if not EMPTY_WORDS.issuperset(lower_words(text))]
    return content or [log for _, log in words]


def discount_doubt(answer: str, tokens: Sequence[TokenProbability]) -> float:
    """Return 1, or less as far as the model thought of giving no answer: by the first words it could have written.

    The answer prompt asks for a best guess in any case so that such words rarely come first, but often second.
    """
    # To a question of yes or no, "no" is an answer.
    doubts = NO_ANSWER_WORDS - CLOSED if CLOSED.intersection(lower_words(answer)[:1]) else NO_ANSWER_WORDS
    mass = sum(math.exp(min(0.0, logprob)) for text, logprob in tokens[0].top if text.strip().lower() in doubts)
    return 1.0 - _NO_ANSWER_WEIGHT * mass / (mass + _NO_ANSWER_SCALE)


class _Words:
    """The words of a question and of the draft that matter, by their beginnings."""

    def __init__(self, question: str, answer: str) -> None:
        self.draft = lower_words(answer)
        asked = lower_words(question)
        self.question = tuple(dict.fromkeys(_stem(word) for word in match_words(question) if word not in EMPTY_WORDS))
        written = match_words(answer)
        content = [_stem(word) for word in written if word not in EMPTY_WORDS]
        self.content = content or list(map(_stem, written))
        self.new = [word for word in content if word not in self.question]
        self.is_closed = bool(CLOSED.intersection(self.draft[:1]))
        self.only_repeats = bool(self.draft) and "or" not in asked and set(self.draft) <= set(asked)


def _stem(word: str) -> str:
    return word if word.isdigit() else word[:_BEGINNING]


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(_stem, match_words(text)))


def _share_held(words: _Words, held: Sequence[frozenset[str]], scores: Sequence[float]) -> float:
    """Return how relevant the passages are that hold the draft: over its words, the mean of the best score.

    A draft that brings no word of its own, such as yes, is looked for by the words of the question.
    """
    wanted = words.question if words.is_closed or not words.new else words.new
    best = [
        max((score for own, score in zip(held, scores, strict=True) if word in own), default=0.0) for word in wanted
    ]
    return sum(best) / len(best) if best else 0.0


def _measure_presence(words: _Words, reading: SentenceReading, passages: Sequence[Passage]) -> float:
    """Return how well the draft is found in what was shown, from 0 to 1.

    That is the largest share of its words that a sentence has, times 1/2 + 1/2 of the question's share that the
    sentence covers; at least 1/2 of the share of its words that occur at all. A yes stands as far as the evidence
    covers the question.
    """
    if words.is_closed:
        best = [max(found, default=0.0) for found in zip(*(one.covers for one in reading.sentences), strict=True)]
        return min(1.0, sum(weight * cover for weight, cover in zip(reading.importance, best, strict=False)))
    if words.only_repeats or not words.draft:
        return 0.0
    known = _stems(" ".join(f"{passage.title} {passage.text}" for passage in passages))
    found = _FOUND * _share(words.content, known)
    phrase = f" {' '.join(words.draft)} "
    for one in reading.sentences:
        passage, (start, end) = passages[one.passage], one.span
        text = f"{passage.title} {passage.text[start:end]}"
        share = 1.0 if phrase in f" {' '.join(lower_words(text))} " else _share(words.content, _stems(text))
        around = sum(weight * cover for weight, cover in zip(reading.importance, one.covers, strict=True))
        found = max(found, share * (_FOUND + (1.0 - _FOUND) * around))
    return min(1.0, found)


def _share(wanted: Sequence[str], own: frozenset[str]) -> float:
    return sum(word in own for word in wanted) / len(wanted)


def _contradicts(words: _Words, held: Sequence[frozenset[str]], scores: Sequence[float]) -> float:
    """Return how far a passage speaks of the same part of the question as the draft's passage, and lacks the draft."""
    wanted = words.new or [_stem(word) for word in words.draft]
    shares = [_share(wanted, own) for own in held] if wanted else []
    most = max(shares, default=0.0)
    # No passage holds a yes.
    if words.is_closed or most <= 0.0:
        return 0.0
    count = {word: sum(word in own for own in held) for word in words.question}
    weight = {word: math.log(1 + len(held) / (0.5 + count[word])) for word in words.question}
    total = sum(weight.values()) or 1.0
    largest = 0.0
    for own, score, share in zip(held, scores, shares, strict=True):
        if share < most:
            continue
        for other, its_score, its_share in zip(held, scores, shares, strict=True):
            both = sum(weight[word] for word in words.question if word in own and word in other) / total
            likely = min(1.0, its_score / score) if score > 0.0 else 0.0
            largest = max(largest, both * likely * (most - its_share) / most)
    return largest
