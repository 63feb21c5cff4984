"""Answers in sentences: each is checked against the evidence, and cites the sentences that it rests on.

A written sentence is supported if its words occur in the evidence sentences that it cites and in those that the short
answer rests on, with the titles of their passages:

- every number in it, and every name (a word that is capitalised within the sentence), occurs there;
- a negation (in English) occurs in a sentence that it cites;
- of its other content words, at least `ENOUGH` occur there, as they are or with the same beginning.

What is not supported is removed. The check is lexical, and pure: it finds what was added to the evidence, not every way
of misreading it. A sentence in another language than the evidence finds no support.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from beliefrag.answering.citing import Spans, choose_citations
from beliefrag.answering.packing import EMPTY_WORDS, cover_words, find_sentences, lower_words
from beliefrag.record import AnswerSentence
from beliefrag.retrieval.documents import split_sentences
from beliefrag.types import Citation, CitationRole, Passage

ENOUGH = 0.7
"""The share of the content words of a sentence that must occur in the evidence."""
_MOST_CITED = 2
_LEAST_GAIN = 2
"""How many further words of the sentence a second citation must hold."""
_NAME = re.compile(r"(?<![.!?:]\s)(?<!\A)(?<=\s)[\"'(\u201c]?([^\W\d_a-z][^\W_]*)")
_FRAME = re.compile(r"(?:the|these) passages? (?:\w+ly |also )?(?:state|say|mention)s? that (?=\w)", re.IGNORECASE)
_NEGATIONS = frozenset(["no", "not", "never", "none", "neither", "nor", "without", "cannot", "t"])
"""The `t` is that of `isn't`. Other languages are not checked for negations."""


class AnswerWriter:
    """The sentences of an answer that the evidence supports, and what they cite.

    Args:
        question: What was asked.
        short: The short answer, whose citations come first; empty for a list of items.
        passages: The evidence, whole.
        shown: Which parts of the passages the model saw; None where it saw them whole.
        written: The sentences as the model wrote them.
    """

    def __init__(
        self, question: str, short: str, passages: Sequence[Passage], shown: Spans | None, written: Sequence[str] = ()
    ) -> None:
        self.citations = list(choose_citations(question, short, passages, shown=shown)) if short else []
        self.sentences: list[AnswerSentence] = []
        self.left_out = 0
        self._evidence = list(_find_evidence(passages, shown))
        self._draft_words = {word for one in self.citations for word in lower_words(f"{one.title} {one.quote}")}
        for text in written:
            self.check(text)

    def check(self, text: str) -> AnswerSentence | None:
        """Return the next sentence with what it cites; None if it is not supported, or says nothing new."""
        words = list(dict.fromkeys(lower_words(text)))
        content = [word for word in words if word not in EMPTY_WORDS]
        if any(text == known.text for known in self.sentences) or not words:
            return None
        cited = self._choose(content)
        held = self._draft_words.union(*(words for _, words in cited))
        own = set[str]().union(*(words for _, words in cited))
        support = _share(content, held)
        needed = [word for word in words if word.isdigit()]
        needed += [word for name in _NAME.findall(text) for word in lower_words(name) if word not in EMPTY_WORDS]
        negates = _NEGATIONS.intersection(words)
        if not (cited and support >= ENOUGH and _share(needed, held) == 1.0 and (not negates or _NEGATIONS & own)):
            self.left_out += 1
            return None
        places = tuple(dict.fromkeys(self._cite(citation) for citation, _ in cited))
        sentence = AnswerSentence(text=text, support=round(support, 3), cites=places)
        self.sentences.append(sentence)
        return sentence

    @property
    def text(self) -> str:
        """The sentences so far, in a row; may be empty."""
        return " ".join(sentence.text for sentence in self.sentences)

    def _choose(self, content: Sequence[str]) -> list[tuple[Citation, set[str]]]:
        """Return the sentences of the evidence that hold most words of a written one."""
        chosen: list[tuple[Citation, set[str]]] = []
        left = list(content)
        for least in (1, *[_LEAST_GAIN] * (_MOST_CITED - 1)):
            words = set(left)  # of sentences with as many words, one that has them as they are
            best = max(self._evidence, key=lambda one: (_count(left, one[1]), len(words & one[1])), default=None)
            if best is None or _count(left, best[1]) < least:
                break
            chosen.append(best)
            covers = cover_words(left, list(best[1]))
            left = [word for word, cover in zip(left, covers, strict=True) if not cover]
        return chosen

    def _cite(self, citation: Citation) -> int:
        """Return the place of a citation, or of one that quotes the same words with others."""
        for place, known in enumerate(self.citations):
            inside = known.span[0] <= citation.span[0] and citation.span[1] <= known.span[1]
            if inside and known.passage_id == citation.passage_id:
                if known.role is CitationRole.RELATED:
                    self.citations[place] = replace(known, role=CitationRole.ANSWER)
                return place
        self.citations.append(citation)
        return len(self.citations) - 1


def split_written(text: str) -> list[str]:
    """Return the sentences of a written answer, without an English "The passage states that" before them."""
    sentences = (_FRAME.sub("", each) for part in text.splitlines() for each in split_sentences(part.strip()))
    return [sentence[0].upper() + sentence[1:] for sentence in sentences if sentence]


def _find_evidence(passages: Sequence[Passage], shown: Spans | None) -> Iterator[tuple[Citation, set[str]]]:
    """Yield the sentences of the evidence as citations, with their words and those of the title."""
    for passage in passages:
        for start, end in find_sentences(passage.text):
            if shown is None or any(start < last and first < end for first, last in shown.get(passage.id, ())):
                quote = passage.text[start:end]
                about = (passage.title, passage.source, passage.place)
                citation = Citation(passage.id, quote, (start, end), CitationRole.ANSWER, *about)
                yield citation, set(lower_words(f"{passage.title} {quote}"))


def _count(words: Sequence[str], held: set[str]) -> int:
    return sum(cover > 0 for cover in cover_words(words, list(held)))


def _share(words: Sequence[str], held: set[str]) -> float:
    return _count(words, held) / len(words) if words else 1.0
