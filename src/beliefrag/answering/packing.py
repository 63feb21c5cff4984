"""Packing: which sentences of the passages a prompt shows, under a limit of words.

Sentences are chosen one after the other. A sentence is worth what it covers of the question beyond what is covered
already, weighed by how well the search liked its passage, and what it does for the others: it may name another passage
(a bridge needs both ends), or belong to a passage that a chosen sentence names. A sentence that begins with a pronoun
brings the one before it along. The worth is divided by the cost. All functions are lexical and pure, and ask no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise

from beliefrag.retrieval.documents import count_words, find_words, split_sentences
from beliefrag.types import Passage, Rules

LEAST_WORDS = 20
"""The smallest limit that makes sense: a title and a short sentence."""

_LONGEST_SENTENCE = 60
"""A sentence of more words, such as a table or a text without stops, is cut into parts."""
_PART = 40
_GAP = " … "
"""Stands where sentences were left out. It counts as a word."""
_LETTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Letters of scripts without spaces between words."""
_MARKS = "\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff"
"""Vowels and other marks within words, which Unicode does not class as letters."""
UNSPACED = re.compile(f"[{_LETTERS}]")
_WORD = re.compile(f"[{_LETTERS}]|[^\\W_{_LETTERS}]+(?:[{_MARKS}]+[^\\W_{_LETTERS}]*)*")
FUNCTION_WORDS = {
    kind: frozenset(words)
    for kind, *words in map(str.split, (files(__package__) / "function_words.txt").read_text("utf-8").splitlines())
}
EMPTY_WORDS = FUNCTION_WORDS["empty"]
PRONOUN = re.compile(r"\W*(?:he|she|it|they|his|her|hers|its|their|this|these|those)\b", re.IGNORECASE)
_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*$")
ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|old|far|tall|big|large)|(?:what|which) year|date)\b", re.IGNORECASE
)
_HEADINGS = " > "
"""What stands between the headings that lead to a passage, where its title is made of them."""
_DIGIT = re.compile(r"\d")
_PREFIX = 5
_PREFIX_MATCH = 0.7
"""How well two words match that begin alike, such as `director` and `directed`."""


# What a sentence is worth for each of its merits. The numbers were chosen on questions that no table shows.
_COVER = 1.0  # words of the question that nothing chosen so far covers
_OWN = 0.35  # words of the question, covered already or not
_LINK = 0.35  # names another passage
_NAMED = 0.5  # belongs to a passage that a chosen sentence names
_FIRST = 0.35  # is the first sentence of its passage, which usually says what it is about
_NUMBER = 0.4  # holds a number, and the question asks for one
_BASE = 0.05  # is there at all: other text still fills the room that is left
_LENGTH = 0.5  # the exponent of the cost that the worth is divided by
_SCORE = 1.5  # the exponent of the passage's score, relative to the best one


@dataclass(frozen=True, slots=True)
class PackedPassage:
    """A passage, and which parts of its text are shown."""

    passage: Passage
    """The whole passage, except that a title longer than half of the limit is cut."""
    spans: tuple[tuple[int, int], ...]
    """Where the shown sentences begin and end in its text, in order. Adjacent sentences are one span."""

    @property
    def shown(self) -> Passage:
        """The passage with the text that a prompt shows: `…` stands where something was left out."""
        text = self.passage.text
        # Inside a span the white space of the passage is kept: a line break may mean something.
        return replace(self.passage, text=_GAP.join(text[start:end] for start, end in self.spans))

    def locate_in(self, whole: str) -> PackedPassage:
        """Return the same parts in the whole text, where what was packed is a shortened text of some of its sentences.

        A part that joins sentences which are apart in the whole text becomes several.
        """
        if whole == self.passage.text:
            return self
        parts = [self.passage.text[start:end] for start, end in self.spans]
        spans = {span for part in parts for span in _locate_part(part, whole)}
        return PackedPassage(replace(self.passage, text=whole), tuple(sorted(spans)))


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence of the evidence, as it stands to the question."""

    passage: int
    place: int
    span: tuple[int, int]
    words: int
    covers: tuple[float, ...]
    """How well it covers each word of the question, its title included."""
    names: frozenset[int]
    """The other passages whose titles it has."""
    has_number: bool
    leans_back: bool
    """It begins with a pronoun that the sentence before explains."""


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """The sentences of all passages, as they stand to the question."""

    sentences: tuple[ReadSentence, ...]
    importance: tuple[float, ...]
    """How much each word of the question weighs: a word in few sentences weighs more. They sum to 1."""
    asks_number: bool


def pack_passages(
    question: str, passages: Sequence[Passage], limit: int, *, scores: Sequence[float] | None = None
) -> tuple[PackedPassage, ...]:
    """Choose what a prompt shows of these passages; there is at least one where any passage has words.

    Args:
        question: What is asked.
        passages: The evidence. Its order is kept.
        limit: The most words that may be shown, titles and gap marks included, counted as `count_words` does.
        scores: How well the search liked each passage; relative to the best one they weigh its sentences. Without
            them, or where none is above 0, all passages weigh alike.
    """
    if limit < LEAST_WORDS:
        raise ValueError(f"packing needs a limit of at least {LEAST_WORDS} words, not {limit}")
    held = [_with_short_title(passage, limit // 2) for passage in passages]
    spans = [find_sentences(passage.text) for passage in held]
    words = sum(count_words(one.title) + count_words(one.text) for one, own in zip(held, spans, strict=True) if own)
    if words <= limit:
        whole = ((one, ((own[0][0], own[-1][1]),)) for one, own in zip(held, spans, strict=True) if own)
        return tuple(PackedPassage(*each) for each in whole)
    selection = _Selection(held, spans, limit)
    _choose(selection, read_sentences(question, held, spans), _relative_scores(scores, len(held)))
    return selection.pack() or _first_words(held, spans, limit)


def describe_packing(retriever: str, limit: int | None, rules: Rules = Rules()) -> str:
    """Return the retriever's identity with how its hits are packed and by which rules, as a fit holds for no other."""
    packed = retriever if limit is None else f"{retriever}, packed to {limit} words"
    return f"{packed}, {rules}" if rules else packed


def find_sentences(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a text begin and end. A line break ends a sentence; a very long one is cut."""
    found: list[tuple[int, int]] = []
    for line in re.finditer(r"[^\n]+", text):
        at = line.start()
        for sentence in split_sentences(line[0]):
            at = text.index(sentence, at)
            found += _cut_long(text, at, at + len(sentence))
            at += len(sentence)
    return found


def _locate_part(part: str, whole: str) -> list[tuple[int, int]]:
    at = whole.find(part)
    if at >= 0:
        return [(at, at + len(part))]
    return [(start, end) for start, end in find_sentences(whole) if whole[start:end] in part]


def _cut_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    words = find_words(text[start:end])
    if len(words) <= _LONGEST_SENTENCE:
        if words:
            yield start, end
        return
    # Even parts: a short one at the end would look cheap.
    count = math.ceil(len(words) / _PART)
    for number in range(count):
        part = words[len(words) * number // count : len(words) * (number + 1) // count]
        yield start + part[0][0], start + part[-1][1]


def _with_short_title(passage: Passage, most: int) -> Passage:
    words = find_words(passage.title)
    return passage if len(words) <= most else replace(passage, title=passage.title[: words[most - 1][1]])


def _relative_scores(scores: Sequence[float] | None, count: int) -> list[float]:
    best = max(scores, default=0.0) if scores is not None else 0.0
    if scores is None or not 0.0 < best < math.inf:
        return [1.0] * count
    return [0.01 if math.isnan(score) else max(score / best, 0.01) for score in scores]


def _first_words(
    passages: Sequence[Passage], spans: Sequence[Sequence[tuple[int, int]]], limit: int
) -> tuple[PackedPassage, ...]:
    """Return the beginning of the first passage that has words: better than nothing, where not even a sentence fits."""
    for passage, own in zip(passages, spans, strict=True):
        if own:
            room = limit - count_words(passage.title)
            words = [(start, end) for start, end in find_words(passage.text)][:room]
            return (PackedPassage(passage, ((words[0][0], words[-1][1]),)),)
    return ()


class _Selection:
    """The sentences that are chosen so far, and what they cost."""

    def __init__(self, passages: Sequence[Passage], spans: Sequence[Sequence[tuple[int, int]]], limit: int) -> None:
        self._passages, self._spans, self._left = passages, spans, limit
        self._chosen: list[set[int]] = [set() for _ in passages]
        self._titles = [count_words(passage.title) for passage in passages]

    def cost(self, sentence: ReadSentence) -> int:
        """Return the words that this sentence would add: its own, the title of a new passage, and a mark for a gap."""
        chosen = self._chosen[sentence.passage]
        if not chosen:
            return sentence.words + self._titles[sentence.passage]
        # A sentence between two others closes their gap; one beside another opens none.
        beside = (sentence.place - 1 in chosen) + (sentence.place + 1 in chosen)
        return sentence.words + 1 - beside

    def has(self, sentence: ReadSentence) -> bool:
        return sentence.place in self._chosen[sentence.passage]

    def fits(self, sentence: ReadSentence) -> bool:
        return self.cost(sentence) <= self._left

    def take(self, sentence: ReadSentence) -> None:
        self._left -= self.cost(sentence)
        self._chosen[sentence.passage].add(sentence.place)

    def pack(self) -> tuple[PackedPassage, ...]:
        return tuple(
            PackedPassage(passage, tuple(_join_adjacent(sorted(chosen), spans)))
            for passage, spans, chosen in zip(self._passages, self._spans, self._chosen, strict=True)
            if chosen
        )


def _join_adjacent(places: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first = previous = places[0]
    for place in places[1:]:
        if place != previous + 1:
            yield spans[first][0], spans[previous][1]
            first = place
        previous = place
    yield spans[first][0], spans[previous][1]


def _choose(selection: _Selection, reading: SentenceReading, weights: Sequence[float]) -> None:
    """Take the sentence with the greatest worth for its cost, again and again, until none fits."""
    sentences, importance = reading.sentences, reading.importance
    by_place = {(one.passage, one.place): one for one in sentences}
    covered = [0.0] * len(importance)
    named: set[int] = set()
    fixed = [
        _BASE
        + _OWN * _weigh(one.covers, importance)
        + _LINK * max((weights[other] for other in one.names), default=0.0)
        + _FIRST * (one.place == 0)
        + _NUMBER * (reading.asks_number and one.has_number)
        for one in sentences
    ]
    while True:
        best, greatest = None, 0.0
        for one, own_worth in zip(sentences, fixed, strict=True):
            if selection.has(one) or not selection.fits(one):
                continue
            gain = sum(
                weight * (now - before)
                for weight, now, before in zip(importance, one.covers, covered, strict=True)
                if now > before
            )
            worth = own_worth + _COVER * gain + _NAMED * (one.passage in named)
            worth *= weights[one.passage] ** _SCORE / max(selection.cost(one), 4) ** _LENGTH
            if worth > greatest:
                best, greatest = one, worth
        if best is None:
            return
        selection.take(best)
        covered = [max(before, now) for before, now in zip(covered, best.covers, strict=True)]
        named |= best.names
        before = by_place.get((best.passage, best.place - 1)) if best.leans_back else None
        if before is not None and not selection.has(before) and selection.fits(before):
            selection.take(before)


def _weigh(covers: Sequence[float], importance: Sequence[float]) -> float:
    return sum(weight * cover for weight, cover in zip(importance, covers, strict=True))


def read_sentences(
    question: str, passages: Sequence[Passage], spans: Sequence[Sequence[tuple[int, int]]]
) -> SentenceReading:
    """Read all sentences in view of the question."""
    asked = [word for word in dict.fromkeys(match_words(question)) if word not in EMPTY_WORDS]
    asked = asked or list(dict.fromkeys(match_words(question)))
    titles = [match_words(passage.title) for passage in passages]
    names = [name_words(passage.title) for passage in passages]
    rows: list[ReadSentence] = []
    counts = [0] * len(asked)
    for number, (passage, own) in enumerate(zip(passages, spans, strict=True)):
        title_covers = cover_words(asked, titles[number])
        # A pronoun in the first two sentences refers to the title, unless that is a way of headings.
        explained = 1 if passage.title and _HEADINGS not in passage.title else 0
        for place, (start, end) in enumerate(own):
            text = passage.text[start:end]
            words = lower_words(text)
            covers = cover_words(asked, match_words(text))
            counts = [count + (cover > 0) for count, cover in zip(counts, covers, strict=True)]
            joined = f" {' '.join(words)} "
            named = frozenset(at for at, name in enumerate(names) if at != number and name and name in joined)
            all_covers = tuple(map(max, covers, title_covers))
            leans_back = place > explained and PRONOUN.match(text) is not None
            has_number = _DIGIT.search(text) is not None
            words_here = count_words(text)
            rows.append(
                ReadSentence(number, place, (start, end), words_here, all_covers, named, has_number, leans_back)
            )
    importance = [math.log(1 + len(rows) / (1 + count)) for count in counts]
    total = sum(importance) or 1.0
    weights = tuple(weight / total for weight in importance)
    return SentenceReading(tuple(rows), weights, ASKS_NUMBER.search(question) is not None)


def lower_words(text: str) -> list[str]:
    """Return the words of a text in small letters; a character of a script without spaces is a word."""
    return [found.lower() for found in _WORD.findall(text)]


def match_words(text: str) -> list[str]:
    """Return the words of a text to be compared with others: in a script without spaces, all pairs of characters.

    Single characters of such a script are in nearly every sentence.
    """
    words = lower_words(text)
    if not any(map(UNSPACED.match, words)):
        return words
    pairs = [f"{one}{two}" for one, two in pairwise(words) if UNSPACED.match(one) and UNSPACED.match(two)]
    return [word for word in words if not UNSPACED.match(word)] + pairs or words


def name_words(title: str) -> str:
    """Return a title as it is looked for in other passages, between spaces; empty where it is too short to be found."""
    words = " ".join(lower_words(_PARENTHESES.sub("", title)))
    return f" {words} " if len(words) > 3 else ""


def cover_words(asked: Sequence[str], words: Sequence[str]) -> list[float]:
    """Return how well words cover each asked word: 1 for the word itself, less for one that begins alike."""
    whole = set(words)
    beginnings = {word[:_PREFIX] for word in whole if len(word) >= _PREFIX}
    return [
        1.0 if word in whole else _PREFIX_MATCH if len(word) >= _PREFIX and word[:_PREFIX] in beginnings else 0.0
        for word in asked
    ]
