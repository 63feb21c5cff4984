"""Citing: which sentences of the passages an answer rests on, in the order of the argument.

The sentence that holds the answer is looked for first, together with the one that leads to it from the question: a
bridge names what the answer's passage is about, or shares a rare word with it, and covers words of the question that
the answer's sentence leaves open. Where the question compares things, the sentences about all of them are cited.
All functions are lexical and pure, and ask no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beliefrag.answering.packing import (
    ASKS_NUMBER,
    EMPTY_WORDS,
    FUNCTION_WORDS,
    PRONOUN,
    cover_words,
    find_sentences,
    lower_words,
    match_words,
    name_words,
)
from beliefrag.retrieval.languages import analyse_english
from beliefrag.types import Citation, CitationRole, Passage

MOST_CITATIONS = 4
"""A person cannot follow an argument of more sentences."""

Spans = Mapping[str, Sequence[tuple[int, int]]]
"""Which parts of each passage a prompt showed, by the passage's id."""

_ASKING_WORDS = EMPTY_WORDS | FUNCTION_WORDS["asking"]
"""Words that say how something is asked, and not what about, in English."""
_TOKEN = re.compile(r"[^\W_]+(?:[-_./'\u2019][^\W_]+)*")
_POSSESSIVE = re.compile(r"['\u2019]s$", re.IGNORECASE)
_CLOSED = frozenset({"yes", "no"})
_COMPARES = re.compile(r"\b(?:both|common|same|or|share|shared)\b", re.IGNORECASE)
_HOLDS = 0.5
"""From this share of the answer's words on, a sentence counts as holding it."""
_NEAREST = 2
_SHORT = 6
"""A sentence of fewer words is quoted with the one before it."""
_RARE = 3
"""A word in more sentences than these links nothing."""
_MOST_SENTENCES = 200
"""Of more, the best by themselves are compared in pairs: foreign passages may be whole books."""
_LEAST_GAIN = 0.22
"""How much of the question a further sentence must cover to be cited, where nothing links it to the others."""
_LINKED_GAIN = 0.04
"""The same for a sentence that is linked to one that is cited."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    passage: int
    place: int
    span: tuple[int, int]
    words: tuple[str, ...]
    joined: str
    covers: tuple[float, ...]
    """How well it covers each word of the question, the title of its passage included."""
    held: float
    """How much of the answer it holds."""


def choose_citations(
    question: str, answer: str, passages: Sequence[Passage], *, shown: Spans | None = None
) -> tuple[Citation, ...]:
    """Choose the sentences that an answer rests on: those that lead to it before those that hold it.

    Where no sentence holds the answer, those that come nearest are cited, marked as merely related.

    Args:
        question: What was asked.
        answer: What was answered.
        passages: The evidence, whole.
        shown: Which parts of the passages the model saw; a sentence outside of them is cited only where none
            inside holds the answer. None where the model saw the passages whole.
    """
    reading = _Reading(question, answer, passages, shown)
    if not reading.sentences:
        return ()
    if reading.compares and (compared := _choose_compared(reading)):
        return reading.cite(compared, CitationRole.COMPARISON)
    if reading.most_held < _HOLDS:
        return reading.cite(_choose_nearest(reading), CitationRole.RELATED)
    return reading.cite(_choose_argument(reading), CitationRole.LINK)


def find_nearest(question: str, passages: Sequence[Passage], *, shown: Spans | None = None) -> tuple[Citation, ...]:
    """Find the sentences that come nearest to an answer where none is given, the nearest first."""
    reading = _Reading(question, "", passages, shown)
    return reading.cite(_choose_nearest(reading), CitationRole.RELATED)


def find_uncovered(question: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Find the words of a question that occur in none of the passages, as the question writes them.

    A word occurs where its stem does: `trip` in `Trips`, `approve` in `approval`. Words that only ask are left out.
    """
    known = {stem for passage in passages for stem in analyse_english(f"{passage.title} {passage.text}")}
    words = [word for passage in passages for word in match_words(f"{passage.title} {passage.text}")]
    uncovered = []
    for word in dict.fromkeys(_POSSESSIVE.sub("", word) for word in _TOKEN.findall(question)):
        parts = [part for part in match_words(word) if part not in _ASKING_WORDS]
        if parts and known.isdisjoint(analyse_english(" ".join(parts))) and not any(cover_words(parts, words)):
            uncovered.append(word)
    return tuple(uncovered)


class _Reading:
    """The sentences of all passages, as they stand to a question and an answer."""

    def __init__(self, question: str, answer: str, passages: Sequence[Passage], shown: Spans | None) -> None:
        self.passages = passages
        self.asks_number = ASKS_NUMBER.search(question) is not None
        asked = list(dict.fromkeys(match_words(question)))
        self.asked = [word for word in asked if word not in EMPTY_WORDS] or asked
        self._question = f" {' '.join(lower_words(question))} "
        # The last heading of a path is what a passage is about, and a text mentions it without the path.
        self.names = [
            own or name_words(one.title) for own, one in zip(map(_last_heading, passages), passages, strict=True)
        ]
        wanted = [word for word in lower_words(answer) if word not in {"a", "an", "the"}]
        self.spans = [find_sentences(passage.text) for passage in passages]
        every = [
            self._read(number, place, wanted) for number, own in enumerate(self.spans) for place in range(len(own))
        ]
        seen = [one for one in every if shown is None or _is_shown(one, passages, shown)]
        self.sentences = seen if any(one.held >= _HOLDS for one in seen) or not wanted else every
        self.frequency = Counter(word for one in self.sentences for word in set(one.words))
        counts = [sum(one.covers[at] > 0 for one in self.sentences) for at in range(len(self.asked))]
        weights = [math.log(1 + len(self.sentences) / (1 + count)) for count in counts]
        total = sum(weights) or 1.0
        self.importance = [weight / total for weight in weights]
        if len(self.sentences) > _MOST_SENTENCES:
            by_worth = sorted(self.sentences, key=lambda one: -one.held - self.cover(one))
            self.sentences = sorted(by_worth[:_MOST_SENTENCES], key=lambda one: (one.passage, one.place))
        self.most_held = max((one.held for one in self.sentences), default=0.0)
        phrase = f" {' '.join(wanted)} "
        self.compares = bool(wanted) and (
            " ".join(wanted) in _CLOSED or phrase in self._question or _COMPARES.search(question) is not None
        )

    def _read(self, number: int, place: int, wanted: Sequence[str]) -> _Sentence:
        start, end = self.spans[number][place]
        words = lower_words(self.passages[number].text[start:end])
        joined = f" {' '.join(words)} "
        title, matched = match_words(self.passages[number].title), match_words(self.passages[number].text[start:end])
        covers = tuple(map(max, cover_words(self.asked, matched), cover_words(self.asked, title)))
        held = _share_held(wanted, joined, self.names[number])
        return _Sentence(number, place, (start, end), tuple(words), joined, covers, held)

    def is_named(self, number: int) -> bool:
        """Return whether the question names what a passage is about."""
        return bool(self.names[number]) and self.names[number] in self._question

    def place_in_question(self, number: int) -> int:
        """Return where the question names what a passage is about."""
        return self._question.find(self.names[number])

    def cover(self, *sentences: _Sentence) -> float:
        """Return how much of the question these sentences cover together."""
        together: list[float] = [max(values) for values in zip(*(one.covers for one in sentences), strict=True)]
        return sum(weight * value for weight, value in zip(self.importance, together, strict=True))

    def names_passage(self, one: _Sentence, number: int) -> bool:
        """Return whether a sentence of another passage names what this passage is about."""
        return one.passage != number and bool(self.names[number]) and self.names[number] in one.joined

    def link(self, near: _Sentence, far: _Sentence) -> float:
        """Return how well one sentence leads to another: by the name of its passage, or a rare word."""
        if near.passage == far.passage:
            return 0.6 if abs(near.place - far.place) < 2 else 0.4
        if self.names_passage(far, near.passage):
            return 1.0
        if self.names_passage(near, far.passage):
            return 0.8
        shared = set(near.words).intersection(far.words).difference(self.asked, EMPTY_WORDS)
        return 0.5 if any(len(word) > 3 and self.frequency[word] <= _RARE for word in shared) else 0.0

    def cite(self, chosen: Sequence[_Sentence], other: CitationRole) -> tuple[Citation, ...]:
        """Return the citations of these sentences; those that do not hold the answer have the other role."""
        cited: list[Citation] = []
        for number, group in self._join_adjacent(chosen):
            passage, first, last = self.passages[number], group[0], group[-1]
            start, end = self.spans[number][first][0], self.spans[number][last][1]
            text = passage.text[start:end]
            # Such a sentence says little alone; the first one needs none before it, for its title is quoted with it.
            if first > 0 and (PRONOUN.match(text) or len(lower_words(text)) < _SHORT):
                start = self.spans[number][first - 1][0]
            holds = (chosen[-1].passage, chosen[-1].place) in {(number, place) for place in group}
            role = CitationRole.ANSWER if holds and other is CitationRole.LINK else other
            about = (passage.title, passage.source, passage.place)
            cited.append(Citation(passage.id, passage.text[start:end], (start, end), role, *about))
        # A sentence beside that which holds the answer is quoted with it, and so the answer comes last all the same.
        return tuple(sorted(cited, key=lambda one: one.role is CitationRole.ANSWER))

    def _join_adjacent(self, chosen: Sequence[_Sentence]) -> list[tuple[int, list[int]]]:
        """Return the chosen sentences by passage and place, those that stand side by side together."""
        groups: list[tuple[int, list[int]]] = []
        for one in chosen:
            for number, places in groups:
                if number == one.passage and any(abs(place - one.place) < 2 for place in places):
                    places.append(one.place)
                    places.sort()
                    break
            else:
                groups.append((one.passage, [one.place]))
        return groups


def _last_heading(passage: Passage) -> str:
    return name_words(passage.title.rpartition(" > ")[2])


def _is_shown(one: _Sentence, passages: Sequence[Passage], shown: Spans) -> bool:
    start, end = one.span
    return any(start < last and first < end for first, last in shown.get(passages[one.passage].id, ()))


def _share_held(wanted: Sequence[str], joined: str, name: str) -> float:
    """Return how much of an answer a sentence holds: all of it as it is written, or a share of its words."""
    if not wanted:
        return 0.0
    phrase = f" {' '.join(wanted)} "
    if phrase in joined:
        return 1.0
    if phrase == name:
        return 0.9
    content = [word for word in dict.fromkeys(wanted) if word not in EMPTY_WORDS] or list(wanted)
    share = sum(f" {word} " in joined for word in content) / len(content)
    return 0.8 * share if len(content) > 1 else 0.0


def _choose_argument(reading: _Reading) -> list[_Sentence]:
    """Return the sentence that holds the answer, after those that lead to it."""
    holding = [one for one in reading.sentences if one.held >= 0.7 * reading.most_held]
    best: tuple[float, tuple[_Sentence, ...]] = (-1.0, ())
    for end in holding:
        own = 1.5 * end.held + reading.cover(end) + 0.2 * reading.is_named(end.passage)
        if own > best[0]:
            best = (own, (end,))
        for bridge in reading.sentences:
            if bridge is end:
                continue
            link = reading.link(end, bridge)
            gain = reading.cover(end, bridge) - reading.cover(end)
            if gain < (_LINKED_GAIN if link else _LEAST_GAIN):
                continue
            worth = own + gain + 0.35 * link + 0.15 * reading.is_named(bridge.passage) - 0.2
            if worth > best[0]:
                best = (worth, (bridge, end))
    chosen = list(best[1])
    while len(chosen) < MOST_CITATIONS and (further := _find_further(reading, chosen)) is not None:
        chosen.insert(0, further)
    return chosen


def _find_further(reading: _Reading, chosen: Sequence[_Sentence]) -> _Sentence | None:
    """Find a sentence that covers what the chosen ones leave open of the question, if there is one worth citing."""
    covered = reading.cover(*chosen)
    best, most = None, 0.0
    for one in reading.sentences:
        if one in chosen:
            continue
        gain = reading.cover(*chosen, one) - covered
        link = max(reading.link(other, one) for other in chosen)
        if gain >= (_LINKED_GAIN if link >= 1.0 else _LEAST_GAIN) and gain + 0.3 * link > most:
            best, most = one, gain + 0.3 * link
    return best


def _choose_compared(reading: _Reading) -> list[_Sentence]:
    """Return the sentences about the things that the question names, with where each leads; none for fewer than two."""
    things: dict[str, list[int]] = {}
    for number, name in enumerate(reading.names):
        if reading.is_named(number):
            things.setdefault(name, []).append(number)
    if len(things) < 2:
        return []
    chosen: list[_Sentence] = []
    for numbers in sorted(things.values(), key=lambda numbers: reading.place_in_question(numbers[0])):
        own = [one for one in reading.sentences if one.passage in numbers]
        if not own:
            continue
        first = max(own, key=lambda one: _score_compared(reading, one))
        chosen.append(first)
        led = [
            one
            for one in reading.sentences
            if not reading.is_named(one.passage) and reading.names_passage(first, one.passage)
        ]
        if led:
            chosen.append(max(led, key=lambda one: _score_compared(reading, one)))
    return chosen[:MOST_CITATIONS]


def _score_compared(reading: _Reading, one: _Sentence) -> float:
    has_number = any(word.isdigit() for word in one.words)
    leads = any(
        reading.names_passage(one, other) and not reading.is_named(other) for other in range(len(reading.names))
    )
    return reading.cover(one) + 0.2 * (one.place == 0) + 0.2 * (reading.asks_number and has_number) + 0.2 * leads


def _choose_nearest(reading: _Reading) -> list[_Sentence]:
    """Return the sentences that cover most of the question and of the answer, the better first."""
    chosen: list[_Sentence] = []
    while len(chosen) < _NEAREST:
        left = [one for one in reading.sentences if one not in chosen]
        best = max(left, key=lambda one: reading.cover(*chosen, one) + one.held, default=None)
        gained = 0.0 if best is None else reading.cover(*chosen, best) - (reading.cover(*chosen) if chosen else 0.0)
        if best is None or gained <= 0.0:
            break
        chosen.append(best)
    return chosen
